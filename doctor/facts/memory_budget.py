"""Memory that is left for this job: the tightest of its groups' limits and of the machine."""

from typing import Literal

import msgspec

from dl_doctor.facts.cgroups import Cgroups, ControlGroup
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.system import System
from dl_doctor.text import Malformed, integer, key_values

NO_LIMIT_V1 = 1 << 60
"""cgroup v1 writes "unlimited" as the largest number of pages, a little below 2^63 and different per page size."""

DROPPABLE_V2 = ("inactive_file", "active_file", "slab_reclaimable")
DROPPABLE_V1 = ("total_inactive_file", "total_active_file")
"""What the kernel gives back before it kills: page cache, also what was read twice (active). Pages of a tmpfs are not in it."""


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
    """Source: memory.max and memory.high (v1: memory.limit_in_bytes) of the own group and its ancestors, /proc/meminfo,
    Slurm's grant where the group cannot be read.
    """

    limits: tuple[MemoryLimit, ...]
    """The one with the least headroom first; the last resort is the machine's own memory."""

    total_bytes: int
    """Of the machine."""

    limit_known: bool
    """Whether the own group could be read; if not, a tighter limit may be in force."""

    ancestors_known: bool
    """Whether the limits of all groups above are known too."""

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


def collect(system: System, cgroups: Cgroups, slurm: Slurm | Unavailable) -> MemoryBudget:
    meminfo = read_meminfo(system)
    group = cgroups.groups.get("memory")
    limits = [node_limit(meminfo), *(charged_limits(system, group) if group else [])]
    limit_known = group is None or group.own_visible
    if not limit_known and isinstance(slurm, Slurm) and slurm.memory_bytes:
        grant = slurm.memory_bytes
        limits.append(MemoryLimit(limit_bytes=grant, used_bytes=0, droppable_bytes=0, scope="container", source="Slurm's grant"))
    own = group.folders[0] if group and group.own_visible and group.folders else None
    return MemoryBudget(
        limits=tuple(sorted(limits, key=lambda limit: limit.headroom_bytes)),
        total_bytes=meminfo["MemTotal"],
        limit_known=limit_known,
        ancestors_known=group is None or group.top_visible or (own is not None and group.version == "v1"),
        kill_is_shared=kill_is_shared(system, own),
        working_set_bytes=working_set(system, own, group.version if group else "v2"),
        commit_left_bytes=commit_left(system, meminfo),
    )


def read_meminfo(system: System) -> dict[str, int]:
    """/proc/meminfo in bytes; what psutil gives where there is none."""
    try:
        return parse_meminfo(system.read_text("/proc/meminfo"))
    except FileNotFoundError:
        total, available = system.memory_without_proc()
        return {"MemTotal": total, "MemAvailable": available}


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


def node_limit(meminfo: dict[str, int]) -> MemoryLimit:
    total = meminfo["MemTotal"]
    return MemoryLimit(
        limit_bytes=total,
        used_bytes=total - meminfo["MemAvailable"],
        droppable_bytes=0,
        scope="node",
        source="MemAvailable of /proc/meminfo",
    )


def charged_limits(system: System, group: ControlGroup) -> list[MemoryLimit]:
    """The limit of every group that sets one, own and above."""
    if group.version == "v2":
        found = [limit for folder in group.folders for limit in limits_v2(system, folder)]
    else:
        found = [limit for folder in group.folders for limit in limits_v1(system, folder)]
    return found


def limits_v2(system: System, folder: str) -> list[MemoryLimit]:
    """memory.max, where the kernel kills, and memory.high, where it slows down. The root group has neither."""
    found = []
    for name in ("memory.max", "memory.high"):
        try:
            limit = parse_limit_v2(system.read_text(f"{folder}/{name}"))
        except FileNotFoundError:
            continue
        if limit is not None:
            used, stat = charged(system, folder, "memory.current")
            found.append(
                MemoryLimit(
                    limit_bytes=limit,
                    used_bytes=used,
                    droppable_bytes=sum(stat.get(key, 0) for key in DROPPABLE_V2),
                    scope="container",
                    source=f"{folder}/{name}",
                )
            )
    return found


def parse_limit_v2(text: str) -> int | None:
    return None if text.strip() == "max" else integer(text)


def limits_v1(system: System, folder: str) -> list[MemoryLimit]:
    """memory.limit_in_bytes, or the tightest of all ancestors, seen or not, which memory.stat knows."""
    try:
        own = integer(system.read_text(f"{folder}/memory.limit_in_bytes"))
    except FileNotFoundError:
        return []
    used, stat = charged(system, folder, "memory.usage_in_bytes")
    above = stat.get("hierarchical_memory_limit", own)
    limit, name = (above, "memory.stat") if above < own else (own, "memory.limit_in_bytes")
    if limit >= NO_LIMIT_V1:
        return []
    return [
        MemoryLimit(
            limit_bytes=limit,
            used_bytes=used,
            droppable_bytes=sum(stat.get(key, 0) for key in DROPPABLE_V1),
            scope="container",
            source=f"{folder}/{name}",
        )
    ]


def charged(system: System, folder: str, counter: str) -> tuple[int, dict[str, int]]:
    """What is charged to a group, and its memory.stat."""
    return integer(system.read_text(f"{folder}/{counter}")), key_values(system.read_text(f"{folder}/memory.stat"))


def working_set(system: System, own: str | None, version: str) -> int | None:
    """memory.current - inactive_file, never below 0, as cAdvisor computes it."""
    if own is None:
        return None
    counter, inactive = (
        ("memory.current", "inactive_file") if version == "v2" else ("memory.usage_in_bytes", "total_inactive_file")
    )
    try:
        used, stat = charged(system, own, counter)
    except OSError:
        return None
    return max(used - stat.get(inactive, 0), 0)


def kill_is_shared(system: System, own: str | None) -> bool | None:
    try:
        return integer(system.read_text(f"{own}/memory.oom.group")) == 1 if own else None
    except OSError:
        return None


def commit_left(system: System, meminfo: dict[str, int]) -> int | None:
    try:
        enforced = integer(system.read_text("/proc/sys/vm/overcommit_memory")) == 2
    except OSError:
        return None
    if not enforced or not {"CommitLimit", "Committed_AS"} <= meminfo.keys():
        return None
    return max(meminfo["CommitLimit"] - meminfo["Committed_AS"], 0)
