"""The one door to the operating system.

Facts read through it and nothing else, so that a recorded machine, or a host mounted below a folder, can stand in for the
real one. Only /proc, /sys, /etc, listings of /dev and the tmpfs at /dev/shm are touched here: they do not hang.
Text arrives decoded; bytes that are not UTF-8 are shown by their numbers (backslashreplace).
"""

import errno
import os
import resource
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

import msgspec

from dl_doctor.model import Unavailable
from dl_doctor.text import mount_points

LARGEST_FILE = 64 << 20
"""Bytes read of one file; the largest of /proc is the mount table, some MiB on a node with many containers."""

CHUNK = 1 << 16
"""Bytes read at once: files of /proc have no size to trust, and /proc/sys refuses large reads with ENOMEM."""

HIGHEST_DESCRIPTOR = 1024
"""Descriptors that are handed over have small numbers; the usual soft limit."""

MOST_LINKS = 40
"""Links that are followed in one path, as many as the kernel follows; path_resolution(7)."""

MOST_FILES = 20_000
"""Files looked at below one folder."""


class Missing(Exception):
    """Raised where something cannot be had; becomes the fact's Unavailable."""

    def __init__(self, reason: Unavailable) -> None:
        super().__init__(reason.detail)
        self.reason = reason


class Usage(msgspec.Struct, frozen=True):
    """statvfs(3), in bytes; `total_bytes` is 0 on a tmpfs without a limit."""

    total_bytes: int
    available_bytes: int
    """What an ordinary user can still take."""

    total_files: int = 0
    """Inodes; 0 where they are not counted."""

    available_files: int = 0


class FileEntry(msgspec.Struct, frozen=True):
    """A regular file, from lstat(2)."""

    path: str
    used_bytes: int
    """Blocks that it holds, which is what counts in a tmpfs; its length may be larger."""

    uid: int
    inode: int


class System:
    """The running machine, or the one whose root is mounted at `root`."""

    def __init__(self, root: str = "/", variables: Mapping[str, str] | None = None) -> None:
        """`variables`: those of the process that is examined, where it is not ours."""
        self.root = root
        self._variables = variables
        self.mounted = root != "/"
        """Another machine's files: nothing is known of any process that would run there."""

        self.process = "/proc/1" if self.mounted else "/proc/self"

    def read_text(self, path: str) -> str:
        """The file's whole text; OSError when it cannot be read, or is a pipe or a device, which could be waited for."""
        with open(self._real(path), "rb", buffering=0, opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", file.name)
            chunks: list[bytes] = []
            while (chunk := file.read(CHUNK)) and len(chunks) < LARGEST_FILE // CHUNK:
                chunks.append(chunk)
        return decode(b"".join(chunks))

    def listdir(self, path: str) -> list[str]:
        """Names in the folder, sorted; OSError when it cannot be listed."""
        return sorted(decode(name) for name in os.listdir(os.fsencode(self._real(path))))

    def readlink(self, path: str) -> str:
        """Where the link points; OSError when there is no link or it cannot be read."""
        return decode(os.readlink(os.fsencode(self._real(path, follow=False))))

    def exists(self, path: str) -> bool:
        """Whether something is there, links not followed; OSError (EACCES) when that cannot be seen."""
        try:
            os.lstat(self._real(path, follow=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def statvfs(self, path: str) -> Usage:
        """Size and free space of the filesystem at `path`; OSError when it cannot be asked."""
        self._of_a_process("mounts in memory")
        found = os.statvfs(path)
        return Usage(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files, found.f_favail)

    def files_below(self, path: str) -> list[FileEntry]:
        """Regular files below `path` on its own filesystem, at most MOST_FILES; what cannot be listed is passed over."""
        self._of_a_process("files in memory")
        with open("/proc/self/mountinfo", "rb") as table:  # noqa: PTH123
            mounted = mount_points(table.read())
        return list(walk(os.fsencode(path), mounted))

    def environment(self) -> Mapping[str, str]:
        """The variables of this process, or of the one that is examined."""
        self._of_a_process("variables")
        if self._variables is not None:
            return self._variables
        return {decode(name): decode(value) for name, value in os.environb.items()}

    def rlimit(self, name: str) -> tuple[int | None, int | None]:
        """Soft and hard limit (`NOFILE`, `AS`, ...), None without one; getrlimit(2)."""
        self._of_a_process("resource limits")
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        return finite(soft), finite(hard)

    def affinity(self) -> frozenset[int]:
        """The CPUs this process may be scheduled on; sched_getaffinity(2)."""
        self._of_a_process("CPU masks")
        if not hasattr(os, "sched_getaffinity"):
            raise Missing(Unavailable.absent("this system has no CPU affinity"))
        return frozenset(os.sched_getaffinity(0))

    def inherited_descriptors(self) -> int:
        """Open descriptors that whoever started this process handed over; those that Python opens close on exec."""
        self._of_a_process("open descriptors")
        return sum(map(handed_over, range(HIGHEST_DESCRIPTOR)))

    def uid(self) -> int:
        """The effective user's number."""
        self._of_a_process("users")
        return os.geteuid()

    def hostname(self) -> str:
        return self.read_text("/etc/hostname").strip() if self.mounted else decode(os.fsencode(socket.gethostname()))

    def physical_cores(self) -> int | None:
        """Cores of the machine, hyper-threads counted once; None where the kernel does not say."""
        import psutil  # noqa: PLC0415 (30 ms that most subjects do not need)

        self._of_a_process("cores")
        cores: int | None = psutil.cpu_count(logical=False)
        return cores

    def memory_without_proc(self) -> tuple[int, int]:
        """Bytes of memory: all, and available, on systems that have no /proc/meminfo."""
        import psutil  # noqa: PLC0415

        try:
            memory = psutil.virtual_memory()
        except OSError:  # /proc/meminfo is there, and may not be read: what is there bounds what is left
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return total, total
        return memory.total, memory.available

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def clock_s(self) -> float:
        """Seconds on a clock that only goes forward."""
        return time.monotonic()

    def _real(self, path: str, *, follow: bool = True) -> str:
        return path if self.root == "/" else below(self.root, path, follow=follow)

    def _of_a_process(self, what: str) -> None:
        if self.mounted:
            raise Missing(Unavailable.not_asked(f"--root shows files, and {what} belong to a process"))


def below(root: str, path: str, *, follow: bool) -> str:
    """Where `path` leads for a process whose root is `root`: no link and no `..` leads out of it.

    Args:
        root: the folder.
        path: absolute.
        follow: whether also the last name is followed, where it is a link.
    """
    names: list[str] = []
    pending = path.split("/")[::-1]
    links = 0
    while pending:
        name = pending.pop()
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
            target = link_target(os.path.join(root, *names)) if pending or follow else None  # noqa: PTH118
            if target is not None:
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                names = [] if target.startswith("/") else names[:-1]
                pending += target.split("/")[::-1]
    return os.path.join(root, *names)  # noqa: PTH118


def link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:  # it is none, or not there
        return None


def without_waiting(path: str, flags: int) -> int:
    """Open as the terminal of nobody, and without waiting for a pipe's other end."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def handed_over(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # it is not open
        return False


def finite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def walk(folder: bytes, mounted: frozenset[bytes] = frozenset()) -> Iterator[FileEntry]:
    """Files below the folder. What is mounted there is not even looked at: its filesystem may not answer."""
    device = os.lstat(folder).st_dev
    pending = [folder]
    seen = 0
    while pending and seen < MOST_FILES:
        here = pending.pop()
        try:
            names = os.listdir(here)
        except OSError:
            continue
        for name in names[: MOST_FILES - seen]:
            seen += 1
            path = os.path.join(here, name)  # noqa: PTH118
            if path in mounted:
                continue
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
                pending.append(path)
            elif stat.S_ISREG(found.st_mode):
                yield FileEntry(decode(path), found.st_blocks * 512, found.st_uid, found.st_ino)
