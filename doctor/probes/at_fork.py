"""What in this process would be broken in a forked child, and what such a child gives up, for other probes."""

import gc
import multiprocessing.process
import os
import struct
import sys
import threading
from time import sleep  # by a name of ours: the job's code may patch the module

YES = ("true", "1", "on", "yes", "y", "t")
"""What tokenizers reads as yes."""


def unsafe_at_fork():
    """Libraries that have threads or state here which a forked child would find broken. That one is imported says nothing."""
    loaded = sys.modules.get
    tensorflow = getattr(loaded("tensorflow.python.eager.context"), "_context", None)
    grpc_threads = ("grpc", "event_engine", "timer_manager", "default-execut", "resolver-execut")
    found = {
        "jax": getattr(loaded("jax._src.xla_bridge"), "_backends", None),
        "tensorflow": getattr(tensorflow, "_initialized", False),
        "grpc": loaded("grpc") and any(name.startswith(grpc_threads) for name in thread_names()),
        "opencv": loaded("cv2") and threads_waiting_in("/cv2/"),
        "fsspec": any(thread.name == "fsspecIO" for thread in threading.enumerate()),
        "tokenizers": loaded("tokenizers") and os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in YES,
    }
    return sorted(name for name, alive in found.items() if alive)


def thread_names():
    """Of the kernel's threads of this process, those of libraries too."""
    names = []
    for number in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/comm" % number) as file:
                names.append(file.read().strip())
        except OSError:  # it has ended
            continue
    return names


def threads_waiting_in(part):
    """How many threads wait in a function that a library with this in its path has called, as their stacks tell.

    Threads of libraries have no names of their own, and are started by others too: BLAS, OpenMP.
    """
    with open("/proc/self/maps") as file:
        fields = [line.split() for line in file]
    code = [fields_[0].split("-") for fields_ in fields if len(fields_) > 5 and "x" in fields_[1] and part in fields_[5]]
    spans = [(int(begin, 16), int(end, 16)) for begin, end in code]
    found = 0
    for number in os.listdir("/proc/self/task") if spans else ():
        words = stack_of(number)
        found += any(begin <= word < end for word in words for begin, end in spans)
    return found


def stack_of(thread):
    """The innermost 4 KiB of the stack of a thread that waits in the kernel, as numbers; one that runs gets a moment to wait."""
    for _ in range(5):
        try:
            with open("/proc/self/task/%s/syscall" % thread) as file:
                fields = file.read().split()
            if len(fields) > 2:
                with open("/proc/self/mem", "rb", 0) as memory:
                    memory.seek(int(fields[-2], 16))
                    return struct.unpack("=512Q", memory.read(4096))
        except (OSError, ValueError, struct.error):  # it has ended, or nobody may look
            return ()
        sleep(0.01)
    return ()


def forget_workers():
    """In a forked child: processes of multiprocessing are the parent's, and so are workers of loaders that are being iterated.

    A loader's iterator that ends here would end them, by the locks and pipes that it shares.
    """
    children = multiprocessing.process._children  # type: ignore[attr-defined]
    multiprocessing.process._children = set()  # type: ignore[attr-defined]
    kind = getattr(sys.modules.get("torch.utils.data.dataloader"), "_MultiProcessingDataLoaderIter", None)
    if not children or kind is None:
        return
    for iterator in [one for one in gc.get_objects() if issubclass(type(one), kind)]:
        iterator._shutdown = True
        iterator._workers = iterator._workers_status = []
