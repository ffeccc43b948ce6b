"""What a process that runs the job's code may take of memory, for other probes."""

import os
import resource
import signal

LOOK_EVERY_S = 0.01
"""Of CPU time, in which some 20 MiB of memory can be filled."""


def limit_memory(allowed_bytes):
    """Beyond what this process has now. What is refused more than that raises, and the machine does not feel it.

    Shared memory and files of a tmpfs are no data of a process: of these each file may be as large, and /dev/shm is looked at
    every few milliseconds of CPU time.
    """
    if allowed_bytes is None:
        return
    with open("/proc/self/status") as file:
        has = next((int(line.split()[1]) << 10 for line in file if line.startswith("VmData:")), 0)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = has + allowed_bytes if hard == resource.RLIM_INFINITY else min(has + allowed_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    soft = allowed_bytes if hard == resource.RLIM_INFINITY else min(allowed_bytes, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    watch_shared_memory(allowed_bytes)


def watch_shared_memory(allowed_bytes):
    """Have MemoryError raised here as soon as /dev/shm holds more than now by so much. The timer is no child's.

    Gives the function that looks, for a process that computes nothing while its children do.
    """
    try:
        before = os.statvfs("/dev/shm")
    except OSError:
        return lambda: None

    def look(*_):
        now = os.statvfs("/dev/shm")
        if (before.f_bfree - now.f_bfree) * now.f_frsize > allowed_bytes:
            raise MemoryError("/dev/shm was filled with more than may be taken")

    signal.signal(signal.SIGPROF, look)
    signal.siginterrupt(signal.SIGPROF, False)  # libraries need not know what EINTR is
    signal.setitimer(signal.ITIMER_PROF, LOOK_EVERY_S, LOOK_EVERY_S)
    return look
