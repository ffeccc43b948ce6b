"""What takes the job's code too long, and where it was then, for other probes."""

import contextlib
import os
import signal
import traceback

from .shortening import ending


class TookTooLong(BaseException):
    """Raised in the job's code where it waits or computes; `except Exception` of the job's does not catch it."""

    def __init__(self, seconds, cpu_s, stack):
        super().__init__("it did not come back within %g s" % seconds)
        self.cpu_s = cpu_s
        self.stack = stack


@contextlib.contextmanager
def patience(seconds):
    """Have TookTooLong raised in what runs inside, if it is still there after that."""
    begin = cpu_s()

    def give_up(_, frame):
        raise TookTooLong(seconds, cpu_s() - begin, "".join(traceback.format_stack(frame)))

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def trouble(stage, indices, error):
    """What facts/trouble.py says of an exception, which may be TookTooLong."""
    late = isinstance(error, TookTooLong)
    return {
        "stage": stage,
        "indices": [str(index) for index in indices],
        "error": str(error) if late else "%s: %s" % (type(error).__name__, error),
        "trace": ending(error.stack if late else "".join(traceback.format_tb(error.__traceback__)), 4000),
        "cpu_s": error.cpu_s if late else None,
    }


def cpu_s():
    """Seconds of CPU that this process and its children have used."""
    ticks, me = 0, str(os.getpid())
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % number) as file:
                fields = file.read().rpartition(") ")[2].split()
        except OSError:  # it has ended
            continue
        if me in (number, fields[1]):
            ticks += sum(map(int, fields[11:15]))  # its own, and of children that it has waited for
    return ticks / os.sysconf("SC_CLK_TCK")
