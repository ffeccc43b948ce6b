"""The libcuda that is mapped decides, and only where CUDA says that it does not fit."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_compat_library import CHECK
from dl_doctor.facts import TorchGpus
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import gpu, nvidia_driver, nvml, torch_gpus

OWN = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07"
NEWER_OWN = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.107.02"
OLDER, NEWER = "/usr/local/cuda-12.2/compat/libcuda.so.535.161.08", "/usr/local/cuda-12.8/compat/libcuda.so.570.86.15"
GEFORCE = nvml(gpu(name="NVIDIA GeForce RTX 4090"))


def judge(code: int | None, *paths: str, known: Any = None, module: str | None = "550.90.07") -> Verdict:
    asked = torch_gpus(0 if code else 2, init_code=code, libcuda=paths)
    return CHECK.judge(asked, nvidia_driver(version=module), known or nvml())


@pytest.mark.parametrize(
    ("code", "path", "status", "words"),
    [
        (0, OWN, "pass", ""),
        (0, NEWER, "pass", ""),  # what the package is for
        (0, OLDER, "pass", ""),  # CUDA begins with it all the same
        (803, OLDER, "fail", "older than the module 550.90.07"),
        (804, NEWER, "fail", "may not use"),
        (803, NEWER, "fail", "different versions"),
        (803, NEWER_OWN, "fail", "still the old one"),
        (804, OWN, "fail", "still the old one"),
        (802, OWN, "skip", ""),
        (999, OLDER, "skip", ""),
        (None, "", "skip", ""),
    ],
)
def test_by_code_and_file(code: int | None, path: str, status: str, words: str) -> None:
    verdict = judge(code, path)

    assert verdict.status == status
    assert words in "".join(finding.why for finding in verdict.findings)


def test_a_geforce_is_named() -> None:
    (finding,) = judge(804, NEWER, known=GEFORCE).findings

    assert finding.why == "It is made for data-centre cards, and this is a NVIDIA GeForce RTX 4090."
    assert finding.summary == f"libcuda is that of CUDA's compatibility package, {NEWER}, and CUDA does not begin (804)"


def test_of_several_files_the_packages_is_named() -> None:
    assert OLDER in judge(803, OWN, OLDER).findings[0].summary


@pytest.mark.parametrize("known", [Unavailable.absent("a test"), nvml(gpu(name=None))])
def test_what_is_not_known_is_not_needed(known: Any) -> None:
    assert judge(804, NEWER, known=known, module=None).status == "fail"


def test_a_driver_of_two_versions_is_told_once() -> None:
    assert judge(803, NEWER_OWN).findings[0].explained_by == "gpu-libraries"


def test_a_process_that_did_not_come_back() -> None:
    ended = Ended(how="hung", step="cuInit", pid=7, state="S")
    verdict = CHECK.judge(TorchGpus(ended=ended), nvidia_driver(), nvml())

    assert verdict.status == "error"
