"""The driver's CUDA against PyTorch's: the major version decides, and a compatibility package may make up for it."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_driver_floor import CHECK, FLOORS, cuda_major_of
from dl_doctor.model import Ended
from tests.facts import gpu, gpu_libraries, library, nvml, nvml_error

GEFORCE = (gpu(0, name="NVIDIA GeForce RTX 4090"),)
COMPAT = library("/usr/local/cuda-12.8/compat/libcuda.so.570.86.15")
OLD_COMPAT = library("/usr/local/cuda-11.8/compat/libcuda.so.520.61.05")


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
        ("470.82.01", "11.4", "12.8", GEFORCE, COMPAT, "fail"),  # error 804
        ("525.60.13", None, "12.8", GEFORCE, None, "pass"),  # NVML has no function for it: the driver's version tells
        ("470.82.01", None, "12.8", GEFORCE, None, "fail"),
        ("390.25", None, "11.8", GEFORCE, None, "fail"),
        (None, None, "12.8", (), None, "error"),
        ("550.90.07", "12.4", None, (), None, "skip"),  # no torch, or one for CPUs
    ],
)
def test_majors(driver: str | None, cuda: str | None, torch: str | None, gpus: Any, libcuda: Any, status: str) -> None:
    told = nvml(*gpus, driver_version=driver, cuda_version=cuda)

    assert CHECK.judge(told, gpu_libraries(libcuda, torch_cuda=torch)).status == status


def test_without_a_gpu_there_is_nothing_to_run_on() -> None:
    assert CHECK.judge(nvml_error("DRIVER_NOT_LOADED"), gpu_libraries()).status == "skip"


def test_an_interpreter_that_cannot_tell() -> None:
    libraries = gpu_libraries(ended=Ended(how="unstartable", error="no such file"))

    assert CHECK.judge(nvml(), libraries).status == "error"


def test_the_finding_says_what_would_do() -> None:
    (finding,) = CHECK.judge(nvml(*GEFORCE, cuda_version="12.4"), gpu_libraries(torch_cuda="13.0")).findings

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
