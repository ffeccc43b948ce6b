"""Whether CUDA begins in a process that has imported torch, and how many GPUs torch then sees. No context is made."""

import importlib
import sys
import time
import warnings

from .cuda_driver import begun
from .shortening import beginning


def probe(arguments, step):
    """Begins `pause_s` seconds from now."""
    sys.dont_write_bytecode = True
    if arguments["pause_s"]:
        step("wait before trying again")
        time.sleep(arguments["pause_s"])
    step("import torch")
    torch = importlib.import_module("torch")
    found = {"torch_cuda": torch.version.cuda and str(torch.version.cuda), **begun(step)[1]}
    found["count"], found["said"] = seen_by(torch, step)
    return found


def seen_by(torch, step):
    """How many GPUs torch sees, and what it warns of meanwhile."""
    step("torch.cuda.is_available")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
        step("torch.cuda.device_count")
        count = torch.cuda.device_count() if available else 0
    return count, [beginning(str(warning.message).partition(" (Triggered internally")[0], 1000) for warning in said]
