import re

from dl_doctor.check import Check
from dl_doctor.facts import GpuLibraries, Nvml, TorchFiles
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict

FLOORS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for Linux that runs any CUDA of this major. NVIDIA's CUDA Toolkit release notes, table 2 (minor version
compatibility)."""

NEVER_COMPATIBLE = re.compile(r"GeForce|TITAN", re.IGNORECASE)
"""Cards for which NVIDIA's compatibility package is not made: CUDA error 804, forward compatibility was attempted on non
supported HW. It is for data-centre cards, some of RTX and Jetsons."""


def gpu_driver_floor(nvml: Nvml, torch: TorchFiles | Unavailable, libraries: GpuLibraries | Unavailable) -> Verdict:
    """The driver is new enough for PyTorch's CUDA

    ## What it checks
    The newest CUDA that the driver knows against the CUDA that the installed PyTorch was built with.

    ## Why it matters
    PyTorch brings its own CUDA and needs a driver of at least the same major version. With an older one it says "The NVIDIA
    driver on your system is too old", and torch.cuda.is_available() is False.

    ## How it decides
    The same or a higher major version passes: CUDA 12.8 runs on a driver for 12.0. A lower one fails. It warns where the loader
    would find a library of CUDA's compatibility package that is new enough, or where the card may use one.

    For example, a driver for CUDA 11.4 (470) and a PyTorch of CUDA 12.8 fail on a GeForce card, and warn on an A100.

    ## How to fix
    Install a PyTorch, or use an image, of the driver's CUDA major; or have the driver updated.

    ## Known limits
    Within a major, code that is compiled at run time (Triton, Numba) may still need the newer driver. Which card may use the
    compatibility package is told by its name.

    ## References
    pytorch/pytorch#4546, huggingface/text-generation-inference#1026, NVIDIA's CUDA compatibility guide
    """
    if not nvml.usable:
        return Verdict.skip("no GPU can be asked for its driver")
    if isinstance(torch, Unavailable):
        return Verdict.lacking("torch_files", torch)
    if torch.cuda is None:
        return Verdict.skip("the installed PyTorch is built without CUDA")
    if nvml.cuda_version is None and nvml.driver_version is None:
        return Verdict.unknown("the driver does not tell its version")
    known = major(nvml.cuda_version) if nvml.cuda_version else cuda_major_of(nvml.driver_version or "")
    wanted = major(torch.cuda)
    cuda = nvml.cuda_version or (f"{known}" if known else "an unknown version")
    seen = f"driver {nvml.driver_version or 'unknown'} for CUDA {cuda}, PyTorch with CUDA {torch.cuda}"
    if known >= wanted:
        return Verdict(seen)
    compat = compat_of(libraries)
    rescued = compat is not None and cuda_major_of(compat) >= wanted
    able = not any(NEVER_COMPATIBLE.search(gpu.name or "") for gpu in nvml.usable)
    return Verdict(seen, [too_old(known, torch.cuda, nvml, rescue(rescued=rescued, able=able, compat=compat))])


def too_old(known: int, cuda: str, nvml: Nvml, hope: str) -> Finding:
    wanted = major(cuda)
    floor = FLOORS.get(wanted)
    newer = f"driver {floor} or newer" if floor else f"a driver for CUDA {wanted}"
    return Finding(
        level="warn" if hope else "fail",
        subject="driver",
        summary=f"The driver is too old for this PyTorch: it knows CUDA {nvml.cuda_version or known}, PyTorch was built with"
        f" {cuda}",
        measured=Quantity(known, "CUDA major", f"driver {nvml.driver_version or 'unknown'}"),
        expected=Quantity(wanted, "CUDA major", "torch/version.py"),
        relation="at_least",
        why=hope or "torch.cuda.is_available() will be False.",
        fixes=(
            Fix(
                f"Install a PyTorch, or use an image, of CUDA {known}",
                ("pip install torch --index-url https://download.pytorch.org/whl/...",),
                note="pytorch.org/get-started/previous-versions lists them.",
            ),
            Fix(f"Have the driver updated: {newer}", (), risk="needs-root", note="It is the host's, also in a container."),
        ),
    )


def rescue(*, rescued: bool, able: bool, compat: str | None) -> str:
    """What may make it work all the same."""
    if rescued and able:
        return f"CUDA's compatibility package ({compat}) would be loaded and may make up for it; only a run on the GPU tells."
    if able:
        return "CUDA's compatibility package could make up for it on this card, and the loader does not find a newer one here."
    return ""


def compat_of(libraries: GpuLibraries | Unavailable) -> str | None:
    """The version of the compatibility package's library, where the loader finds that."""
    cuda = libraries.cuda if isinstance(libraries, GpuLibraries) else None
    return cuda.version if cuda and cuda.is_compat else None


def major(version: str) -> int:
    return int(version.partition(".")[0])


def cuda_major_of(driver: str) -> int:
    """The newest CUDA major that a driver of this version knows; 0 where it is older than all that are known."""
    branch = numbers(driver)
    return max((cuda for cuda, floor in FLOORS.items() if branch >= numbers(floor)), default=0)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall("[0-9]+", version))


CHECK = Check(gpu_driver_floor, scope="node")
