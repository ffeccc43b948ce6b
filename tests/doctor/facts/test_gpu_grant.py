"""A promise is a GPU that somebody named; what images bake in proves nothing."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import gpu_grant, slurm
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.expectation import Expectation
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from tests.recorded import RecordedSystem

NOBODY = Unavailable.not_asked("needs [expect] in a settings file")

STEP = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("variables", "expect", "nodes", "promised", "expected"),
    [
        ({}, None, [], None, False),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None, [], None, False),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, None, [], None, False),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, None, [], None, False),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1"}, None, [], 2, True),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-8f6c"}, None, [], 1, True),
        ({"NVIDIA_VISIBLE_DEVICES": "MIG-41b3"}, None, [], 1, True),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None, ["nvidia0", "nvidiactl"], None, True),
        ({**STEP, "SLURM_JOB_GPUS": "0,1,2,3"}, None, [], 4, True),
        ({**STEP, "SLURM_JOB_GPUS": "0,1,2,3", "SLURM_STEP_GPUS": "2"}, None, [], 1, True),
        ({"NVIDIA_VISIBLE_DEVICES": "MIG-41b3,MIG-52c4"}, None, [], 1, True),  # slices may be of one card
        ({"NVIDIA_VISIBLE_DEVICES": "0:0,0:1,2:0"}, None, [], 2, True),
        ({**STEP, "SLURM_STEP_GPUS": "0,1,2,3", "SLURM_STEP_TASKS_PER_NODE": "4"}, None, [], 1, True),  # each task its own
        ({**STEP, "SLURM_STEP_GPUS": "0,1", "SLURM_STEP_TASKS_PER_NODE": "4"}, None, [], 1, True),
        ({}, 2, [], 2, True),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1"}, 0, [], 0, False),  # what the user says wins
        ({}, None, ["nvidiactl", "nvidia-uvm"], None, False),  # no device of it
        ({}, None, ["kfd"], None, True),
    ],
)
def test_promises(
    tmp_path: Path, variables: dict[str, str], expect: int | None, nodes: list[str], promised: int | None, expected: bool
) -> None:
    system = RecordedSystem({"files": {"/dev": {"folder": [*nodes, "null"]}}}, tmp_path)
    env = Environment(variables)

    grant = gpu_grant.collect(system, env, slurm.collect(env), Settings(expect_gpus=expect), NOBODY)

    assert (grant.promised, grant.expected) == (promised, expected)


def test_what_is_required_is_promised(tmp_path: Path) -> None:
    system = RecordedSystem({"files": {"/dev": {"folder": []}}}, tmp_path)
    env = Environment({})

    assert gpu_grant.collect(system, env, slurm.collect(env), Settings(require=("gpu-visible",)), NOBODY).promised == 1


@pytest.mark.parametrize(
    ("variables", "settings", "promised", "source"),
    [
        ({}, {}, 8, "[expect]"),
        ({}, {"expect_gpus": 2}, 2, "--expect-gpus"),
        ({**STEP, "SLURM_JOB_GPUS": "0,1"}, {}, 2, "Slurm's grant"),  # a job on a part of the node
        ({**STEP, "SLURM_JOB_GPUS": "0,1"}, {"scope": "node"}, 8, "[expect]"),
        ({**STEP, "SLURM_JOB_GPUS": "0,1", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, {}, 8, "[expect]"),
        ({**STEP, "SLURM_JOB_GPUS": "0,1", "SLURM_SCRIPT_CONTEXT": "prolog_task"}, {}, 2, "Slurm's grant"),  # of a job's task
        ({"NVIDIA_VISIBLE_DEVICES": "0"}, {}, 1, "NVIDIA_VISIBLE_DEVICES"),
    ],
)
def test_what_a_site_expects_is_of_the_node(
    tmp_path: Path, variables: dict[str, str], settings: dict[str, Any], promised: int, source: str
) -> None:
    system = RecordedSystem({"files": {"/dev": {"folder": []}}}, tmp_path)
    env = Environment(variables)
    site = Expectation(gpus=8, gpu_model=None, driver=None, free_bytes={})

    grant = gpu_grant.collect(system, env, slurm.collect(env), Settings(**settings), site)

    assert (grant.promised, grant.source) == (promised, source)
