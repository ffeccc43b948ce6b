"""Shared memory, /dev/shm: where DataLoader workers hand their batches over."""

import re

import msgspec

from dl_doctor.facts.mounts import Mounts
from dl_doctor.model import Unavailable
from dl_doctor.system import FileEntry, System

PATH = "/dev/shm"  # noqa: S108 (it is the subject)

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""/proc/self/ns/pid outside every PID namespace (PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h)."""

SEGMENT = re.compile(
    r"torch_[0-9]+_|nccl-|psm_|cuda\.shm\.|joblib_memmapping|sem\.(mp-|loky-)|loky-|plasma|__KMP_REGISTERED_LIB_",
    re.ASCII,
)
"""How shared-memory libraries of this field begin the names of what they share: torch (file_system strategy), NCCL,
multiprocessing.shared_memory, CUDA IPC, joblib, semaphores of multiprocessing and loky, Ray, LLVM's OpenMP.
Other files in /dev/shm may be data that somebody put there to read it fast."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Files in /dev/shm that share a name's first part (`nccl`, `torch`, `plasma`)."""

    prefix: str
    used_bytes: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A shared-memory file of ours that no process uses any more: its owner was killed before it could remove it."""

    name: str
    used_bytes: int


class SharedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The filesystem that POSIX shared memory lives on.

    Source: the mount that is seen at /dev/shm, statvfs(3), the files in it, and /proc/*/maps and /proc/*/fd.
    """

    filesystem: str
    """Type of the mount; a tmpfs, where all is well."""

    size_bytes: int | None
    """Its size, or None without a limit (mounted with `size=0`, which statvfs shows as 0 blocks)."""

    free_bytes: int | None
    """What an ordinary user can still take, or None without a limit."""

    tenants: tuple[Tenant, ...]
    """Who holds the most of it, largest first."""

    stale: tuple[Segment, ...] | None
    """Left-over segments of our user, largest first; None where processes that may use them are out of our sight."""


def collect(system: System, mounts: Mounts | Unavailable) -> SharedMemory | Unavailable:
    mount = mounts.containing(PATH) if isinstance(mounts, Mounts) else None
    try:
        usage = system.statvfs(PATH)
    except FileNotFoundError:
        if isinstance(mounts, Unavailable):  # no /proc either: another kind of system
            return mounts.inherited_from("mounts")
        return Unavailable.absent(f"there is no {PATH}")
    files = system.files_below(PATH)
    limited = usage.total_bytes > 0
    return SharedMemory(
        filesystem=mount.filesystem if mount else "unknown",
        size_bytes=usage.total_bytes if limited else None,
        free_bytes=usage.available_bytes if limited else None,
        tenants=group_by_prefix(files),
        stale=stale_segments(system, files),
    )


def group_by_prefix(files: list[FileEntry]) -> tuple[Tenant, ...]:
    """Add sizes up by the part of the name before the first `-`, `_` or `.`, largest first."""
    totals: dict[str, int] = {}
    for file in files:
        prefix = re.split("[-_.]", name_of(file), maxsplit=1)[0]
        totals[prefix] = totals.get(prefix, 0) + file.used_bytes
    largest_first = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Tenant(prefix=prefix, used_bytes=size) for prefix, size in largest_first if size)


def name_of(file: FileEntry) -> str:
    """The file's name below /dev/shm, as shm_open(3) takes it."""
    return file.path.removeprefix(f"{PATH}/")


def stale_segments(system: System, files: list[FileEntry]) -> tuple[Segment, ...] | None:
    """Segments of our user that no process maps or holds open; None when not all processes can be seen."""
    ours = [file for file in files if SEGMENT.match(name_of(file)) and file.uid == system.uid()]
    if not ours:
        return ()
    in_use = paths_in_use(system)
    if in_use is None:
        return None
    left = [Segment(name=name_of(file), used_bytes=file.used_bytes) for file in ours if file.path not in in_use]
    return tuple(sorted(left, key=lambda segment: (-segment.used_bytes, segment.name)))


def paths_in_use(system: System) -> set[str] | None:
    """Files in /dev/shm that a process maps or holds open; None where a process may be hidden from us.

    Inside a PID namespace (most containers) /dev/shm may be shared with processes that have no number there: the host's
    under --ipc=host, the other containers' of a pod. Of other users' processes only root may ask.
    """
    paths: set[str] = set()
    try:
        if system.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE:
            return None
        processes = [name for name in system.listdir("/proc") if name.isdecimal()]
    except OSError:
        return None
    for process in processes:
        try:
            paths |= parse_mapped(system.read_text(f"/proc/{process}/maps"))
            for descriptor in system.listdir(f"/proc/{process}/fd"):
                paths.add(system.readlink(f"/proc/{process}/fd/{descriptor}"))
        except PermissionError:  # another user's; ours are what our segments were made by
            continue
        except OSError:  # it has just ended
            continue
    return paths


def parse_mapped(text: str) -> set[str]:
    """Paths below /dev/shm in /proc/PID/maps, see proc_pid_maps(5)."""
    names = (line.partition(f" {PATH}/")[2] for line in text.split("\n"))
    return {f"{PATH}/{name}" for name in names if name}
