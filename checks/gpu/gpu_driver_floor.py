import re

from dl_doctor.contract import Check
from dl_doctor.facts import GpuLibraries, Nvml, TorchFiles, TorchGpus
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict

FLOORS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for Linux that runs any CUDA of this major. NVIDIA's CUDA Toolkit release notes, table 2 (minor version
compatibility)."""

NEVER_COMPATIBLE = re.compile(r"GeForce|TITAN", re.IGNORECASE)
"""Cards for which NVIDIA's compatibility package is not made: CUDA error 804, forward compatibility was attempted on non
supported HW. It is for data-centre cards, some of RTX and Jetsons."""


def gpu_driver_floor(
    nvml: Nvml, torch: TorchFiles | Unavailable, libraries: GpuLibraries | Unavailable, asked: TorchGpus | Unavailable
) -> Verdict:
    """The driver is new enough for PyTorch's CUDA

    ## What it checks
    The newest CUDA that the driver knows against the CUDA that the installed PyTorch was built with. The driver is asked by NVML
    and, unless the profile is quick, in a process that has imported torch, by the libcuda that is loaded there.

    ## Why it matters
    PyTorch brings its own CUDA and needs a driver of at least the same major version. With an older one it says "The NVIDIA
    driver on your system is too old", and torch.cuda.is_available() is False.

    ## How it decides
    The same or a higher major version passes: CUDA 12.8 runs on a driver for 12.0. A lower one fails. In the quick profile, where
    NVML alone was asked, a lower one warns where the loader would find a library of CUDA's compatibility package that is new
    enough, or where the card may use one: what that library answers is not known there.

    For example, a driver for CUDA 11.4 (470) fails with a PyTorch of CUDA 12.8. Where CUDA's compatibility package is loaded and
    answers 12.8 it passes.

    ## How to fix
    Install a PyTorch, or use an image, of the driver's CUDA major; or have the driver updated. Where an older libcuda than the
    driver's own is found first, drop its folder from LD_LIBRARY_PATH.

    ## Known limits
    Within a major, code that is compiled at run time (Triton, Numba) may still need the newer driver. Which card may use the
    compatibility package is told by its name in the quick profile; whether CUDA then begins is told by gpu-visible.

    ## References
    pytorch/pytorch#4546, weaviate/Verba#72, huggingface/text-generation-inference#1026, NVIDIA's CUDA compatibility guide
    """
    if not nvml.usable:
        return Verdict.skip("no GPU can be asked for its driver")
    if isinstance(torch, Unavailable):
        return Verdict.lacking("torch_files", torch)
    if torch.cuda is None:
        return Verdict.skip("the installed PyTorch is built without CUDA")
    answered = asked.driver_cuda if isinstance(asked, TorchGpus) else None
    told = answered or nvml.cuda_version
    if told is None and nvml.driver_version is None:
        return Verdict.unknown("the driver does not tell its version")
    known = major(told) if told else cuda_major_of(nvml.driver_version or "")
    wanted = major(torch.cuda)
    driver = f"driver {nvml.driver_version or 'unknown'}"
    source = f"libcuda of {driver}" if answered else driver
    seen = f"{source} knows CUDA {told or known or 'of an unknown version'}, PyTorch was built with {torch.cuda}"
    if known >= wanted:
        return Verdict(seen)
    if answered and cuda_major_of(nvml.driver_version or "") >= wanted:
        return Verdict(seen, [shadowed(seen, libraries)])
    hope = "" if answered else rescue(wanted, nvml, libraries)
    return Verdict(seen, [too_old(known, wanted, seen, source, hope)])


def too_old(known: int, wanted: int, seen: str, source: str, hope: str) -> Finding:
    floor = FLOORS.get(wanted)
    newer = f"driver {floor} or newer" if floor else f"a driver for CUDA {wanted}"
    return Finding(
        level="warn" if hope else "fail",
        subject="driver",
        summary=f"The driver is too old for this PyTorch: {seen}",
        measured=Quantity(known, "CUDA major", source),
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


def shadowed(seen: str, libraries: GpuLibraries | Unavailable) -> Finding:
    cuda = libraries.cuda if isinstance(libraries, GpuLibraries) else None
    return Finding(
        level="fail",
        subject="libcuda.so.1",
        summary=f"An older libcuda is found before the driver's own, which would do: {seen}",
        why=f"The loader takes {(cuda and cuda.path) or 'it'}. torch.cuda.is_available() will be False.",
        fixes=(Fix("Drop its folder from the loader's path", ("echo $LD_LIBRARY_PATH",)),),
    )


def rescue(wanted: int, nvml: Nvml, libraries: GpuLibraries | Unavailable) -> str:
    """What may make it work all the same."""
    compat = compat_of(libraries)
    if compat and cuda_major_of(compat) >= wanted:
        return f"CUDA's compatibility package ({compat}) would be loaded and may make up for it; --profile default asks it."
    if not any(NEVER_COMPATIBLE.search(gpu.name or "") for gpu in nvml.usable):
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
