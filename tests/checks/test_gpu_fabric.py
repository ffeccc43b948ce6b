"""Not completed or not a success is the admin's; not supported says nothing, and CUDA's error 802 decides."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_fabric import CHECK
from dl_doctor.facts import GpuStates
from dl_doctor.facts.gpu_states import Fabric, GpuState
from dl_doctor.model import Ended, Verdict
from tests.facts import ANSWERED, torch_gpus


def card(state: str | None = "completed", status: str = "SUCCESS", **fields: Any) -> GpuState:
    mask = {name: fields.pop(name) for name in ("health", "health_mask") if name in fields}
    fabric = Fabric(state=state, status=status, **mask) if state else None
    return GpuState(**{"index": 0, "fabric": fabric, **fields})


def judge(*gpus: GpuState, code: int | None = 0, **fields: Any) -> Verdict:
    return CHECK.judge(GpuStates(**{"ended": ANSWERED, "gpus": gpus, **fields}), torch_gpus(len(gpus), init_code=code))


OLD = {"nvmlDeviceGetGpuFabricInfo": "FUNCTION_NOT_FOUND"}
NOT_SUPPORTED = {"nvmlDeviceGetGpuFabricInfoV": "NOT_SUPPORTED"}


@pytest.mark.parametrize(
    ("gpus", "code", "expected"),
    [
        ((card(), card()), 0, []),
        ((card("in_progress"), card("in_progress")), 802, ["fail"]),  # one cause, one finding
        ((card(), card("not_started")), 0, ["fail"]),
        ((card("completed", "UNKNOWN"),), 0, ["fail"]),
        ((card("not_started", mig=True),), 0, ["note"]),  # divided into instances: not in the fabric, rightly
        ((card(), card("not_started", mig=True)), 0, ["note"]),
        ((card(),), 802, ["fail"]),  # NVML knows less than CUDA
        ((card("not_supported"),), 802, ["fail"]),
        ((card(None, errors=OLD),), 802, ["fail"]),  # A100 behind NVSwitches
        ((card(health=1, health_mask=0b10),), 0, []),
        ((card(health=2),), 0, ["warn"]),
        ((card(health=3),), 0, ["warn"]),
        ((card(health_mask=0b01),), 0, ["warn"]),  # a driver that sums nothing up
        ((card(health=0, health_mask=0b00),), 0, []),  # not supported, both
        ((card(), card("not_supported")), 0, []),  # a display's card beside them
    ],
)
def test_registration(gpus: Any, code: int, expected: list[str]) -> None:
    verdict = judge(*gpus, code=code)

    assert [finding.level for finding in verdict.findings] == expected
    assert verdict.seen


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (card("not_supported"), "not supported"),  # H100 PCIe
        (card(None, errors=NOT_SUPPORTED), "nvmlDeviceGetGpuFabricInfoV NOT_SUPPORTED"),
        (card(None, errors=OLD), "FUNCTION_NOT_FOUND"),
    ],
)
def test_without_a_fabric_nothing_passes(gpu: GpuState, words: str) -> None:
    verdict = judge(gpu)

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert words in verdict.reason.detail


def test_an_answer_that_should_not_have_come() -> None:
    assert judge(card(None, errors={"nvmlDeviceGetGpuFabricInfoV": "UNKNOWN"})).status == "error"


def test_a_driver_that_hangs() -> None:
    assert judge(ended=Ended(how="hung", step="nvmlDeviceGetGpuFabricInfoV 0")).status == "error"


def test_the_admin_is_told_which_service() -> None:
    (finding,) = judge(card("in_progress"), code=802).findings

    assert finding.owner == "admin"
    assert "in_progress, SUCCESS" in finding.summary
    assert "systemctl start nvidia-fabricmanager" in finding.fixes[0].commands
