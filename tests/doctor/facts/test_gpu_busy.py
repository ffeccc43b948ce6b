"""How busy the step's GPU is, of a torch that says what it is told: there is no GPU here."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from dl_doctor.probes import gpu_busy


def torch_with(answers: Any, *, begun: bool = True) -> Any:
    told = iter(answers)

    def utilization(device: int) -> int:
        assert device == 3
        answer = next(told, answers[-1])
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    return SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: begun, current_device=lambda: 3, utilization=utilization))


@pytest.mark.parametrize(
    ("answers", "begun", "low", "high"),
    [
        ([50], True, 0.5, 0.5),
        ([100, 0, 0, 0, 0, 0, 0, 0], True, 0.0, 0.6),
        ([ModuleNotFoundError("nvidia-ml-py does not seem to be installed")], True, None, None),
        ([80, RuntimeError("NVML: Not Supported")], True, 0.8, 0.8),  # what was told by then
        ([50], False, None, None),  # the step computes on the CPU
    ],
)
def test_what_torch_tells(monkeypatch: pytest.MonkeyPatch, answers: Any, begun: bool, low: Any, high: Any) -> None:
    monkeypatch.setattr(gpu_busy, "LOOK_EVERY_S", 0.01)
    busy = gpu_busy.GpuBusy(torch_with(answers, begun=begun))
    time.sleep(0.2)
    found = busy.end()

    assert found is None if low is None else low <= found <= high


def test_a_run_that_is_over_at_once_knows_nothing() -> None:
    assert gpu_busy.GpuBusy(torch_with([50])).end() is None
