"""Which files stand behind the names of CUDA's libraries, and when that is worth a word."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.cuda_libraries import CHECK
from dl_doctor.facts.cuda_smoke import PassedOver
from dl_doctor.facts.torch_files import Pin
from dl_doctor.model import Unavailable, Verdict
from tests.facts import cuda_smoke, no_smoke, smoked_until, torch_files

SITE = "/venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9"
MODULE = "/opt/modules/cuda-12.4/lib64/libcudnn.so.9.1.0"
PINNED = torch_files(pins=(Pin(name="nvidia-cudnn-cu12", wanted="9.10.2.21", installed="9.10.2.21"),))
CONDA = torch_files(conda=("pytorch-2.5.1-py3.11_cuda12.4_cudnn9.1.0_0",))
NOT_KNOWN = Unavailable.failed("a test")
CUDNN_ERROR = "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"


def judge(*gpus: Any, paths: tuple[str, ...] = (SITE,), by: str | None = "", files: Any = PINNED) -> Verdict:
    """With `by`, the module's library stands in for PyTorch's own; empty where that was loaded."""
    passed_over = () if by == "" else (PassedOver(name="libcudnn.so.9", own=SITE, taken=MODULE, by=by),)
    return CHECK.judge(cuda_smoke(*gpus, libraries={"libcudnn.so.9": paths}, passed_over=passed_over), files)


@pytest.mark.parametrize(
    ("case", "status", "words"),
    [
        ({}, "pass", ""),
        ({"paths": (MODULE,), "files": CONDA}, "pass", ""),  # built with the libraries of a module
        ({"paths": (SITE, MODULE)}, "warn", "libcudnn.so.9 was loaded from two places"),
        ({"paths": (SITE, MODULE), "files": NOT_KNOWN}, "warn", "two places"),
        ({"paths": (MODULE,), "by": "LD_LIBRARY_PATH"}, "warn", f"{MODULE}, by LD_LIBRARY_PATH, and not PyTorch's own"),
        ({"paths": (MODULE,), "by": "LD_PRELOAD"}, "warn", "by LD_PRELOAD"),
        ({"paths": (MODULE,), "by": None}, "pass", ""),  # by its own RPATH: whoever built it wanted that
        ({"paths": (MODULE,), "by": "LD_LIBRARY_PATH", "files": CONDA}, "pass", ""),  # it asks for no nvidia-* package
        ({"paths": (MODULE,), "by": "LD_LIBRARY_PATH", "files": NOT_KNOWN}, "pass", ""),
    ],
)
def test_where_libraries_come_from(case: dict[str, Any], status: str, words: str) -> None:
    verdict = judge(**case)

    assert verdict.status == status
    assert words in "".join(finding.summary for finding in verdict.findings)


@pytest.mark.parametrize(
    ("gpu", "status"),
    [
        (smoked_until("convolution", error=CUDNN_ERROR), "fail"),
        (smoked_until("convolution", number=719), "pass"),  # the GPU, and not a library
        (smoked_until("product", error=CUDNN_ERROR), "skip"),  # it does not even come so far
    ],
)
def test_a_convolution_that_raises(gpu: Any, status: str) -> None:
    assert judge(gpu).status == status


def test_the_cause_is_told_with_it() -> None:
    verdict = judge(smoked_until("convolution", error=CUDNN_ERROR), paths=(MODULE,), by="LD_LIBRARY_PATH")

    assert [finding.level for finding in verdict.findings] == ["fail", "warn"]
    assert CUDNN_ERROR in verdict.findings[0].summary
    assert MODULE in verdict.findings[0].why


def test_a_cudnn_that_torch_does_not_take() -> None:
    (finding,) = CHECK.judge(
        cuda_smoke(cudnn_error="cuDNN version incompatibility: compiled against (9, 10, 2)"), PINNED
    ).findings

    assert finding.level == "warn"
    assert "compiled against (9, 10, 2)" in finding.summary


def test_nothing_was_loaded() -> None:
    assert CHECK.judge(no_smoke(init_code=802), PINNED).status == "skip"
