"""Shared memory, /dev/shm: where DataLoader workers hand their batches over."""

import posixpath
import re

import msgspec

from dl_doctor.facts.mounts import Mounts
from dl_doctor.model import Unavailable
from dl_doctor.system import FileEntry, System

PATH = "/dev/shm"  # noqa: S108 (it is the subject)

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""/proc/self/ns/pid outside every PID namespace (PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h)."""

SEGMENT = re.compile(
    r"torch_([0-9]+)_[0-9]+_[0-9]+|__KMP_REGISTERED_LIB_([0-9]+)(?:_[0-9]+)?|sem\.loky-([0-9]+)-[a-z0-9_]+"
    r"|joblib_memmapping_folder_([0-9]+)_[0-9a-f_]+/[^/]+"
    r"|nccl-[A-Za-z0-9]{6}|cuda\.shm(?:\.[0-9a-f]+){3}|sem\.mp-[a-z0-9_]{8}",
    re.ASCII,
)
"""Names as the shared-memory libraries of this field make them up, with the number of the process that made it where that is
in it: torch (file_system strategy), LLVM's OpenMP, semaphores of loky, joblib, NCCL, CUDA IPC, semaphores of multiprocessing.
What multiprocessing.shared_memory makes (psm_...) stays until somebody removes it, whether a process uses it or not: it may
wait for the next one. Other files in /dev/shm may be data that somebody put there to read it fast."""


MAPPED = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]{2,8}):([0-9a-f]{2,8}) ([0-9]{1,20}) ", re.ASCII | re.MULTILINE)
"""A line of /proc/PID/maps: addresses, rights, offset, device and inode come before the path."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Files in /dev/shm that share a name's first part (`nccl`, `torch`, `plasma`)."""

    prefix: str
    used_bytes: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A shared-memory file of ours that no process uses any more: its maker was killed before it could remove it."""

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

    free_files: int | None = None
    """Files that an ordinary user can still make, or None where they are not counted, and in reports of version 0.1."""

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
        free_files=usage.available_files if usage.total_files else None,
        tenants=group_by_prefix(files),
        stale=stale_segments(system, files, mount.device if mount else None),
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


def stale_segments(system: System, files: list[FileEntry], device: str | None) -> tuple[Segment, ...] | None:
    """Segments of our user that no process maps or holds open, and whose maker has ended; None when not all can be seen."""
    ours = [file for file in files if SEGMENT.fullmatch(name_of(file)) and file.uid == system.uid()]
    if not ours:
        return ()
    uses = all_uses(system)
    if uses is None:
        return None
    left = [Segment(name=name_of(file), used_bytes=file.used_bytes) for file in ours if not uses.include(file, device)]
    return tuple(sorted(left, key=lambda segment: (-segment.used_bytes, segment.name)))


class Uses(msgspec.Struct, frozen=True):
    """What the processes in sight have in use."""

    processes: set[str]
    """Their numbers."""

    inodes: set[tuple[str, int]]
    """What they map, by device and inode: the same file may be mounted elsewhere too."""

    names: set[str]
    """Last parts of the paths that they hold open, for the same reason."""

    def include(self, file: FileEntry, device: str | None) -> bool:
        match = SEGMENT.fullmatch(name_of(file))
        maker = next(filter(None, match.groups()), None) if match else None
        return maker in self.processes or (device, file.inode) in self.inodes or posixpath.basename(file.path) in self.names


def all_uses(system: System) -> Uses | None:
    """Of every process; None where one may be hidden from us.

    Inside a PID namespace (most containers) /dev/shm may be shared with processes that have no number there: the host's
    under --ipc=host, the other containers' of a pod. Of other users' processes only root may ask.
    """
    try:
        if system.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE:
            return None
        processes = {name for name in system.listdir("/proc") if name.isdecimal()}
    except OSError:
        return None
    uses = Uses(processes, set(), set())
    for process in processes:
        try:
            uses.inodes.update(parse_maps(system.read_text(f"/proc/{process}/maps")))
            for descriptor in system.listdir(f"/proc/{process}/fd"):
                uses.names.add(posixpath.basename(system.readlink(f"/proc/{process}/fd/{descriptor}")))
        except PermissionError:  # another user's; ours are what our segments were made by
            continue
        except OSError:  # it has just ended
            continue
    return uses


def parse_maps(text: str) -> set[tuple[str, int]]:
    """Device (MAJOR:MINOR in decimal, as the mount table has it) and inode of each mapped file, see proc_pid_maps(5)."""
    return {(f"{int(m[1], 16)}:{int(m[2], 16)}", int(m[3])) for m in MAPPED.finditer(text)}
