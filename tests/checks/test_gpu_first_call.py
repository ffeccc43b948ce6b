"""What CUDA takes to begin, and when that is every time."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_first_call import CHECK
from dl_doctor.facts.gpu_states import GpuState, GpuStates
from dl_doctor.model import Unavailable, Verdict
from tests.facts import ANSWERED, cuda_smoke, no_smoke, torch_gpus

NOT_KNOWN = Unavailable.not_asked("a test")


def judge(first_s: float, again_s: float | None, nvml_s: float | None = 0.1, persistence: Any = True, **fields: Any) -> Verdict:
    states = GpuStates(ended=ANSWERED, gpus=(GpuState(index=0, persistence=persistence),), took_s=nvml_s)
    smoke = NOT_KNOWN if again_s is None else cuda_smoke(init_s=again_s)
    return CHECK.judge(torch_gpus(init_s=first_s, **fields), smoke, states)


@pytest.mark.parametrize(
    ("times", "persistence", "levels"),
    [
        ((0.3, 0.2), True, []),
        ((0.3, 0.2), False, []),  # off alone means nothing: the daemon keeps GPUs in another way
        ((9.9, 9.8), False, []),
        ((16.0, 15.0), False, ["warn"]),
        ((16.0, 15.0), True, ["warn"]),
        ((16.0, 0.4), False, ["note"]),  # a cold disk
        ((0.4, 16.0), False, ["note"]),
        ((16.0, None), False, ["note"]),
        ((0.4, 0.3, 21.0), False, ["note"]),  # NVML's, which came before them
        ((0.4, 0.3, None), None, []),
    ],
)
def test_by_what_it_took(times: tuple[Any, ...], persistence: Any, levels: list[str]) -> None:
    assert [finding.level for finding in judge(*times, persistence=persistence).findings] == levels


def test_what_it_says() -> None:
    (finding,) = judge(16.0, 15.0, persistence=False).findings

    assert finding.summary == ("CUDA takes long to begin, each time: NVML 0.1 s, cuInit 16 s, cuInit in another process 15 s")
    assert finding.measured is not None
    assert finding.measured.value == 15.0
    assert "persistence is on for 0 of 1 GPU" in finding.why


@pytest.mark.parametrize("smoke", [no_smoke(init_code=802), NOT_KNOWN])
def test_where_cuda_did_not_begin(smoke: Any) -> None:
    assert CHECK.judge(torch_gpus(0, init_code=802, init_s=0.2), smoke, NOT_KNOWN).status == "skip"


def test_of_persistence_nothing_is_known() -> None:
    assert CHECK.judge(torch_gpus(), cuda_smoke(), NOT_KNOWN).seen.endswith("persistence is not told")
