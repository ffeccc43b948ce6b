"""That a node with GPUs runs this job says nothing: Slurm and control groups keep jobs for CPUs from them."""

from typing import Any

import pytest

from dl_doctor.facts import Environment
from dl_doctor.facts.job_gpus import collect
from dl_doctor.model import Unavailable
from tests.facts import gpu_access, gpu_grant

CLOSED = gpu_access(errors={"nvidia0": "EPERM", "nvidia1": "EPERM"})
HALF = gpu_access(errors={"nvidia1": "EPERM"})
NOT_TRIED = Unavailable.absent("no node was tried")
NODES = {"nodes": ("nvidia0", "nvidia1")}


@pytest.mark.parametrize(
    ("grant", "access", "shown", "expected"),
    [
        ({}, NOT_TRIED, None, False),
        ({"promised": 1}, NOT_TRIED, None, True),
        ({"promised": 0, **NODES}, HALF, None, False),  # --expect-gpus 0
        (NODES, NOT_TRIED, None, True),  # a name is all that is known
        (NODES, gpu_access(nodes=()), None, True),
        (NODES, HALF, None, True),
        (NODES, CLOSED, None, False),  # a job for CPUs, whose control group denies all
        (NODES, gpu_access(0), None, False),  # in a Slurm job without GPUs only nvidiactl and nvidia-uvm are tried
        (NODES, gpu_access(0), "0", True),  # a Slurm too old for SLURM_JOB_GPUS
        ({"promised": 2, **NODES}, CLOSED, None, True),  # promised, and revoked
        (NODES, HALF, "", False),
        (NODES, HALF, "-1", False),
        (NODES, HALF, "none", False),
        (NODES, HALF, "0,-1", True),
        (NODES, HALF, "GPU-12", True),
        (NODES, HALF, "abc", True),  # wrong, and not to hide them: gpu-order says so
        ({"nodes": ("kfd",)}, NOT_TRIED, None, True),
        ({"nodes": ("kfd", "nvidia0")}, CLOSED, None, True),
    ],
)
def test_expected(grant: dict[str, Any], access: Any, shown: str | None, *, expected: bool) -> None:
    variables = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}

    assert collect(Environment(variables), gpu_grant(**grant), access).expected is expected
