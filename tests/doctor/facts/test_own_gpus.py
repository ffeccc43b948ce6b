"""Which GPUs are this job's, by what schedulers and people say."""

from typing import Any

import pytest

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.own_gpus import collect
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from tests.facts import gpu, nvml, slurm, visible_gpus

FOUR = nvml(count=4)
MIXED = nvml(gpu(0, name="NVIDIA T4"), gpu(1, name="NVIDIA A100"))
LOST = nvml(gpu(0), gpu(1, errors={"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}), gpu(2))
SHIFTED = nvml(gpu(0, minor=2), gpu(1, minor=3))
"""A container of the node's third and fourth GPU."""

NO_SLURM = Unavailable.absent("a test")


@pytest.mark.parametrize(
    ("known", "devices", "job", "indices", "source"),
    [
        (FOUR, None, NO_SLURM, (0, 1, 2, 3), "NVML"),
        (FOUR, "2,1", NO_SLURM, (2, 1), "CUDA_VISIBLE_DEVICES"),
        (FOUR, "", NO_SLURM, (), "CUDA_VISIBLE_DEVICES"),
        (FOUR, "-1", slurm(gpus=("1",)), (), "CUDA_VISIBLE_DEVICES"),
        (FOUR, "GPU-00000003", NO_SLURM, (3,), "CUDA_VISIBLE_DEVICES"),
        (nvml(gpu(0), gpu(1, mig=True)), "MIG-1234", NO_SLURM, (1,), "CUDA_VISIBLE_DEVICES"),
        (LOST, None, NO_SLURM, (0, 2), "NVML"),
        (LOST, "1", NO_SLURM, (2,), "CUDA_VISIBLE_DEVICES"),  # CUDA counts those that live
        (MIXED, "1", NO_SLURM, (0, 1), "NVML"),  # CUDA's 1 is the slower one, whichever that is
        # without a control group of its own a job sees the GPUs of others
        (FOUR, None, slurm(gpus=("1",)), (1,), "Slurm's grant"),
        (FOUR, None, slurm(gpus=()), (), "Slurm's grant"),
        (SHIFTED, None, slurm(gpus=("2", "3")), (0, 1), "Slurm's grant"),
        (SHIFTED, "0", slurm(gpus=("2", "3")), (0,), "CUDA_VISIBLE_DEVICES"),
        (nvml(gpu(0, minor=None)), None, slurm(gpus=("5",)), (0,), "NVML"),
    ],
)
def test_whose_they_are(known: Any, devices: str | None, job: Any, indices: tuple[int, ...], source: str) -> None:
    own = collect(Environment({}), known, visible_gpus(known, devices), job, Settings())

    assert (own.indices, own.source) == (indices, source)


def test_in_the_order_of_the_bus_models_may_differ() -> None:
    visible = visible_gpus(MIXED, "1", CUDA_DEVICE_ORDER="PCI_BUS_ID")

    assert collect(Environment({}), MIXED, visible, NO_SLURM, Settings()).indices == (1,)


def test_of_the_node_all_count() -> None:
    """What hides GPUs from this shell says nothing of the node; in a prolog the grant does."""
    visible = visible_gpus(FOUR, "0")
    prolog = Environment({"SLURM_SCRIPT_CONTEXT": "prolog_slurmd"})

    assert collect(Environment({}), FOUR, visible, NO_SLURM, Settings(scope="node")).indices == (0, 1, 2, 3)
    assert collect(prolog, FOUR, visible, slurm(gpus=("2",)), Settings()).indices == (2,)
