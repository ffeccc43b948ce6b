"""The driver's CUDA against PyTorch's: the major version decides, and a compatibility package may make up for it."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_driver_floor import CHECK, FLOORS, cuda_major_of
from dl_doctor.facts import GpuLibraries, TorchGpus
from dl_doctor.model import NO_GPU, Ended, Unavailable, Verdict
from tests.facts import gpu, gpu_libraries, library, nvml, nvml_error, torch_files, torch_gpus

GEFORCE = (gpu(0, name="NVIDIA GeForce RTX 4090"),)
COMPAT = library("/usr/local/cuda-12.8/compat/libcuda.so.570.86.15")
OLD_COMPAT = library("/usr/local/cuda-11.8/compat/libcuda.so.520.61.05")


NOT_ASKED = Unavailable.not_asked("needs --profile default")


def judge(told: Any, torch: Any = None, libraries: Any = None, asked: Any = NOT_ASKED) -> Verdict:
    return CHECK.judge(told, torch or torch_files(), libraries or gpu_libraries(), asked)


@pytest.mark.parametrize(
    ("driver", "cuda", "torch", "gpus", "libcuda", "status"),
    [
        ("550.90.07", "12.4", "12.8", (), None, "pass"),  # minor versions are compatible
        ("550.90.07", "12.4", "11.8", (), None, "pass"),
        ("580.65.06", "13.0", "12.8", (), None, "pass"),
        ("550.90.07", "12.4", "13.0", GEFORCE, None, "fail"),
        ("470.82.01", "11.4", "12.8", GEFORCE, None, "fail"),
        ("470.82.01", "11.4", "12.8", (), None, "warn"),  # a data-centre card may use the package
        ("470.82.01", "11.4", "12.8", (), COMPAT, "warn"),
        ("470.82.01", "11.4", "12.8", (), OLD_COMPAT, "warn"),
        ("470.82.01", "11.4", "12.8", GEFORCE, COMPAT, "warn"),  # whether it begins, cuInit tells: gpu-visible
        ("470.82.01", "11.4", "12.8", GEFORCE, OLD_COMPAT, "fail"),
        ("525.60.13", None, "12.8", GEFORCE, None, "pass"),  # NVML has no function for it: the driver's version tells
        ("470.82.01", None, "12.8", GEFORCE, None, "fail"),
        ("390.25", None, "11.8", GEFORCE, None, "fail"),
        (None, None, "12.8", (), None, "error"),
        ("550.90.07", "12.4", None, (), None, "skip"),  # no torch, or one for CPUs
    ],
)
def test_in_the_quick_profile_nvml_is_asked(
    driver: str | None, cuda: str | None, torch: str | None, gpus: Any, libcuda: Any, status: str
) -> None:
    told = nvml(*gpus, driver_version=driver, cuda_version=cuda)

    assert judge(told, torch_files(cuda=torch), gpu_libraries(libcuda)).status == status


@pytest.mark.parametrize(
    ("asked", "libcuda", "status"),
    [
        (torch_gpus(driver_cuda="12.2"), None, "pass"),
        (torch_gpus(driver_cuda="13.0"), None, "pass"),
        (torch_gpus(0, driver_cuda="11.4"), None, "fail"),  # a data-centre card too: no package is loaded
        (torch_gpus(0, driver_cuda="11.8"), OLD_COMPAT, "fail"),
        (torch_gpus(driver_cuda="12.8"), COMPAT, "pass"),
        (torch_gpus(0, driver_cuda=None, init_code=34), None, "warn"),  # a stub does not say: it is as in the quick profile
        (TorchGpus(ended=Ended(how="killed", signal="SIGSEGV", step="cuInit")), None, "warn"),
        (Unavailable.timeout("a test"), None, "warn"),
    ],
)
def test_else_the_libcuda_that_is_loaded(asked: Any, libcuda: Any, status: str) -> None:
    """The driver is for CUDA 11.4, by NVML."""
    verdict = judge(nvml(driver_version="470.82.01", cuda_version="11.4"), None, gpu_libraries(libcuda), asked)

    assert verdict.status == status


def test_an_old_library_before_a_new_driver() -> None:
    (finding,) = judge(nvml(), None, gpu_libraries(OLD_COMPAT), torch_gpus(0, driver_cuda="11.8")).findings

    assert (finding.level, finding.subject) == ("fail", "libcuda.so.1")
    assert "/usr/local/cuda-11.8/compat/libcuda.so.520.61.05" in finding.why


def test_without_a_gpu_there_is_nothing_to_run_on() -> None:
    assert judge(nvml_error("DRIVER_NOT_LOADED")).status == "skip"


@pytest.mark.parametrize(
    ("torch", "status"),
    [
        (Unavailable.absent("torch is not installed"), "skip"),
        (Unavailable.failed("looking for torch, it cannot be started"), "error"),
    ],
)
def test_without_the_files_of_torch(torch: Any, status: str) -> None:
    assert judge(nvml(), torch).status == status


@pytest.mark.parametrize(
    "libraries", [Unavailable.absent(NO_GPU), GpuLibraries(ended=Ended(how="unstartable", error="no such file"))]
)
def test_libraries_that_could_not_be_looked_at_hide_nothing(libraries: Any) -> None:
    assert judge(nvml(*GEFORCE, cuda_version="11.4"), libraries=libraries).status == "fail"


def test_the_finding_says_what_would_do() -> None:
    (finding,) = judge(nvml(*GEFORCE, cuda_version="12.4"), torch_files(cuda="13.0")).findings

    assert finding.measured is not None
    assert finding.expected is not None
    assert (finding.measured.value, finding.expected.value) == (12, 13)
    assert any("580.65.06 or newer" in fix.title for fix in finding.fixes)


@pytest.mark.parametrize(
    ("driver", "major"),
    [("450.80.02", 11), ("450.51.05", 0), ("525.60.13", 12), ("520.61.05", 11), ("580.65.06", 13)],
)
def test_the_table(driver: str, major: int) -> None:
    assert cuda_major_of(driver) == major


def test_the_table_rises() -> None:
    assert [cuda_major_of(floor) for floor in FLOORS.values()] == sorted(FLOORS)
