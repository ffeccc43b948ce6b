"""Whether GPUs compute: a copy, a small product and a small convolution on each, against the same on a CPU.

Everything is in small whole numbers, which every format of floating point holds exactly: what a GPU gives may differ only by the
rounding inside of a convolution. A GPU takes some MiB for it, and what CUDA itself takes.
"""

import glob
import importlib
import importlib.util
import os
import re
import sys
import time
import typing  # noqa: F401 (for comments)

from .cuda_driver import begun, devices
from .mapped import mapped_files, soname
from .shortening import beginning
from .torch_gpus import seen_by

TOLERANCE = 1e-3
"""Of the largest value. What convolutions by Winograd's method round is a hundredth of it. Proposal."""

OF_GPUS = re.compile(r"lib(cu|nv|nccl|npp|torch|c10|amdhip|hip|roc|rccl|MIOpen|hsa)")
"""How libraries are called that a GPU's work is done by."""


def probe(arguments, step):
    """Tries the GPUs that torch sees, or the one that is this `rank`'s, but for those in `without`.

    Those whose address on the bus is in `foreign` are not this job's; those in `spared`, with the reason, are left alone. After
    an error no other GPU is tried in this process, because CUDA may give the same one for all that is done afterwards; `stopped`
    says so. With `on_cpu` the same is computed there.
    """
    sys.dont_write_bytecode = True
    step("import torch")
    torch = importlib.import_module("torch")
    if arguments.get("on_cpu"):
        return {"gpus": [dict(computed(torch, "cpu", step, "the CPU"), index=0)], "libraries": libraries()}
    found = {"backend": "hip" if getattr(torch.version, "hip", None) else "cuda"}  # type: dict[str, typing.Any]
    known = []  # type: list[dict[str, typing.Any]]
    if found["backend"] == "cuda":
        cuda, answered = begun(step)
        found.update(answered)
        if cuda is None or answered["init_code"]:
            return found
        known = devices(cuda, step)
    found["count"], found["said"] = seen_by(torch, step)
    if not found["count"]:
        return found
    found["arch_list"] = list(torch.cuda.get_arch_list())
    seen = [dict(known[index] if index < len(known) else by_torch(torch, index), index=index) for index in range(found["count"])]
    ours = [gpu for gpu in seen if gpu.get("pci") not in arguments["foreign"]]
    left = [gpu for gpu in own_of(ours, arguments["rank"]) if gpu["index"] not in arguments["without"]]
    found["gpus"] = gpus = []
    for gpu in left:
        gpu["skipped"] = arguments["spared"].get(gpu.get("pci"))
        if gpu["skipped"] is None:
            gpu.update(computed(torch, "cuda:%d" % gpu["index"], step, "GPU %d" % gpu["index"]))
        gpus.append(gpu)
        if gpu.get("raised"):
            break
    found["stopped"] = len(gpus) < len(left)
    step("look at the libraries that were loaded")
    found["libraries"] = libraries()
    found["cudnn_error"] = cudnn_error(torch)
    found["passed_over"] = passed_over(found["libraries"])
    return found


def own_of(gpus, rank):
    """Those of this rank, all where it is none; one that sees fewer than there are ranks takes one of those that it sees."""
    return gpus if rank is None or not gpus else [gpus[rank % len(gpus)]]


def by_torch(torch, index):
    """What torch says of a GPU without computing on it; asked where there is no libcuda."""
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "arch": getattr(properties, "gcnArchName", None),
        "integrated": bool(getattr(properties, "is_integrated", False)),
    }


def computed(torch, device, step, name):
    """What came of each computation, up to the first one that raised."""
    told = {}  # type: dict[str, typing.Any]
    for what, compute in (("copy", copy), ("product", product), ("convolution", convolution)):
        step("%s on %s" % (what, name))
        begin = time.monotonic()
        try:
            there = compute(torch, device).cpu()
        except Exception as error:  # noqa: BLE001 (it is the answer)
            code = getattr(error, "error_code", None)
            told[what] = {"error": "%s: %s" % (type(error).__name__, error), "number": code if isinstance(code, int) else None}
            return dict(told, raised=True)
        told[what] = {"wrong": wrong(there, compute(torch, "cpu")), "took_s": time.monotonic() - begin}
    return told


def numbers(torch, *shape):
    """Whole numbers from -3 to 3."""
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count).remainder(7).sub(3).float().reshape(*shape)


def copy(torch, device):
    return numbers(torch, 8, 8).to(device)


def product(torch, device):
    """By the library for products (cuBLAS), and an addition by code of torch's own."""
    matrix = numbers(torch, 64, 64).to(device)
    return matrix @ matrix + 1


def convolution(torch, device):
    """By cuDNN or MIOpen."""
    images, kernel = numbers(torch, 2, 8, 16, 16).to(device), numbers(torch, 8, 8, 3, 3).to(device)
    return torch.nn.functional.conv2d(images, kernel, padding=1)


def wrong(there, here):
    """The part of the values that differ; NaN differs from everything."""
    right = (there - here).abs() <= TOLERANCE * here.abs().max()
    return 1.0 - float(right.float().mean())


def cudnn_error(torch):
    """What torch says of a cuDNN that it was not built for; it computes with it where nobody asks."""
    try:
        torch.backends.cudnn.version()
    except Exception as error:  # noqa: BLE001 (it is the answer)
        return beginning(str(error), 1000)
    return None


def libraries():
    """The files in our memory by the names that the loader knows them by."""
    found = {}  # type: dict[str, list[str]]
    for path in mapped_files("lib"):
        if OF_GPUS.match(os.path.basename(path)):
            found.setdefault(soname(path), []).append(path)
    return found


def passed_over(loaded):
    """Libraries of NVIDIA's packages in this environment in whose place others of the same name were loaded, and why."""
    packages = importlib.util.find_spec("nvidia")
    places = packages.submodule_search_locations if packages else None
    found = []  # type: list[dict[str, typing.Any]]
    for own in sorted(path for place in places or () for path in glob.glob(os.path.join(place, "*", "lib", "lib*.so*"))):
        name = os.path.basename(own)
        others = [path for path in loaded.get(name, ()) if path != os.path.realpath(own)]
        found += [{"name": name, "own": own, "taken": path, "by": named_by(name, path)} for path in others]
    return found


def named_by(name, path):
    """The variable that made the loader take this file; None where it is neither."""
    preloaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    if any(os.path.basename(entry) == name or os.path.realpath(entry) == path for entry in preloaded):
        return "LD_PRELOAD"
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return "LD_LIBRARY_PATH" if any(os.path.realpath(os.path.join(folder, name)) == path for folder in folders) else None
