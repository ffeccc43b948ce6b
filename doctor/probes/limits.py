"""What a process that runs the job's code may take of memory, for other probes."""

import functools
import mmap
import os
import resource
import signal
import sys

LOOK_EVERY_S = 0.01
"""Of CPU time, in which some 20 MiB of memory can be filled."""

COUNTED_BYTES = 1 << 20
"""Mappings from this size on are looked at."""

limits = []  # type: list[Limit]
"""The one that holds here, if any."""


def limit_memory(allowed_bytes, shared_bytes=None):
    """Beyond what this process has now, and what /dev/shm holds (`shared_bytes`: so much there). None: no limit.

    What is refused more than that raises, and the machine does not feel it. Gives the function that looks, for a process that
    computes nothing while its children do.
    """
    if allowed_bytes is None:
        return lambda: None
    if not limits:
        follow_mappings()
    limits[:] = [Limit(allowed_bytes, allowed_bytes if shared_bytes is None else shared_bytes)]
    return limits[0].look


class Limit:
    """RLIMIT_DATA stops what is allocated, before it is filled. Two things it does not know, and they are looked at every few
    milliseconds of CPU time, in this process and not in its children.

    Shared memory and files of a tmpfs are no data of a process: of these each file may be as large, and /dev/shm is watched.
    A private mapping of a file is data as soon as it could be written to, and takes no memory before it is: so there is room
    for it beside the limit, and what has been filled is watched.
    """

    def __init__(self, allowed_bytes, shared_bytes):
        self.allowed_bytes = allowed_bytes
        self.shared_bytes = shared_bytes
        has = memory("VmData")
        self.without_mappings = has - mapped_bytes() + allowed_bytes
        self.filled_before = memory("RssAnon", "VmSwap")
        self.shared_before = free_shared_memory()
        self.settles_in = 0
        set_soft(resource.RLIMIT_DATA, has + allowed_bytes)
        set_soft(resource.RLIMIT_FSIZE, allowed_bytes)
        signal.signal(signal.SIGPROF, self.look)
        signal.siginterrupt(signal.SIGPROF, False)  # libraries need not know what EINTR is
        signal.setitimer(signal.ITIMER_PROF, LOOK_EVERY_S, LOOK_EVERY_S)

    def look(self, *_):
        if self.settles_in:
            self.settles_in -= 1
            if not self.settles_in:
                set_soft(resource.RLIMIT_DATA, self.without_mappings + mapped_bytes())
        if self.shared_before - free_shared_memory() > self.shared_bytes:
            raise MemoryError("/dev/shm was filled with more than may be taken")
        if memory("RssAnon", "VmSwap") - self.filled_before > self.allowed_bytes:
            raise MemoryError("more memory was filled than may be taken")

    def make_room(self, size):
        """For a private mapping of a file that is about to be made."""
        if size >= COUNTED_BYTES:
            set_soft(resource.RLIMIT_DATA, self.without_mappings + mapped_bytes() + size)
            self.settles_in = 2  # looks: one may come before the mapping is there


def set_soft(kind, soft):
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def memory(*names):
    """Bytes by the names of /proc/self/status, together; 0 where the kernel does not tell."""
    with open("/proc/self/status", "rb") as file:
        fields = [line.split() for line in file]
    wanted = [b"%s:" % name.encode() for name in names]
    return sum(int(field[1]) << 10 for field in fields if field and field[0] in wanted)


def mapped_bytes():
    """Of files, privately, so that they can be written to: what VmData counts of them."""
    found = 0
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            place, modes, _, _, number = line.split(None, 5)[:5]
            if modes[1:2] == b"w" and modes[3:4] == b"p" and number != b"0":
                begin, end = place.split(b"-")
                found += int(end, 16) - int(begin, 16)
    return found


def free_shared_memory():
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return room.f_bfree * room.f_frsize


def follow_mappings():
    """Have room made for private mappings of files from now on: Python tells of each (NumPy's too), of torch's we see to it."""
    copies = (mmap.ACCESS_COPY, mmap.ACCESS_DEFAULT)

    def hear(event, given):
        if event == "mmap.__new__" and given[0] != -1 and given[2] in copies:
            make_room(lambda: given[1] or os.fstat(given[0]).st_size - given[3])

    sys.addaudithook(hear)
    torch = sys.modules.get("torch")
    if hasattr(torch, "from_file"):
        torch.from_file = with_room(torch.from_file)  # type: ignore[union-attr]
    storage = getattr(torch, "UntypedStorage", None)
    if hasattr(storage, "from_file"):
        storage.from_file = staticmethod(with_room(storage.from_file))  # type: ignore[union-attr]


def with_room(from_file):
    @functools.wraps(from_file)
    def mapped(*given, **named):
        name, shared = [*given, None, None][:2]
        if not named.get("shared", shared):
            make_room(lambda: os.path.getsize(named.get("filename", name)))
        return from_file(*given, **named)

    return mapped


def make_room(size):
    """`size` is asked; where there is none, who maps is told."""
    try:
        limits[0].make_room(size())
    except (OSError, TypeError, ValueError):
        return
