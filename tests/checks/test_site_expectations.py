"""A node is as its site expects it; what cannot be looked at is not passed."""

from typing import Any

import pytest

from dl_doctor.checks.site.site_expectations import CHECK
from dl_doctor.facts import Expectation, Nvml
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.model import Ended, Unavailable
from dl_doctor.units import GIB
from tests.facts import data_path, data_paths, gpu, nvml, nvml_error

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
NO_GPU = Unavailable.absent("no GPU here and none expected")


def expectation(**fields: Any) -> Expectation:
    return Expectation(**{"gpus": None, "gpu_model": None, "driver": None, "free_bytes": {}, **fields})


def room(**fields: Any) -> DataPath:
    return data_path("expected", path="/scratch", said_by="[expect]", **fields)


@pytest.mark.parametrize(
    ("expected", "found", "status", "subjects"),
    [
        ({"gpu_model": "H100"}, nvml(gpu(0, name=H100), gpu(1, name=H100)), "pass", []),
        ({"gpu_model": "h100"}, nvml(gpu(0, name=H100)), "pass", []),
        ({"gpu_model": "H100"}, nvml(gpu(0, name=H100), gpu(1, name=A100)), "fail", ["gpu:1"]),
        ({"driver": "550.54.15"}, nvml(driver_version="550.54.15"), "pass", []),
        ({"driver": "550.54.15"}, nvml(driver_version="570.86.10"), "pass", []),
        ({"driver": "550.54.15"}, nvml(driver_version="550.54.9"), "fail", ["driver"]),  # by numbers, not by letters
        ({"driver": "550"}, nvml(driver_version="550.54.15"), "pass", []),
        ({"driver": "560"}, nvml(driver_version="550.54.15"), "fail", ["driver"]),
        ({"gpu_model": "H100"}, NO_GPU, "error", []),
        ({"driver": "550"}, nvml_error("DRIVER_NOT_LOADED"), "error", []),
        ({"gpus": 8}, NO_GPU, "skip", []),  # gpu-visible has it
    ],
)
def test_gpus(expected: dict[str, Any], found: Nvml | Unavailable, status: str, subjects: list[str]) -> None:
    verdict = CHECK.judge(expectation(**expected), found, data_paths())

    assert (verdict.status, [finding.subject for finding in verdict.findings]) == (status, subjects)
    assert {finding.owner for finding in verdict.findings} <= {"admin"}


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        (room(free_bytes=500 * GIB), "pass"),
        (room(free_bytes=500 * GIB - 1), "fail"),
        (room(exists=False, free_bytes=900 * GIB), "fail"),  # the room is that of the folder above
        (room(free_bytes=None, ended=Ended(how="stuck", step="stat /scratch")), "error"),
    ],
)
def test_room(entry: DataPath, status: str) -> None:
    verdict = CHECK.judge(expectation(free_bytes={"/scratch": 500 * GIB}), NO_GPU, data_paths(entry))

    assert verdict.status == status


def test_a_failure_is_told_also_where_something_else_could_not_be_seen() -> None:
    verdict = CHECK.judge(expectation(driver="550", free_bytes={"/scratch": GIB}), NO_GPU, data_paths(room(free_bytes=0)))

    assert verdict.status == "fail"
