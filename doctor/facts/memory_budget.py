"""Memory that is left for this job: the tightest of its groups' limits and of the machine."""

from typing import Literal

import msgspec

from dl_doctor.facts.cgroups import Cgroups, ControlGroup
from dl_doctor.facts.mounts import Mounts
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.system import System
from dl_doctor.text import Malformed, integer, key_values
from dl_doctor.units import MIB

MAIN_PROCESS_BYTES = 140 * MIB
"""Anonymous memory of a process that has imported torch: measured (RssAnon) with torch 2.13 for CPUs."""

NO_LIMIT_V1 = 1 << 60
"""cgroup v1 writes "unlimited" as the largest number of pages, a little below 2^63 and different per page size."""

LIMITS = {"v2": ("memory.max", "memory.high"), "v1": ("memory.limit_in_bytes",)}
"""Where the kernel kills, and where (memory.high) it slows down."""

DROPPABLE = {
    "v2": ("inactive_file", "active_file", "slab_reclaimable"),
    "v1": ("total_inactive_file", "total_active_file"),
}
"""What the kernel gives back before it kills: page cache, also what was read twice (active). Pages of a tmpfs are not in it."""

ZFS_CACHE = "/proc/spl/kstat/zfs/arcstats"
"""The cache of ZFS (ARC), which is no page cache: MemAvailable takes it for used. Down to c_min it is given back, as in htop."""


class MemoryLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and what is charged to it."""

    limit_bytes: int
    used_bytes: int
    """All that is charged, page cache included."""

    droppable_bytes: int
    """The part of it that the kernel gives back when it is needed."""

    scope: Literal["container", "node"]
    source: str

    @property
    def headroom_bytes(self) -> int:
        return max(self.limit_bytes - max(self.used_bytes - self.droppable_bytes, 0), 0)


class MemoryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Source: memory.max and memory.high (v1: memory.limit_in_bytes) of the own group and its ancestors, /proc/meminfo and
    the cache of ZFS, Slurm's grant where the group cannot be read.
    """

    limits: tuple[MemoryLimit, ...]
    """The one with the least headroom first; the last resort is the machine's own memory."""

    total_bytes: int
    """Of the machine."""

    limit_known: bool
    """Whether all that is in sight could be read; if not, a tighter limit may be in force, or less may be left."""

    ancestors_known: bool
    """Whether all groups above are in sight; if not, what they leave may be less."""

    kill_is_shared: bool | None
    """memory.oom.group: whether one process too large ends the whole container. None where the kernel has no such file."""

    working_set_bytes: int | None
    """As the kubelet counts it for evictions: all that is charged but for inactive page cache."""

    commit_left_bytes: int | None
    """CommitLimit - Committed_AS where vm.overcommit_memory is 2, else None: it is not enforced."""

    @property
    def tightest(self) -> MemoryLimit:
        return self.limits[0]

    @property
    def headroom_bytes(self) -> int:
        return self.tightest.headroom_bytes


def collect(system: System, mounts: Mounts | Unavailable, cgroups: Cgroups, slurm: Slurm | Unavailable) -> MemoryBudget:
    meminfo, node_read = read_meminfo(system)
    group = cgroups.groups.get("memory")
    found, groups_read = charged_limits(system, group) if group else ([], True)
    limits = [node_limit(meminfo, zfs_cache(system, mounts)), *found]
    limit_known = node_read and groups_read and (group is None or group.own_visible)
    if not limit_known and isinstance(slurm, Slurm) and slurm.memory_bytes:
        grant = slurm.memory_bytes
        limits.append(MemoryLimit(limit_bytes=grant, used_bytes=0, droppable_bytes=0, scope="container", source="Slurm's grant"))
    own = group.folders[0] if group and group.own_visible and group.folders else None
    return MemoryBudget(
        limits=tuple(sorted(limits, key=lambda limit: limit.headroom_bytes)),
        total_bytes=meminfo["MemTotal"],
        limit_known=limit_known,
        ancestors_known=group is None or group.top_visible,
        kill_is_shared=kill_is_shared(system, own),
        working_set_bytes=working_set(system, own, group.version if group else "v2"),
        commit_left_bytes=commit_left(system, meminfo),
    )


def read_meminfo(system: System) -> tuple[dict[str, int], bool]:
    """/proc/meminfo in bytes, and whether it could be read; without it, what the system says in another way."""
    read = False
    try:
        return parse_meminfo(system.read_text("/proc/meminfo")), True
    except FileNotFoundError:
        read = True  # a system without /proc has its own way
    except (OSError, Malformed):
        pass
    total, available = system.memory_without_proc()
    return {"MemTotal": total, "MemAvailable": available}, read


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name; Malformed without MemTotal. Kernels before 3.14 lack MemAvailable: free memory and cache stand in."""
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) == 2 and fields[1] == "kB":
            values[name] = integer(fields[0]) * 1024
    if "MemTotal" not in values:
        raise Malformed("no MemTotal in /proc/meminfo", text)
    values.setdefault("MemAvailable", values.get("MemFree", 0) + values.get("Cached", 0) - values.get("Shmem", 0))
    return values


def zfs_cache(system: System, mounts: Mounts | Unavailable) -> int:
    """Bytes that ZFS would give back. Where a container has a meminfo of its own (lxcfs), the host's cache is none of its."""
    mount = mounts.containing("/proc/meminfo") if isinstance(mounts, Mounts) else None
    if mount is not None and mount.mount_point == "/proc/meminfo":
        return 0
    try:
        rows = [line.split() for line in system.read_text(ZFS_CACHE).splitlines()]
        sizes = {row[0]: integer(row[2]) for row in rows if len(row) == 3 and row[0] in ("size", "c_min")}
    except (OSError, Malformed):
        return 0
    return max(sizes.get("size", 0) - sizes.get("c_min", 0), 0)


def node_limit(meminfo: dict[str, int], droppable: int) -> MemoryLimit:
    total = meminfo["MemTotal"]
    return MemoryLimit(
        limit_bytes=total,
        used_bytes=total - meminfo["MemAvailable"],
        droppable_bytes=droppable,
        scope="node",
        source="MemAvailable of /proc/meminfo" + (", and the cache of ZFS" if droppable else ""),
    )


def charged_limits(system: System, group: ControlGroup) -> tuple[list[MemoryLimit], bool]:
    """The limit of every group that sets one, own and above, and whether all could be read, with what is charged to them."""
    read = [read_limit(system, group, folder, name) for folder in group.folders for name in LIMITS[group.version]]
    return [limit for limit, _ in read if limit is not None], all(complete for _, complete in read)


def read_limit(system: System, group: ControlGroup, folder: str, name: str) -> tuple[MemoryLimit | None, bool]:
    """A limit of one group, None where it sets none, and whether all that decides it could be read.

    memory.stat of v1 knows the tightest limit of all ancestors. Where the group that sets it is out of sight, so is what is
    charged to it, and only the least that can be taken off is known.
    """
    try:
        limit = parse_limit(system.read_text(f"{folder}/{name}"))
    except FileNotFoundError:  # the root group has none
        return None, True
    except (OSError, Malformed):
        return None, False
    used, stat, complete = charged(system, folder, group.version)
    above = stat.get("hierarchical_memory_limit", NO_LIMIT_V1)
    if not group.top_visible and above < (NO_LIMIT_V1 if limit is None else limit):
        limit, name, complete = above, "memory.stat", False
    if limit is None:
        return None, True
    droppable = sum(stat.get(key, 0) for key in DROPPABLE[group.version])
    source = f"{folder}/{name}"
    return (
        MemoryLimit(limit_bytes=limit, used_bytes=used, droppable_bytes=droppable, scope="container", source=source),
        complete,
    )


def parse_limit(text: str) -> int | None:
    """Bytes; None for `max`, and for the number that stands for no limit in v1."""
    if text.strip() == "max":
        return None
    limit = integer(text)
    return limit if 0 <= limit < NO_LIMIT_V1 else None


def charged(system: System, folder: str, version: str) -> tuple[int, dict[str, int], bool]:
    """What is charged to a group, its memory.stat, and whether both could be read; what could not counts as nothing."""
    counter = "memory.current" if version == "v2" else "memory.usage_in_bytes"
    try:
        return integer(system.read_text(f"{folder}/{counter}")), key_values(system.read_text(f"{folder}/memory.stat")), True
    except (OSError, Malformed):
        return 0, {}, False


def working_set(system: System, own: str | None, version: str) -> int | None:
    """What is charged less inactive page cache, never below 0, as cAdvisor computes it."""
    used, stat, read = charged(system, own, version) if own else (0, {}, False)
    inactive = "inactive_file" if version == "v2" else "total_inactive_file"
    return max(used - stat.get(inactive, 0), 0) if read else None


def kill_is_shared(system: System, own: str | None) -> bool | None:
    try:
        return integer(system.read_text(f"{own}/memory.oom.group")) == 1 if own else None
    except (OSError, Malformed):
        return None


def commit_left(system: System, meminfo: dict[str, int]) -> int | None:
    try:
        enforced = integer(system.read_text("/proc/sys/vm/overcommit_memory")) == 2
    except (OSError, Malformed):
        return None
    if not enforced or not {"CommitLimit", "Committed_AS"} <= meminfo.keys():
        return None
    return max(meminfo["CommitLimit"] - meminfo["Committed_AS"], 0)
