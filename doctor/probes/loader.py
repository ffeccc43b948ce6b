"""Make the dataset or the loader that the user names, here, for the probes that are forked from this process afterwards."""

import multiprocessing
import multiprocessing.context
import os
import signal
import sys
import threading
from time import monotonic  # by a name of ours: the job's code may patch the module

from .at_fork import unsafe_at_fork
from .limits import limit_memory
from .loaded import Loaded, imported
from .specs import Wrong, file_of, named, unwrapped


def probe(arguments, step, *at_hand):
    """`spec` names it; `allowed_bytes` is what making it may take beyond torch (None: all there is), `start_method` what the
    default is to be (None: as it is). `at_hand`: it is made, and what is alive in the process that has made it.

    Gives a description, and a Loaded, which later probes get as their third argument.
    """
    sys.dont_write_bytecode = True
    spec = arguments["spec"]
    try:
        file_of("" if at_hand else spec)  # before seconds go by
    except Wrong as wrong:
        return {"wrong": str(wrong)}, None
    step("import torch")
    torch = imported("torch")
    limit_memory(arguments["allowed_bytes"])
    if arguments.get("start_method"):
        make_default(arguments["start_method"])
    before = open_files()
    begin = monotonic()
    try:
        found, called = (at_hand[0], False) if at_hand else named(spec, step)
        found, choices = unwrapped(found, spec, torch, step)
    except Wrong as wrong:
        return {"wrong": str(wrong)}, None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    loaded = Loaded(found, torch, spec)
    return dict(
        loaded.description(),
        make_s=None if at_hand else monotonic() - begin,
        called=called,
        choices=choices,
        opened=sorted(open_files() - before),
        threads=sorted({thread.name for thread in threading.enumerate() if thread is not threading.main_thread()}),
        unsafe_at_fork=sorted({*unsafe_at_fork(), *(at_hand[1] if at_hand else ())}),
        daemonic=bool(multiprocessing.current_process().daemon),
        default_method=multiprocessing.get_start_method(allow_none=True),
        cuda_used=bool(torch and getattr(torch, "cuda", None) and torch.cuda.is_initialized()),
    ), loaded


def make_default(method):
    """Let workers, locks and queues be made by this method where the program says none; it can still set its own."""
    default = multiprocessing.context._default_context  # its own attribute of the same name is what is used where nothing is set
    default._default_context = multiprocessing.get_context(method)  # type: ignore[attr-defined]


def open_files():
    """Paths that descriptors of this process lead to."""
    paths = set()  # type: set[str]
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return paths
    for number in numbers:
        try:
            paths.add(os.readlink("/proc/self/fd/" + number))
        except OSError:  # the descriptor of the listing
            continue
    return {path for path in paths if path.startswith("/") and not path.startswith(("/dev/", "/proc/"))}
