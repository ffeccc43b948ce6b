"""Resource limits of this process, which the job inherits."""

import msgspec

from dl_doctor.system import System
from dl_doctor.text import integer


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Source: getrlimit(2), /proc/self/fd and /proc/sys/vm/max_map_count. None is no limit, or, for counts, unknown."""

    open_files_soft: int | None
    """Descriptors a process may have open; it may raise this up to the hard limit by itself."""

    open_files_hard: int | None
    open_files_now: int | None
    """Descriptors that are open in this process, and so inherited by the job that the same shell starts."""

    address_space_bytes: int | None
    """RLIMIT_AS, soft: all that is mapped, used or not. CUDA maps far more than it uses."""

    data_bytes: int | None
    """RLIMIT_DATA, soft."""

    max_map_count: int | None
    """Mappings a process may have."""


def collect(system: System) -> Limits:
    soft, hard = system.rlimit("NOFILE")
    return Limits(
        open_files_soft=soft,
        open_files_hard=hard,
        open_files_now=open_now(system),
        address_space_bytes=system.rlimit("AS")[0],
        data_bytes=system.rlimit("DATA")[0],
        max_map_count=max_map_count(system),
    )


def open_now(system: System) -> int | None:
    """Without the one that lists the folder."""
    try:
        return len(system.listdir("/proc/self/fd")) - 1
    except OSError:
        return None


def max_map_count(system: System) -> int | None:
    try:
        return integer(system.read_text("/proc/sys/vm/max_map_count"))
    except OSError:
        return None
