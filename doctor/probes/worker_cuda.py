"""Whether reading a sample uses CUDA: torch's own way into it is closed, and says who came there. No GPU is touched."""

import sys
import traceback


class NoCuda(Exception):
    """Raised where a sample would begin to use CUDA."""


def probe(arguments, step, loaded):
    """`allowed_bytes` is what it may take. Gives the line of the job's code that uses CUDA, or None, and what it raised."""
    loaded.limit_memory(arguments["allowed_bytes"])
    cuda = getattr(loaded.torch, "cuda", None)
    if cuda is None:
        return {"used_at": None, "error": None}
    used = []

    def refuse(*_, **__):
        used.append(line_of_the_job(sys._getframe(1), loaded.torch.__file__))
        raise NoCuda("dl-doctor looks whether a worker uses CUDA, and lets none begin")

    cuda._lazy_init = refuse
    cuda.is_initialized = lambda: False
    error = None
    try:
        step("read a sample")
        sample = next(iter(loaded.dataset)) if loaded.iterable else loaded.dataset[0]
        step("make a batch of it")
        loaded.collate_fn([sample])
    except Exception as raised:  # noqa: BLE001 (judged by others)
        error = "%s: %s" % (type(raised).__name__, raised)
    return {"used_at": used[0] if used else None, "error": error}


def line_of_the_job(frame, torch_file):
    """`train.py:40 in __getitem__`: the innermost line that is not torch's."""
    folder = torch_file.rpartition("/")[0]
    for inner, number in traceback.walk_stack(frame):
        if not inner.f_code.co_filename.startswith(folder):
            return "%s:%d in %s" % (inner.f_code.co_filename, number, inner.f_code.co_name)
    return "unknown"
