"""The PyTorch that lies on the disk of the examined environment, told without importing it."""

import ast
import re
from collections.abc import Mapping

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Unavailable
from dl_doctor.probing import QUICK_S, Probes

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(\[[^\]]*\])?\s*\(?(?P<wanted>[^;)]*)\)?\s*(;(?P<marker>.*))?", re.ASCII)
"""A line of Requires-Dist, in the form of today and in the older one with brackets."""

CLAUSE = re.compile(r"""\s*(\w+)\s*==\s*["']([^"']*)["']\s*""", re.ASCII)
"""Of a marker; the only form that PyTorch's requirements use."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement for exactly one version that applies on this platform."""

    name: str
    wanted: str
    installed: str | None
    """None where it is not installed."""


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """torchvision or torchaudio, which are built for one release of torch."""

    name: str
    version: str
    wanted_torch: str | None
    """The release that its metadata asks for; None where it takes any."""


class TorchFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Source: torch/version.py, torch/lib, and the metadata of installed distributions, as the examined Python finds them."""

    origin: str
    """The file that `import torch` would run."""

    folder: str
    """The real folder it lies in, links resolved."""

    version: str | None
    """From torch/version.py; None where what is found is not PyTorch."""

    metadata_version: str | None
    cuda: str | None
    """The CUDA version that it was built for, such as `12.8`; None for a build without."""

    hip: str | None
    libraries: tuple[str, ...]
    """libtorch's parts, such as `libtorch_cuda.so`."""

    links_glibc: bool | None
    """Whether libc10.so asks for symbols of glibc; None where it is not there."""

    glibc_wanted: str | None
    """The glibc that the wheel was built for, by its tag; None where that does not say."""

    pins: tuple[Pin, ...]
    """On NVIDIA's packages."""

    companions: tuple[Companion, ...]
    packages: dict[str, str]
    """Versions of numpy, triton and NVIDIA's packages, where they are installed."""

    conda: tuple[str, ...]
    """Conda's packages of it with their build strings, such as `pytorch-2.5.1-py3.11_cuda12.4_cudnn9.1.0_0`."""

    @property
    def release(self) -> tuple[int, int] | None:
        """(2, 13)."""
        return release_of(self.version)

    @property
    def local_tag(self) -> str | None:
        """`cpu`, `cu124`, or what a site's own build says."""
        return (self.version or "").partition("+")[2] or None

    @property
    def tag_is_pytorchs(self) -> bool:
        """Whether an index of PyTorch's has this build: PyPI's carry no tag, the others that of their index."""
        tag = self.local_tag or "cpu"
        return tag in ("cpu", "xpu") or re.fullmatch(r"(cu|rocm)[0-9.]+", tag) is not None


async def collect(probes: Probes, target: Target) -> TorchFiles | Unavailable:
    probed = await probes.run("torch_files", python=target.path, deadline_s=QUICK_S)
    if probed.answer is None:
        return Unavailable.failed(f"looking for torch, {target.path} {probed.ended.in_words}")
    found = probed.answer
    if not found["origin"]:
        return Unavailable.absent(f"torch is not installed for {target.path} ({target.why})")
    told = parse_assignments(found["version_text"] or "")
    packages: dict[str, str] = found["packages"]
    return TorchFiles(
        origin=found["origin"],
        folder=found["folder"],
        version=told.get("__version__"),
        metadata_version=found["metadata_version"],
        cuda=told.get("cuda"),
        hip=told.get("hip"),
        libraries=tuple(found["libraries"]),
        links_glibc=found["links_glibc"],
        glibc_wanted=parse_glibc(found["wheel"] or ""),
        pins=tuple(pin for pin in parse_pins(found["requires"], found["platform"], packages) if of_nvidia(pin.name)),
        companions=tuple(
            Companion(name=name, version=packages[name], wanted_torch=torch_wanted(requires, found["platform"], packages))
            for name, requires in found["companions"].items()
            if name in packages
        ),
        packages={name: version for name, version in packages.items() if name in ("numpy", "triton") or of_nvidia(name)},
        conda=tuple(found["conda"]),
    )


def parse_assignments(text: str) -> dict[str, str]:
    """The texts that a module like torch/version.py assigns to names."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    told = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                told[target.id] = value.value
    return told


def parse_glibc(wheel: str) -> str | None:
    """`2.28` of a WHEEL file with the tag cp311-cp311-manylinux_2_28_x86_64; the lowest, where there are several."""
    tags = re.findall(r"^Tag: .*manylinux_(\d+)_(\d+)_", wheel, re.ASCII | re.MULTILINE)
    lowest = min(((int(major), int(minor)) for major, minor in tags), default=None)
    return None if lowest is None else f"{lowest[0]}.{lowest[1]}"


def parse_pins(requires: list[str], platform: Mapping[str, str], installed: Mapping[str, str]) -> list[Pin]:
    """What is required in exactly one version, here; what a marker says that we do not understand is left out."""
    pins = []
    for line in requires:
        found = REQUIREMENT.fullmatch(line.strip())
        wanted = found["wanted"].strip() if found else ""
        if not found or not wanted.startswith("==") or "," in wanted or "*" in wanted:
            continue
        if holds(found["marker"] or "", platform):
            pins.append(Pin(name=found["name"], wanted=wanted.lstrip("= "), installed=installed.get(found["name"])))
    return pins


def holds(marker: str, platform: Mapping[str, str]) -> bool:
    clauses = [CLAUSE.fullmatch(clause) for clause in marker.split(" and ")] if marker.strip() else []
    return all(clause is not None and platform.get(clause[1]) == clause[2] for clause in clauses)


def torch_wanted(requires: list[str], platform: Mapping[str, str], packages: Mapping[str, str]) -> str | None:
    return next((pin.wanted for pin in parse_pins(requires, platform, packages) if pin.name == "torch"), None)


def of_nvidia(name: str) -> bool:
    return name.startswith(("nvidia-", "cuda-"))


def release_of(version: str | None) -> tuple[int, int] | None:
    """(2, 6) of `2.6.0a0+ecf3bae.nv25.01`."""
    found = re.match(r"(\d+)\.(\d+)", version or "", re.ASCII)
    return (int(found[1]), int(found[2])) if found else None
