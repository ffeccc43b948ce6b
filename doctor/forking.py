"""A fork of this process, with a guard, in place of an interpreter: there what it holds is examined."""

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
from pathlib import Path
from typing import Any

from dl_doctor import guard
from dl_doctor.probes import forkserver
from dl_doctor.probes.at_fork import forget_workers, unsafe_at_fork
from dl_doctor.probing import Begun


def fork_with(given: object) -> Begun:
    """Fork this process, in this thread; the probe that is loading there gets `given` and what is alive here that a fork breaks:
    threads of libraries are not in the fork any more. Nothing changes here.
    """
    alive = unsafe_at_fork()  # type: ignore[no-untyped-call]

    def start(theirs: tuple[int, ...], ours: tuple[int, ...]) -> int:
        flush()
        pid = forked()
        if not pid:
            try:
                leave_the_caller(ours)
                control, requests, answers, output = theirs
                guard.main(control, requests, answers, output, lambda answers: serve(answers, given, alive))
            finally:
                os._exit(0)
        return pid

    return Begun(start, script=script())


def script() -> str | None:
    """The file that this process was started with; a notebook has none."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(path).absolute()) if isinstance(path, str) and Path(path).is_file() else None


def forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: what hangs for them is killed
        return os.fork()


def flush() -> None:
    """What is still buffered would be written by both."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def leave_the_caller(descriptors: tuple[int, ...]) -> None:
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
    threading.excepthook = threading.__excepthook__
    forget_children()


def forget_children() -> None:
    """Children, finalizers and helpers of multiprocessing are the caller's: as Process does it in a child, and more."""
    modules: Any = sys.modules
    forget_workers()  # type: ignore[no-untyped-call]
    multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]  # noqa: SLF001
    multiprocessing.util._finalizer_registry.clear()  # type: ignore[attr-defined]  # noqa: SLF001
    for module, name in (
        ("multiprocessing.resource_tracker", "_resource_tracker"),
        ("multiprocessing.forkserver", "_forkserver"),
    ):
        helper = getattr(modules.get(module), name, None)
        if helper is not None:
            preloaded = getattr(helper, "_preload_modules", None)
            helper.__init__()
            if preloaded is not None:
                helper._preload_modules = preloaded  # noqa: SLF001


def serve(answers: int, *given: object) -> None:
    """Be what forks the probes. Standard streams lead to the doctor by now."""
    try:
        gc.enable()
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        torch: Any = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):
            torch.set_num_threads(1)  # as in a forked worker: threads of OpenMP do not survive a fork
        forkserver.main(answers, *given)  # type: ignore[no-untyped-call]
    except BaseException:  # noqa: BLE001 (nothing may get back into the caller's code)
        traceback.print_exc()
        flush()
    finally:
        os._exit(1)
