"""A fork of a process of the user's, which gives up what belongs to that, and serves probes in place of an interpreter.

It runs in whatever Python the user has, without anything of ours but files beside this one.
"""

import faulthandler
import gc
import multiprocessing.process
import multiprocessing.util
import os
import signal
import sys
import threading
import traceback
import warnings
from contextlib import suppress

from .at_fork import forget_workers
from .forkserver import main


def fork(guard, theirs, ours, become):
    """Fork this process, in this thread, and give the pid of the fork: a guard, with `become` below it.

    `guard` is guard.main, `theirs` the descriptors that it takes, `ours` those that it closes.
    """
    flush()
    pid = forked()
    if not pid:
        try:
            leave_the_caller(ours)
            guard(*theirs, become)
        finally:
            os._exit(0)
    return pid


def forked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: what hangs for them is killed
        return os.fork()


def flush():
    """What is still buffered would be written by both."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def leave_the_caller(descriptors):
    """Give up what belongs to the process that was forked: its terminal, its output, its handlers, its helpers.

    Files stay open: the dataset may need them.
    """
    gc.disable()  # what is garbage there is not ours to end
    os.setsid()
    for number in descriptors:
        os.close(number)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    if nowhere > 2:
        os.close(nowhere)
    sys.settrace(None)
    sys.setprofile(None)
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    threading.excepthook = getattr(threading, "__excepthook__", threading.excepthook)  # Python 3.10
    forget_children()


def forget_children():
    """Children, finalizers and helpers of multiprocessing are the caller's: as Process does it in a child, and more."""
    forget_workers()
    multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]
    multiprocessing.util._finalizer_registry.clear()  # type: ignore[attr-defined]
    for module, name in (
        ("multiprocessing.resource_tracker", "_resource_tracker"),
        ("multiprocessing.forkserver", "_forkserver"),
    ):
        helper = getattr(sys.modules.get(module), name, None)
        if helper is not None:
            preloaded = getattr(helper, "_preload_modules", None)
            helper.__init__()
            if preloaded is not None:
                helper._preload_modules = preloaded


def serve(answers, *given):
    """Be what forks the probes. Standard streams lead to the doctor by now."""
    try:
        gc.enable()
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):
            torch.set_num_threads(1)  # as in a forked worker: threads of OpenMP do not survive a fork
        main(answers, *given)
    except BaseException:  # noqa: BLE001 (nothing may get back into the caller's code)
        traceback.print_exc()
        flush()
    finally:
        os._exit(1)
