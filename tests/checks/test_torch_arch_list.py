"""Code runs on GPUs of its major from its minor on; PTX on all later ones; a letter narrows it."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.torch_arch_list import CHECK, runs
from dl_doctor.model import Verdict
from tests.facts import cuda_smoke, no_smoke, nvidia_driver, smoked, smoked_until

OF_TODAY = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")


def judge(*gpus: Any, arch_list: tuple[str, ...] = OF_TODAY, platform: str = "native", **fields: Any) -> Verdict:
    return CHECK.judge(cuda_smoke(*gpus, arch_list=arch_list, **fields), nvidia_driver(platform=platform))


def failed(*capability: int) -> Any:
    """A GPU of this capability on which torch's own code did not run."""
    return smoked_until("product", number=209, capability=capability)


@pytest.mark.parametrize(
    ("arch", "capability", "kind"),
    [
        ("sm_90", (9, 0), "sm"),
        ("sm_86", (8, 9), "sm"),
        ("sm_80", (8, 6), "sm"),
        ("sm_86", (8, 0), None),
        ("sm_80", (9, 0), None),
        ("sm_100", (10, 3), "sm"),
        ("sm_100", (12, 0), None),
        ("sm_90a", (9, 0), "sm"),
        ("sm_100a", (10, 3), None),  # `a` is exact
        ("sm_100f", (10, 3), "sm"),  # `f` is the family
        ("sm_103f", (10, 0), None),
        ("sm_120f", (12, 1), "sm"),
        ("compute_70", (12, 0), "compute"),
        ("compute_90", (8, 9), None),
        ("compute_90a", (10, 0), None),
        ("compute_100f", (12, 0), None),
        ("gfx942", (9, 4), None),
        ("", (9, 0), None),
    ],
)
def test_what_runs_where(arch: str, capability: tuple[int, int], kind: str | None) -> None:
    assert runs(arch, capability) == kind


@pytest.mark.parametrize(
    ("gpu", "arch_list", "levels"),
    [
        (smoked(capability=(8, 9)), OF_TODAY, []),  # sm_86
        (smoked(capability=(12, 1)), OF_TODAY, []),
        (failed(7, 0), OF_TODAY, ["fail"]),  # a V100, and the CUDA that gave it up
        (failed(6, 1), OF_TODAY, ["fail"]),
        (smoked(capability=(7, 0)), OF_TODAY, []),  # it computed, whatever the list says
        (smoked(capability=(12, 0)), ("sm_90", "compute_90"), ["note"]),
        (failed(12, 0), ("sm_90", "compute_90"), ["note"]),  # cuda-smoke says what became of it
        (failed(12, 0), ("sm_90", "sm_90a"), ["fail"]),
    ],
)
def test_a_list_against_a_gpu(gpu: Any, arch_list: tuple[str, ...], levels: list[str]) -> None:
    assert [finding.level for finding in judge(gpu, arch_list=arch_list).findings] == levels


def test_each_gpu_is_judged() -> None:
    verdict = judge(smoked(0), smoked_until("product", 1, number=209, capability=(6, 0), name="Tesla P100"))

    assert [finding.subject for finding in verdict.findings] == ["gpu:1"]
    assert "GPU 1 (Tesla P100): its capability is 6.0" in verdict.findings[0].summary
    assert "compute capability of gpu:0 9.0, gpu:1 6.0" in verdict.seen


@pytest.mark.parametrize(
    ("smoke", "platform", "words"),
    [
        (cuda_smoke(failed(8, 7)), "jetson", "a Jetson"),
        (cuda_smoke(smoked(capability=None), backend="hip", arch_list=("gfx942",)), "native", "ROCm"),
        (no_smoke(init_code=802), "native", "cuda-smoke says why"),
        (cuda_smoke(arch_list=()), "native", "cuda-smoke says why"),
    ],
)
def test_where_it_does_not_decide(smoke: Any, platform: str, words: str) -> None:
    verdict = CHECK.judge(smoke, nvidia_driver(platform=platform))

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert words in verdict.reason.detail
