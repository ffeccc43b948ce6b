"""Which torch would be imported and what lies beside it: files and metadata only, nothing of it is imported."""

import glob
import importlib
import importlib.util
import os
import platform
import sys

COMPANIONS = ("torchvision", "torchaudio")
LISTED = ("numpy", "triton")
TWICE = tuple("nvidia-%s-cu%s" % (name, cuda) for name in ("cudnn", "nccl") for cuda in ("11", "12", "13"))
"""Distributions whose libraries have the same name for several CUDA versions, and lie in the same folder."""


def probe(arguments, step):  # noqa: ARG001
    step("find torch")
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:  # without a file: what an uninstalled torch left behind
        return {"origin": None}
    folder = os.path.dirname(os.path.realpath(spec.origin))
    step("read what lies in %s" % folder)
    torch = distribution("torch")
    requires = (torch and torch.requires) or []
    names = {requirement.split(";")[0].split("=")[0].split("[")[0].split(" ")[0].strip("<>!~") for requirement in requires}
    names |= {*LISTED, *COMPANIONS} | (set(TWICE) if any(name.startswith("nvidia-") for name in names) else set())
    found = {name: distribution(name) for name in sorted(names)}
    return {
        "origin": spec.origin,
        "folder": folder,
        "version_text": text_of(os.path.join(folder, "version.py")) if spec.submodule_search_locations else None,
        "metadata_version": torch and torch.version,
        "wheel": torch and torch.read_text("WHEEL"),
        "requires": requires,
        "packages": {name: package.version for name, package in found.items() if package and package.version},
        "companions": {name: (found[name].requires or []) for name in COMPANIONS if found[name]},
        "libraries": libraries(folder),
        "links_glibc": links_glibc(os.path.join(folder, "lib", "libc10.so")),
        "conda": sorted(os.path.basename(path)[: -len(".json")] for path in conda_packages()),
        "platform": {
            "platform_system": platform.system(),
            "platform_machine": platform.machine(),
            "sys_platform": sys.platform,
        },
    }


def distribution(name):
    try:
        return importlib.import_module("importlib.metadata").distribution(name)
    except Exception:  # noqa: BLE001 (not there, or damaged, or a Python before 3.8)
        return None


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read(65536)
    except OSError:
        return None


def libraries(folder):
    """Names of libtorch's parts, in torch's folder or, with conda, in the environment's."""
    places = (os.path.join(folder, "lib"), os.path.join(sys.prefix, "lib"))
    return sorted({os.path.basename(path) for place in places for path in glob.glob(os.path.join(place, "libtorch_*.so"))})


def links_glibc(path):
    """Whether a library asks for symbols of glibc; None where it is not there."""
    try:
        with open(path, "rb") as file:
            return b"\0GLIBC_2." in file.read(16 << 20)
    except OSError:
        return None


def conda_packages():
    return [
        path
        for name in ("pytorch", "libtorch")
        for path in glob.glob(os.path.join(sys.prefix, "conda-meta", name + "-[0-9]*.json"))
    ]
