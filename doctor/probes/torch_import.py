"""Import torch as the job will, and say how long it took, what it changed, and what it says of itself."""

import importlib
import os
import re
import sys
import time


def probe(arguments, step):  # noqa: ARG001
    sys.dont_write_bytecode = True  # what is imported here for the first time leaves no file
    before = affinity()
    step("import torch")
    begin = time.monotonic()
    torch = importlib.import_module("torch")
    seconds = time.monotonic() - begin
    step("import numpy")
    numpy_error = hand_over(torch)
    after = affinity()
    step("ask torch what it is")
    version = getattr(torch, "version", None)
    return {
        "import_s": seconds,
        "affinity_before": before,
        "affinity_after": after,
        "version": text(getattr(torch, "__version__", None)),
        "cuda": text(getattr(version, "cuda", None)),
        "hip": text(getattr(version, "hip", None)),
        "parallel_info": parallel_info(torch),
        "numpy_error": numpy_error,
        "openmp": openmp(),
    }


def text(value):
    return None if value is None else str(value)


def affinity():
    """The main thread's, which workers inherit."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None


def hand_over(torch):
    """What goes wrong when an array becomes a tensor; None where nothing does, and where there is no NumPy."""
    try:
        numpy = importlib.import_module("numpy")
    except ImportError as error:
        return None if getattr(error, "name", None) == "numpy" else "%s: %s" % (type(error).__name__, error)
    try:
        torch.from_numpy(numpy.zeros(1))
    except Exception as error:  # noqa: BLE001 (it is the answer)
        return "%s: %s" % (type(error).__name__, error)
    return None


def parallel_info(torch):
    try:
        return str(torch.__config__.parallel_info())[:8192]
    except Exception:  # noqa: BLE001 (very old, or no PyTorch)
        return None


def openmp():
    """Paths of the OpenMP libraries in this process."""
    try:
        with open("/proc/self/maps", errors="backslashreplace") as file:
            return sorted(set(re.findall(r"/\S*/lib(?:gomp|iomp5|omp)\b[^\s/]*", file.read())))
    except OSError:
        return []
