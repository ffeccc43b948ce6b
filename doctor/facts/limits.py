"""Resource limits of this process, which the job inherits."""

import msgspec

from dl_doctor.system import System
from dl_doctor.text import Malformed, integer


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Source: getrlimit(2), /proc/self/fd and /proc/sys/vm/max_map_count. None is no limit; of the last one, unknown."""

    open_files_soft: int | None
    """Descriptors a process may have open; it may raise this up to the hard limit by itself."""

    open_files_hard: int | None
    inherited_files: int
    """Descriptors that were handed to this process, and would be to the job in its place: usually 0, 1 and 2."""

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
        inherited_files=system.inherited_descriptors(),
        address_space_bytes=system.rlimit("AS")[0],
        data_bytes=system.rlimit("DATA")[0],
        max_map_count=max_map_count(system),
    )


def max_map_count(system: System) -> int | None:
    try:
        return integer(system.read_text("/proc/sys/vm/max_map_count"))
    except (OSError, Malformed):
        return None
