import re

from dl_doctor.contract import Check
from dl_doctor.facts import NvidiaDriver, Nvml, TorchGpus
from dl_doctor.facts.cuda_errors import COMPAT_NOT_SUPPORTED, DRIVER_MISMATCH, ERRORS
from dl_doctor.facts.gpu_libraries import Library
from dl_doctor.fixes import remake_container
from dl_doctor.model import Finding, Fix, Unavailable, Verdict

CODES = (DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED)

NEVER_COMPATIBLE = re.compile(r"GeForce|TITAN", re.IGNORECASE)
"""As in gpu-driver-floor: cards for which the package is not made."""

DROP = Fix(
    "Drop the folder from the loader's path, or its entry in /etc/ld.so.conf.d",
    ("echo $LD_LIBRARY_PATH", "ldconfig -p | grep libcuda.so"),
    note="In an image, remove the package (cuda-compat-...), or unset what its entry point sets.",
)


def gpu_compat_library(asked: TorchGpus, driver: NvidiaDriver, nvml: Nvml | Unavailable) -> Verdict:
    """The libcuda that is loaded fits the driver

    ## What it checks
    Which file libcuda.so.1 is in a process that has imported torch and called cuInit, and whether cuInit gave one of the two
    codes of a libcuda that does not fit: 803 (another version than the kernel module's) and 804 (the card may not use it).

    ## Why it matters
    Images for a new CUDA carry NVIDIA's compatibility package, a newer libcuda for older drivers of data-centre GPUs. On a host
    whose driver is newer than the image, or on a GeForce, it stands in the way of the driver's own.

    ## How it decides
    The folder being there proves nothing, for every CUDA image has it: only the file that is mapped counts. 803 and 804 fail.
    With a file of the compatibility package mapped that is the cause, because it is older than the module, or because it is not
    made for the card; without, the driver was updated and not restarted. Where CUDA begins, whichever file it is passes.

    For example, libcuda.so.535.161.08 from /usr/local/cuda-12.2/compat, a module 550.90.07, and code 803 fail.

    ## How to fix
    Drop the package's folder from the loader's path; or reload the module, restart the node, or make the container anew.

    ## Known limits
    The package is known by `compat` in the path of the file.

    ## References
    NVIDIA/nvidia-docker#1515, mistralai/mistral-inference#144, oobabooga/textgen#4407, microsoft/onnxruntime#21435; NVIDIA's CUDA
    compatibility guide
    """
    if asked.init_code is None:
        if asked.ended.how != "answered":
            return Verdict.unknown(f"which libcuda it is cannot be told: a process that began CUDA {asked.ended.in_full}")
        return Verdict.skip("libcuda.so.1 does not load; gpu-visible says more")
    files = [Library(path=path, error=None) for path in asked.libcuda]
    compat = next((library for library in files if library.is_compat), None)
    where = " and ".join(asked.libcuda) or "libcuda, from a file that is not named,"
    seen = f"{where} and module {driver.version or 'of a version out of sight'}: cuInit gives {asked.init_code}"
    if asked.init_code not in (0, *CODES):
        return Verdict.skip(f"{seen}; gpu-visible says what that means")
    if not asked.init_code:
        return Verdict(seen)
    return Verdict(seen, [foreign(asked.init_code, compat, driver, nvml) if compat else mixed(asked.init_code, files, driver)])


def foreign(code: int, compat: Library, driver: NvidiaDriver, nvml: Nvml | Unavailable) -> Finding:
    cards = [gpu.name or "" for gpu in nvml.gpus] if isinstance(nvml, Nvml) else []
    older = compat.version and driver.version and numbers(compat.version) < numbers(driver.version)
    if older:
        why = f"It is of {compat.version}, older than the module {driver.version}, whose own libcuda would do."
    elif card := next(filter(NEVER_COMPATIBLE.search, cards), None):
        why = f"It is made for data-centre cards, and this is a {card}."
    else:
        why = f"It says so: {ERRORS[code].meaning}."
    return Finding(
        level="fail",
        subject="libcuda.so.1",
        summary=f"libcuda is that of CUDA's compatibility package, {compat.path}, and CUDA does not begin ({code})",
        why=why,
        fixes=(DROP,),
    )


def mixed(code: int, files: list[Library], driver: NvidiaDriver) -> Finding:
    version = next((library.version for library in files if library.version), None)
    parts = f"libcuda {version or 'of a version that is not named'}, module {driver.version or 'unknown'}"
    return Finding(
        level="fail",
        subject="driver",
        summary=f"libcuda and the kernel module do not fit each other ({code}): {parts}",
        why="The driver was updated and the module that runs is still the old one, or the container was made before; or another "
        "libcuda than the driver's own is found first.",
        owner="admin",
        fixes=(
            *remake_container(),
            Fix("Restart the node, or reload the module", ("reboot",), ("bare", "slurm", "container"), "needs-root"),
        ),
        explained_by="gpu-libraries",
    )


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


CHECK = Check(gpu_compat_library, scope="node")
