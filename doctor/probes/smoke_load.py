"""Deliver a few batches through a real DataLoader like the user's, and tell how it went."""

import os
import signal
import sys
import time
import traceback
import typing  # noqa: F401 (for comments)

from .shortening import ending

LOOK_EVERY_S = 0.25

FEEDER_GRACE_S = 1.0
"""After a feeder thread's traceback: the batch that it lost may be a later one than the one that is waited for."""


class Late(Exception):
    """No batch came in time, or none will come."""


def probe(arguments, step, loaded):
    """`workers`, `prefetch_factor`, `method`, `batch_size` (None: the loader's own), `batches` to deliver, `patience_s` for all
    of them, and `allowed_bytes`, of which each worker may take its share.
    """
    workers = arguments["workers"]
    changes = {"num_workers": workers, "timeout": 0, "pin_memory": False}
    if workers:
        changes.update(
            prefetch_factor=arguments["prefetch_factor"], persistent_workers=False, multiprocessing_context=arguments["method"]
        )
    if arguments["batch_size"] is not None:
        changes["batch_size"] = arguments["batch_size"]
    look_at_memory = loaded.limit_memory(arguments["allowed_bytes"] // max(workers, 1), shared_bytes=arguments["allowed_bytes"])
    printed = Printed()
    told = {"came_s": [], "raised": None, "late": None, "processes": []}  # type: dict[str, typing.Any]
    iterator = None
    begin = time.monotonic()
    watch(printed, begin + arguments["patience_s"], look_at_memory)
    try:
        step("start %d workers by %s" % (workers, arguments["method"]) if workers else "load in the main process")
        iterator = iter(loaded.new_loader(**changes))
        step("wait for the first batch")
        for _ in range(arguments["batches"]):
            if next(iterator, done) is done:
                break
            told["came_s"].append(time.monotonic() - begin)
            step("wait for batch %d" % len(told["came_s"]))
    except Late as late:
        told["late"] = str(late)
    except Exception as error:  # noqa: BLE001 (it is the answer)
        told["raised"] = "%s: %s" % (type(error).__name__, error) if workers else traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if told["raised"] and "DataLoader worker" in told["raised"]:
        for worker in getattr(iterator, "_workers", ()):
            worker.join(0.1)  # by now it may not have been noticed how it ended
    told["processes"] = [doing(worker.pid, worker.exitcode) for worker in getattr(iterator, "_workers", ())]
    loaded.end_workers(None if told["late"] else iterator, (told["raised"] or "") + printed.tail())
    return dict(told, printed=printed.tail())


done = object()


def watch(printed, end_s, look_at_memory):
    """Have Late raised here when the time is over, and soon after a feeder thread has lost a batch."""
    lost_s = []  # type: list[float]

    def look(*_):
        look_at_memory()
        now = time.monotonic()
        if not lost_s and "in _feed\n" in printed.tail():
            lost_s.append(now)
        if lost_s and now > lost_s[0] + FEEDER_GRACE_S:
            raise Late("feeder")
        if now > end_s:
            raise Late("time")

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)


class Printed:
    """What this process and its workers print on standard error from now on, in a file that has no name."""

    def __init__(self):
        sys.stderr.flush()
        self._file = os.memfd_create("stderr", os.MFD_CLOEXEC)
        os.dup2(self._file, 2)

    def tail(self, most=16384):
        size = os.fstat(self._file).st_size
        text = os.pread(self._file, most, max(size - most, 0)).decode("utf-8", "backslashreplace")
        return ending(text, len(text) - (size > most))


def doing(pid, exit_code):
    """What a worker is doing: its state, the kernel's function that it waits in, and seconds of CPU that it has used."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(") ")[2].split()
        with open("/proc/%d/wchan" % pid) as file:
            waits_in = file.read()
    except OSError:  # it has ended
        return {"pid": pid, "exit_code": exit_code, "state": None, "wait_channel": None, "cpu_s": None}
    used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {
        "pid": pid,
        "exit_code": exit_code,
        "state": fields[0],
        "wait_channel": waits_in if waits_in not in ("", "0") else None,
        "cpu_s": used_s,
    }
