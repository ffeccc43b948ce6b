"""Which libraries the loader finds, and whether they are the driver's own."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_libraries import CHECK
from dl_doctor.facts import GpuLibraries
from dl_doctor.facts.environment import Environment
from dl_doctor.model import NO_GPU, Ended, Unavailable, Verdict
from tests.facts import gpu_access, gpu_libraries, library, nvidia_driver, nvml, nvml_error, runtime

LIB = "/usr/lib/x86_64-linux-gnu"
MISSING = library(error="libcuda.so.1: cannot open shared object file: No such file or directory")
BROKEN = library(error=f"{LIB}/libcuda.so.1: file too short")
NOBODY = Unavailable.absent("a test")


def judge(
    cuda: Any = None,
    ml: Any = None,
    *,
    driver: Any = None,
    access: Any = None,
    told: Any = None,
    where: str = "docker",
    ended: Any = None,
    **variables: str,
) -> Verdict:
    libraries = GpuLibraries(ended=ended) if ended else gpu_libraries(cuda, ml)
    return CHECK.judge(
        libraries, driver or nvidia_driver(), access or gpu_access(), told or nvml(), runtime(where), Environment(variables)
    )


@pytest.mark.parametrize(
    ("cuda", "ml", "status", "words"),
    [
        (None, None, "pass", ""),
        (MISSING, None, "fail", "the capability `compute` is missing"),
        (None, MISSING, "warn", "the capability `utility` is missing"),
        (MISSING, MISSING, "fail", "neither"),
        (BROKEN, None, "fail", "does not load"),
        (library("/usr/local/cuda/lib64/stubs/libcuda.so"), None, "fail", "stub"),
        (library(f"{LIB}/libcuda.so.550.107.02"), None, "fail", "libcuda 550.107.02"),
        (None, library(f"{LIB}/libnvidia-ml.so.550.107.02"), "fail", "libnvidia-ml 550.107.02"),
        (library("/usr/local/cuda-12.8/compat/libcuda.so.570.86.15"), None, "pass", ""),  # newer on purpose
        (library(f"{LIB}/libcuda.so.1"), library(f"{LIB}/libnvidia-ml.so.1"), "pass", ""),  # copies without a version
        (library(), library(), "pass", ""),
    ],
)
def test_which_libraries(cuda: Any, ml: Any, status: str, words: str) -> None:
    verdict = judge(cuda, ml)

    assert verdict.status == status
    assert words in "".join(finding.summary for finding in verdict.findings)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "not set, which means utility alone"),
        ({"NVIDIA_DRIVER_CAPABILITIES": "utility"}, "NVIDIA_DRIVER_CAPABILITIES is utility"),
    ],
)
def test_the_capabilities_are_told(variables: dict[str, str], words: str) -> None:
    (finding,) = judge(MISSING, **variables).findings

    assert words in finding.why
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix_for("docker").commands[0]


def test_nvml_knows_of_a_mismatch_that_names_do_not_tell() -> None:
    plain = library(f"{LIB}/libcuda.so.1")
    verdict = judge(plain, plain, told=nvml_error("LIB_RM_VERSION_MISMATCH"))

    assert verdict.status == "fail"


def test_without_a_module_in_sight_versions_are_not_compared() -> None:
    assert judge(driver=nvidia_driver(version=None)).status == "pass"


@pytest.mark.parametrize(
    ("driver", "access", "told", "reason"),
    [
        (nvidia_driver(2), gpu_access(2, errors={"nvidia0": "EPERM", "nvidia1": "EPERM"}), NOBODY, "this job was given no GPU"),
        (nvidia_driver(2), NOBODY, nvml_error("LIBRARY_NOT_FOUND"), "this job was given no GPU"),  # a container without
        (nvidia_driver(0), NOBODY, NOBODY, NO_GPU),
        (nvidia_driver(0, platform="wsl", nodes=("dxg",)), NOBODY, NOBODY, NO_GPU),
        (nvidia_driver(0, platform="jetson"), NOBODY, NOBODY, "a Jetson has libraries of its own"),
    ],
)
def test_only_where_a_gpu_was_granted(driver: Any, access: Any, told: Any, reason: str) -> None:
    verdict = judge(MISSING, MISSING, driver=driver, access=access, told=told)

    assert verdict.reason is not None
    assert verdict.status == "skip"
    assert reason in verdict.reason.detail


@pytest.mark.parametrize(
    ("path", "where", "status"),
    [
        ("/usr/lib/wsl/lib/libcuda.so.1.1", "bare", "pass"),
        ("/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1", "bare", "pass"),
        (f"{LIB}/libcuda.so.535.183.01", "bare", "warn"),  # a Linux driver's package was installed in WSL
        (f"{LIB}/libcuda.so.1.1", "docker", "pass"),  # containers get WSL's in another folder
    ],
)
def test_wsl_brings_its_own(path: str, where: str, status: str) -> None:
    wsl = nvidia_driver(0, platform="wsl", nodes=("dxg",))
    verdict = judge(library(path), library("/usr/lib/wsl/lib/libnvidia-ml.so.1"), driver=wsl, access=NOBODY, where=where)

    assert verdict.status == status


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(how="killed", signal="SIGSEGV", step="load libcuda.so.1"), "fail"),
        (Ended(how="stuck", pid=7, state="D", step="load libcuda.so.1"), "fail"),
        (Ended(how="killed", signal="SIGKILL"), "error"),
        (Ended(how="hung", step="load libcuda.so.1"), "error"),
        (Ended(how="unstartable", error="no such file"), "error"),
    ],
)
def test_what_loading_did(ended: Ended, status: str) -> None:
    assert judge(ended=ended).status == status
