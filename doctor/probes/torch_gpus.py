"""Whether CUDA begins in a process that has imported torch, and how many GPUs torch then sees. No context is made."""

import ctypes
import importlib
import sys
import warnings


def probe(_arguments, step):
    sys.dont_write_bytecode = True
    step("import torch")
    torch = importlib.import_module("torch")
    found = {"torch_cuda": torch.version.cuda and str(torch.version.cuda), **driver(step)}
    step("torch.cuda.is_available")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
        step("torch.cuda.device_count")
        found["count"] = torch.cuda.device_count() if available else 0
    found["said"] = [str(warning.message).partition(" (Triggered internally")[0][:1000] for warning in said]
    return found


def driver(step):
    """What libcuda answers; nothing where it does not load."""
    step("load libcuda.so.1")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    version = ctypes.c_int()
    step("cuDriverGetVersion")
    known = cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value
    step("cuInit")
    return {
        "init_code": cuda.cuInit(0),
        "driver_cuda": "%d.%d" % (known // 1000, known % 1000 // 10) if known else None,
    }
