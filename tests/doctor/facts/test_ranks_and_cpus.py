"""Who shares which CPUs: the fixtures of launchers, schedulers and containers."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import cpu_budget, environment, ranks, slurm
from dl_doctor.facts.cgroups import Cgroups, ControlGroup
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.ranks import Ranks
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from tests.facts import gpu_grant
from tests.recorded import RecordedSystem

JOB = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu01", "SLURM_NODEID": "1"}
STEP = {**JOB, "SLURM_STEP_ID": "0"}
TORCHRUN = {"LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}


def launched(variables: dict[str, str]) -> tuple[Ranks, Slurm | Unavailable]:
    env = Environment(variables)
    grant = gpu_grant(nodes=("nvidia0", "nvidia1"))
    return ranks.collect(env, slurm.collect(env), grant), slurm.collect(env)


@pytest.mark.parametrize(
    ("variables", "on_node", "in_task"),
    [
        ({}, 1, 1),
        (TORCHRUN, 8, 8),
        ({"LOCAL_WORLD_SIZE": "8"}, 8, 8),
        ({"LOCAL_WORLD_SIZE": "0"}, 1, 1),
        ({"LOCAL_WORLD_SIZE": "eight"}, 1, 1),
        ({"PET_NPROC_PER_NODE": "4"}, 4, 4),
        ({"PET_NPROC_PER_NODE": "gpu"}, 2, 2),
        ({"PET_NPROC_PER_NODE": "cpu"}, 1, 1),
        ({"LOCAL_RANK": "0", "LOCAL_SIZE": "8", "WORLD_SIZE": "8"}, 8, 8),  # DeepSpeed
        ({"MV2_COMM_WORLD_LOCAL_SIZE": "4"}, 4, 1),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4, 1),  # mpirun binds each rank
        ({**JOB, "SLURM_TASKS_PER_NODE": "8(x2)", "SLURM_NTASKS": "16"}, 8, 8),  # the batch script: tasks to come share it
        ({**JOB, "SLURM_TASKS_PER_NODE": "128(x2)"}, 1, 1),  # nobody asked for tasks: Slurm counts CPUs
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "eight"}, 1, 1),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "SLURM_TASKS_PER_NODE": "1"}, 8, 1),  # srun's task has its own
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "4,2"}, 2, 1),  # this is the second node
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", **TORCHRUN}, 8, 8),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "LOCAL_WORLD_SIZE": "8"}, 8, 1),  # exported by the job script
        ({"SLURM_JOB_ID": "7", "SLURM_TASKS_PER_NODE": "8"}, 1, 1),  # salloc's shell on the login node
    ],
)
def test_ranks(variables: dict[str, str], on_node: int, in_task: int) -> None:
    found, _ = launched(variables)

    assert (found.on_node, found.in_task) == (on_node, in_task)


def machine(affinity: str, files: dict[str, Any] | None = None, variables: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "files": {"/sys/devices/system/cpu/online": "0-63\n", **(files or {})},
        "affinity": affinity,
        "physical_cores": 32,
        "environment": variables or {},
    }


def budget(tmp_path: Path, affinity: str, variables: dict[str, str], files: dict[str, str] | None = None) -> Any:
    """The CPU budget of a process on a node of 64 CPUs; `files` are of its control group, v2."""
    placed = {f"/cg/{name}": text for name, text in (files or {}).items()}
    system = RecordedSystem(machine(affinity, placed, variables), tmp_path)
    group = ControlGroup(version="v2", path="/", folders=("/cg",), own_visible=True, top_visible=False)
    found, in_slurm = launched(variables)
    cgroups = Cgroups(version="v2", namespaced=True, groups={"cpu": group, "cpuset": group})
    return cpu_budget.collect(system, environment.collect(system), cgroups, found, in_slurm)


@pytest.mark.parametrize(
    ("affinity", "variables", "files", "cpus", "kind"),
    [
        ("0-63", {**JOB, "SLURM_TASKS_PER_NODE": "8(x2)", "SLURM_NTASKS": "16", "SLURM_CPUS_PER_TASK": "8"}, {}, 8, "affinity"),
        ("0-63", {**JOB, "SLURM_TASKS_PER_NODE": "64(x2)"}, {}, 64, "affinity"),
        ("0-63", {**STEP, "SLURM_CPUS_PER_TASK": "-5"}, {}, 64, "affinity"),
        ("8-15", {**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "SLURM_CPUS_PER_TASK": "8"}, {}, 8, "affinity"),
        ("0-63", {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", **TORCHRUN}, {}, 8, "affinity"),
        ("0-63", TORCHRUN, {"cpu.max": "3200000 100000\n"}, 4, "quota"),
        # --cpu-bind=none: the mask is everybody's, Slurm's word is this task's
        ("0-63", {**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "SLURM_CPUS_PER_TASK": "4"}, {}, 4, "slurm"),
        ("0-63", {**STEP, "SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, {"cpuset.cpus.effective": "0-31\n"}, 4, "cpuset"),
        ("0-63", {"OMPI_COMM_WORLD_LOCAL_SIZE": "16"}, {}, 4, "node"),  # masks that overlap
        ("0-63", {}, {"cpu.max": "50000 100000\n"}, 0.5, "quota"),
        ("0-63", {}, {"cpu.max": "max 100000\n"}, 64, "affinity"),
        ("0-15", {"OMP_NUM_THREADS": "1", "PYTHON_CPU_COUNT": "7"}, {}, 16, "affinity"),  # these set no limit
        ("0-63", {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4"}, {}, 64, "affinity"),  # outside the step
    ],
)
def test_the_scope_of_a_limit(
    tmp_path: Path, affinity: str, variables: dict[str, str], files: dict[str, str], cpus: float, kind: str
) -> None:
    found = budget(tmp_path, affinity, variables, files)

    assert (found.cpus, found.tightest.kind) == (cpus, kind)


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({}, 32),  # cores, not hyper-threads
        ({"OMP_NUM_THREADS": "4"}, 4),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "many"}, 32),
        ({"MKL_NUM_THREADS": "2"}, 2),
    ],
)
def test_threads_of_one_operation(tmp_path: Path, variables: dict[str, str], threads: int) -> None:
    assert budget(tmp_path, "0-63", variables).intra_op_threads == threads


@pytest.mark.parametrize("text", ["", "max", "50000 0\n", "abc 100000\n", "0 100000\n"])
def test_a_damaged_quota_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    found = budget(tmp_path, "0-63", {}, {"cpu.max": text})

    assert (found.cpus, found.quota_known) == (64, False)


@pytest.mark.parametrize(("weight", "owed"), [("0\n", None), ("10001\n", None), ("heavy", None), ("1\n", 0.002)])
def test_an_odd_weight_is_no_reason_to_know_nothing(tmp_path: Path, weight: str, owed: float | None) -> None:
    """0 is the weight of an idle group (systemd's CPUWeight=idle)."""
    found = budget(tmp_path, "0-63", {}, {"cpu.weight": weight})

    assert found.quota_known
    assert (found.owed_cpus and found.owed_cpus[0]) == (owed and pytest.approx(owed, rel=0.1))


@pytest.mark.parametrize(
    ("variables", "gib"),
    [
        ({"SLURM_MEM_PER_NODE": "32768"}, 32),
        ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "16"}, 16),
        ({"SLURM_MEM_PER_NODE": "0"}, None),  # all that the node has
        ({}, None),
    ],
)
def test_memory_that_slurm_granted(variables: dict[str, str], gib: int | None) -> None:
    _, found = launched({**JOB, **variables})

    assert isinstance(found, Slurm)
    assert found.memory_bytes == (gib << 30 if gib else None)
