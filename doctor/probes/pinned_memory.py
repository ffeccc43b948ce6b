"""Whether torch can pin as much memory as the batches of a loader take, and what that buys where they are copied to the GPU."""

import importlib
import sys
import time
import typing  # noqa: F401 (for comments)

WARM_UP, COPIES = 4, 10


def probe(arguments, step):
    """`blocks` is the bytes of each tensor of a batch, `batches` how many of those are pinned at the same time."""
    sys.dont_write_bytecode = True
    step("import torch")
    torch = importlib.import_module("torch")
    told = {"available": False}  # type: dict[str, typing.Any]
    step("torch.cuda.is_available")
    if not torch.cuda.is_available():
        return told
    step("begin CUDA")
    torch.cuda.init()
    torch.empty(1, device="cuda")
    told.update(available=True, pinned_batches=0, error=None)
    step("pin memory")
    kept = []
    try:
        for _ in range(arguments["batches"]):
            kept.append([torch.empty(size, dtype=torch.uint8, pin_memory=True) for size in arguments["blocks"]])
            told["pinned_batches"] += 1
    except Exception as error:  # noqa: BLE001 (it is the answer)
        told["error"] = "%s: %s" % (type(error).__name__, error)
    if not kept or told["error"]:
        return told
    step("copy a batch to the GPU")
    try:
        told["pinned_s"] = seconds(torch, kept[0], non_blocking=True)
        plain = [torch.ones(size, dtype=torch.uint8) for size in arguments["blocks"]]  # its pages are there
        told["pageable_s"] = seconds(torch, plain, non_blocking=False)
    except Exception as error:  # noqa: BLE001 (such as no GPU memory left: how fast it is stays unknown)
        told["copy_error"] = "%s: %s" % (type(error).__name__, error)
    return told


def seconds(torch, tensors, non_blocking):
    """The median of some copies of a batch, until it has come."""
    taken = []
    for _ in range(WARM_UP + COPIES):
        torch.cuda.synchronize()
        begin = time.monotonic()
        for tensor in tensors:
            tensor.to("cuda", non_blocking=non_blocking)
        torch.cuda.synchronize()
        taken.append(time.monotonic() - begin)
    return sorted(taken[WARM_UP:])[COPIES // 2]
