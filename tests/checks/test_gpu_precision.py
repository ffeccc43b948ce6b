"""Which types the tensor cores take, and whether the job needs them."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_precision import CHECK
from dl_doctor.facts.wanted_precision import WantedPrecision, collect
from dl_doctor.model import Ended, Verdict
from dl_doctor.settings import Settings
from tests.facts import gpu_state, gpu_states, own_gpus


def judge(*capabilities: Any, bf16: bool = False, mine: tuple[int, ...] | None = None, **fields: Any) -> Verdict:
    gpus = [gpu_state(index, capability=capability, name="a test") for index, capability in enumerate(capabilities)]
    own = own_gpus(*(range(len(gpus)) if mine is None else mine))
    return CHECK.judge(gpu_states(*gpus, **fields), own, WantedPrecision(bf16))


@pytest.mark.parametrize(
    ("capability", "lacks"),
    [
        ((6, 0), True),  # P100
        ((7, 0), True),  # V100
        ((7, 5), True),  # T4
        ((8, 0), False),  # A100
        ((8, 6), False),
        ((8, 7), False),  # Orin
        ((8, 9), False),  # L4
        ((9, 0), False),
        ((10, 0), False),  # B200: a text would be less than 8.0
        ((12, 1), False),
    ],
)
def test_bf16(capability: tuple[int, int], lacks: bool) -> None:
    not_needed, needed = judge(capability), judge(capability, bf16=True)

    assert [finding.level for finding in not_needed.findings] == ["note"] * lacks
    assert [finding.level for finding in needed.findings] == ["fail"] * lacks
    assert not_needed.status == "pass"


def test_what_is_told() -> None:
    assert judge((8, 9), (7, 5), (8, 9), (8, 0), None).seen == (
        "GPU 0, 2 (8.9): bf16 and fp8; GPU 1 (7.5): neither bf16 nor fp8; GPU 3 (8.0): bf16; 1 not told"
    )


def test_another_jobs_gpu_does_not_matter() -> None:
    assert judge((7, 5), (8, 0), bf16=True, mine=(1,)).status == "pass"


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (judge((8, 0), mine=()), "skip"),
        (judge(None), "skip"),
        (judge(None, bf16=True), "skip"),  # which is no go: what is required and skips could not tell
        (judge((8, 0), ended=Ended(how="hung", step="nvmlInit")), "error"),
    ],
)
def test_what_is_not_judged(verdict: Verdict, status: str) -> None:
    assert verdict.status == status


def test_who_needs_it() -> None:
    assert collect(Settings(require=("shm-size", "gpu-precision"))).bf16
    assert not collect(Settings()).bf16
