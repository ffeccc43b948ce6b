"""The whole doctor on machines with GPUs: eight healthy ones, and what can befall them."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.model import Report
from tests.fakes import Fakes, lay_torch
from tests.lab.doctor import table
from tests.lab.gpus import DEVICES, NVIDIA, Machine, control_group_without_gpus, examine

pytestmark = pytest.mark.lab

HEALTHY = {
    "gpu-device-access": "pass",
    "gpu-driver-floor": "skip",  # no torch in the examined environment
    "gpu-health": "pass",
    "gpu-idle": "pass",
    "gpu-libraries": "pass",
    "gpu-order": "pass",
    "gpu-per-rank": "skip",
    "gpu-precision": "pass",
    "gpu-visible": "pass",
}


def findings(report: Report) -> dict[str, list[str]]:
    return {
        result.id: [f"{finding.level} {finding.subject}" for finding in result.findings]
        for result in report.results
        if result.findings
    }


def summary(report: Report, check: str) -> str:
    (result,) = (result for result in report.results if result.id == check)
    return result.findings[0].summary if result.findings else result.reason.detail if result.reason else result.seen


def test_eight_healthy_gpus(fakes: Fakes, tmp_path: Path) -> None:
    report = examine(Machine(), fakes, tmp_path, "--expect-gpus=8")

    assert report.verdict.exit_code == 0
    assert {check: table(report)[check] for check in HEALTHY} == HEALTHY
    assert findings(report) == {}
    assert [gpu["uuid"] for gpu in report.facts["nvml"]["gpus"]] == [
        f"GPU-{n:08x}-0000-0000-0000-000000000000" for n in range(1, 9)
    ]


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        pytest.param(
            Machine(does=["3.error.nvmlDeviceGetHandleByIndex_v2=15"]),
            {"gpu-health": ["fail gpu:3"], "gpu-visible": ["fail gpu:3"]},
            id="lost",
        ),
        pytest.param(
            Machine(does=["1.remap_failed=1", "2.memory_used=60000000000", "5.field.230=2"]),
            {"gpu-health": ["fail gpu:1", "fail gpu:5"], "gpu-idle": ["warn gpu:2"]},
            id="ill and in use",
        ),
        pytest.param(Machine(does=["crash.nvmlDeviceGetCount_v2=1"]), {"gpu-visible": ["fail nvml"]}, id="crash"),
        pytest.param(
            Machine(library="550.107.02", does=["error.nvmlInitWithFlags=18"]),
            {"gpu-libraries": ["fail driver"], "gpu-visible": ["fail gpus"]},
            id="mismatch",
        ),
        pytest.param(
            Machine(gpus=1, variables={"CUDA_VISIBLE_DEVICES": "3"}),
            {"gpu-order": ["fail CUDA_VISIBLE_DEVICES"], "gpu-visible": ["fail CUDA_VISIBLE_DEVICES"]},
            id="a number of the host's",
        ),
        pytest.param(
            Machine(number=NVIDIA, does=["error.nvmlInitWithFlags=9"], variables={"NVIDIA_VISIBLE_DEVICES": "0"}),
            {"gpu-device-access": ["fail /dev/nvidiactl"], "gpu-visible": ["fail gpus"]},
            id="no driver behind the nodes",
        ),
        pytest.param(
            Machine(options="mode=755,nodev", does=["error.nvmlInitWithFlags=4"], variables={"NVIDIA_VISIBLE_DEVICES": "0"}),
            {"gpu-device-access": ["fail /dev/nvidiactl"], "gpu-visible": ["fail gpus"]},
            id="a mount without devices",
        ),
    ],
)
def test_what_can_befall_them(fakes: Fakes, tmp_path: Path, machine: Machine, told: dict[str, list[str]]) -> None:
    report = examine(machine, fakes, tmp_path)

    assert findings(report) == told
    assert report.verdict.exit_code == 1


@pytest.mark.parametrize(
    ("cuda", "does", "told"),
    [
        pytest.param("12.4", [], {}, id="all is well"),
        pytest.param(
            "13.0",
            [],
            {"cuda-smoke": ["fail torch"], "gpu-driver-floor": ["fail driver"], "gpu-visible": ["fail torch"]},
            id="a torch for a newer driver",
        ),
        pytest.param(None, [], {"gpu-visible": ["fail torch"], "torch-cuda-build": ["fail torch"]}, id="a torch for CPUs"),
        pytest.param(
            "12.4",
            ["error.cuInit=803"],
            {"cuda-smoke": ["fail torch"], "gpu-compat-library": ["fail driver"], "gpu-visible": ["fail torch"]},
            id="a driver of two versions",
        ),
        pytest.param("12.4", ["1.error.product=719"], {"cuda-smoke": ["fail gpu:1"]}, id="one that does not compute"),
        pytest.param("12.4", ["crash.cuInit=1"], {"gpu-visible": ["fail torch"]}, id="crash"),
    ],
)
def test_what_torch_sees_of_them(fakes: Fakes, tmp_path: Path, cuda: str | None, does: list[str], told: Any) -> None:
    variables = {"PYTHONPATH": str(lay_torch(tmp_path / "packages", cuda))}
    report = examine(Machine(gpus=2, does=does, variables=variables), fakes, tmp_path, "--select=torch-imports")

    assert findings(report) == told
    assert report.verdict.exit_code == (1 if told else 0)
    assert table(report)["torch-imports"] == "pass"  # what CUDA does is not told of it


def test_in_the_quick_profile_cuda_does_not_begin(fakes: Fakes, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": str(lay_torch(tmp_path / "packages"))}
    machine = Machine(gpus=2, does=["crash.cuInit=1", "crash.cuDriverGetVersion=1"], variables=variables)
    report = examine(machine, fakes, tmp_path, "--profile=quick")

    assert (findings(report), table(report)["gpu-visible"], table(report)["gpu-driver-floor"]) == ({}, "pass", "pass")
    assert report.unavailable["torch_gpus"].kind == "not_asked"


def test_a_driver_that_never_answers_is_named_in_time(fakes: Fakes, tmp_path: Path) -> None:
    begin = time.monotonic()
    report = examine(Machine(does=["hang.nvmlDeviceGetCount_v2=1"]), fakes, tmp_path)

    assert time.monotonic() - begin < 30
    assert (report.verdict.exit_code, table(report)["gpu-visible"]) == (3, "error")
    assert "nvmlDeviceGetCount" in summary(report, "gpu-visible")
    assert table(report)["gpu-libraries"] == "pass"  # what needs no answer from it is judged all the same


def test_devices_that_were_taken_away(fakes: Fakes, tmp_path: Path) -> None:
    """What systemctl daemon-reload does to a container: nodes with mode 666, and EPERM for root."""
    if not DEVICES.is_dir():
        pytest.skip("needs the devices controller of cgroup v1")
    with control_group_without_gpus(f"dl-doctor-lab-{os.getpid()}") as group:
        machine = Machine(number=NVIDIA, does=["error.nvmlInitWithFlags=999"], group=group)
        report = examine(machine, fakes, tmp_path, "--expect-gpus=8")

    assert findings(report) == {"gpu-device-access": ["fail /dev/nvidiactl"], "gpu-visible": ["fail gpus"]}
    assert "may not be opened (EPERM), although the mode is 666" in summary(report, "gpu-device-access")
    causes: list[Any] = [finding.explained_by for result in report.results for finding in result.findings]
    assert causes == [None, "gpu-device-access"]


def test_an_image_that_asks_for_all_on_a_machine_without(fakes: Fakes, tmp_path: Path) -> None:
    """NVIDIA_VISIBLE_DEVICES=all is baked into images; it promises nothing."""
    report = examine(Machine(gpus=0, variables={"NVIDIA_VISIBLE_DEVICES": "all"}), fakes, tmp_path)

    assert findings(report) == {}
