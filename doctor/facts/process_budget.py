"""How many more processes and threads may be started: every limit on them, and what is taken of each."""

from collections.abc import Iterator

import msgspec

from dl_doctor.facts.cgroups import Cgroups, ControlGroup
from dl_doctor.system import System
from dl_doctor.text import Malformed, integer


class ProcessLimit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit. The kernel counts threads: a process is one at least."""

    limit: int
    used: int
    """At least: of a user's threads only those in sight are counted, and what cannot be read counts as nothing."""

    source: str

    @property
    def left(self) -> int:
        return max(self.limit - self.used, 0)


class ProcessBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Source: pids.max of the own group and its ancestors, RLIMIT_NPROC, /proc/sys/kernel/threads-max and pid_max."""

    limits: tuple[ProcessLimit, ...]
    """The one with the least left first; none where nothing limits them."""

    limit_known: bool
    """Whether the own group's limit, and all that are in sight, could be read; if not, less may be left."""

    ancestors_known: bool
    """Whether all groups above are in sight; if not, they may leave less."""

    @property
    def tightest(self) -> ProcessLimit | None:
        return self.limits[0] if self.limits else None


def collect(system: System, cgroups: Cgroups) -> ProcessBudget:
    group = cgroups.groups.get("pids")
    of_groups, known = group_limits(system, group) if group else ([], True)
    found = [*of_groups, *user_limit(system), *kernel_limits(system)]
    return ProcessBudget(
        limits=tuple(sorted(found, key=lambda limit: limit.left)),
        limit_known=known,
        ancestors_known=group is None or group.top_visible,
    )


def group_limits(system: System, group: ControlGroup) -> tuple[list[ProcessLimit], bool]:
    found, known = [], group.own_visible
    for folder in group.folders:
        source = f"{folder}/pids.max"
        try:
            limit = parse_limit(system.read_text(source))
        except FileNotFoundError:  # the root has none
            continue
        except (OSError, Malformed):
            known = False
            continue
        if limit is not None:
            used = number(system, f"{folder}/pids.current")
            known = known and used is not None
            found.append(ProcessLimit(limit=limit, used=used or 0, source=source))
    return found, known


def parse_limit(text: str) -> int | None:
    """None for `max`."""
    return None if text.strip() == "max" else integer(text)


def user_limit(system: System) -> list[ProcessLimit]:
    """RLIMIT_NPROC: the kernel compares it with all threads of the user, and spares root, but not a rootless container's."""
    uid = system.uid()
    limit = None if uid == 0 and outside_number(system) == 0 else system.rlimit("NPROC")[0]
    if limit is None:
        return []
    return [ProcessLimit(limit=limit, used=sum(threads_of(system, uid)), source="RLIMIT_NPROC (ulimit -u)")]


def outside_number(system: System) -> int:
    """Which user root is outside this user namespace; 0 where there is none. See user_namespaces(7)."""
    try:
        first, outside, _ = system.read_text("/proc/self/uid_map").split()[:3]
        return integer(outside) if integer(first) == 0 else 0
    except (OSError, Malformed, ValueError):
        return 0


def threads_of(system: System, uid: int) -> Iterator[int]:
    """Of each process of this user that is in sight."""
    for pid in system.listdir("/proc"):
        if pid.isdecimal():
            try:
                lines = system.read_text(f"/proc/{pid}/status").splitlines()
                fields = dict(line.split(":", 1) for line in lines if ":" in line)
                if integer(fields["Uid"].split()[0]) == uid:
                    yield integer(fields["Threads"])
            except (OSError, Malformed, KeyError, IndexError):  # it has just ended
                continue


def kernel_limits(system: System) -> list[ProcessLimit]:
    """Of the whole machine, whose threads /proc/loadavg counts."""
    try:
        used = integer(system.read_text("/proc/loadavg").split()[3].partition("/")[2])
    except (OSError, Malformed, IndexError):
        used = 0
    sources = ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max")
    limits = [(number(system, source), source) for source in sources]
    return [ProcessLimit(limit=limit, used=used, source=source) for limit, source in limits if limit is not None]


def number(system: System, path: str) -> int | None:
    try:
        return integer(system.read_text(path))
    except (OSError, Malformed):
        return None
