"""A list that names no GPU hides them all, without a word."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_order import CHECK
from dl_doctor.model import Ended, Unavailable
from tests.facts import gpu, nvml, nvml_error, slurm, visible_gpus

NO_SLURM = Unavailable.absent("no Slurm")
ONE, TWO = nvml(count=1), nvml(count=2)
MIXED = nvml(gpu(0, name="NVIDIA RTX A2000"), gpu(1, name="NVIDIA A100 80GB PCIe"))


@pytest.mark.parametrize(
    ("told", "known", "levels"),
    [
        (None, TWO, []),
        ("", TWO, []),  # hidden on purpose
        ("-1", TWO, []),
        ("1,0", TWO, []),
        ("1,-1", TWO, []),
        ("GPU-00000001", TWO, []),
        ("3", ONE, ["fail"]),  # right on the host, wrong in the container
        ("GPU-dead", TWO, ["fail"]),
        ("0,0", TWO, ["fail"]),
        ("all", TWO, ["fail"]),
        ("0,7", TWO, ["note"]),
        ("MIG-41b3", nvml(gpu(0, mig=True)), []),
    ],
)
def test_entries(told: str | None, known: Any, levels: list[str]) -> None:
    verdict = CHECK.judge(known, visible_gpus(known, told), NO_SLURM)

    assert [finding.level for finding in verdict.findings] == levels


def test_a_slurm_job_is_told_what_to_do() -> None:
    (finding,) = CHECK.judge(ONE, visible_gpus(ONE, "3"), slurm(gpus=("3",))).findings

    assert finding.summary == "CUDA_VISIBLE_DEVICES=3 names 3, and the GPUs here are 0 to 0"
    assert "Slurm has already given" in finding.fixes[0].title


@pytest.mark.parametrize(
    ("known", "variables", "levels"),
    [
        (MIXED, {}, ["note"]),
        (MIXED, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ["note"]),
        (MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, []),
        (TWO, {}, []),
    ],
)
def test_models(known: Any, variables: dict[str, str], levels: list[str]) -> None:
    verdict = CHECK.judge(known, visible_gpus(known, None, **variables), NO_SLURM)

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    "known",
    [
        nvml_error("UNKNOWN"),
        nvml(ended=Ended(how="hung")),
        nvml(gpu(0, errors={"nvmlDeviceGetHandleByIndex": "NO_PERMISSION"})),  # another job's
    ],
)
def test_without_gpus_to_compare_with(known: Any) -> None:
    assert CHECK.judge(known, visible_gpus(known, "0"), NO_SLURM).status == "skip"
