"""CPUs are the smallest of all limits, divided by the ranks that share them."""

from typing import Any

import pytest

from dl_doctor.checks.cpu.cpu_budget import CHECK
from dl_doctor.model import Finding, Unavailable
from tests.facts import cpu_budget, cpu_limit, job_gpus, loader_plan, runtime, slurm

NO_SLURM = Unavailable.absent("SLURM_JOB_ID is not set")


def troubles(
    cpu: Any, workers: int | None = None, *, in_slurm: Any = NO_SLURM, gpus: Any = None, where: str = "docker"
) -> list[Finding]:
    verdict = CHECK.judge(cpu, loader_plan(num_workers=workers), runtime(where), in_slurm, gpus or job_gpus(expected=False))
    return [finding for finding in verdict.findings if finding.level != "note"]


@pytest.mark.parametrize(
    ("limits", "fields", "found"),
    [
        ([cpu_limit(64)], {}, []),
        ([cpu_limit(8), cpu_limit(8, "quota")], {}, []),
        ([cpu_limit(2), cpu_limit(0.5, "quota")], {}, [("warn", 0.5)]),  # half a CPU crawls, it does not break
        ([cpu_limit(2), cpu_limit(0.5, "quota")], {"intra_op_threads": 1}, [("warn", 0.5)]),
        ([cpu_limit(2), cpu_limit(1.5, "quota", shared_by=2)], {"ranks": 2}, [("fail", 1.5)]),
        ([cpu_limit(8), cpu_limit(2, "quota", shared_by=2)], {"ranks": 2, "intra_op_threads": 1}, []),
        ([cpu_limit(64), cpu_limit(4, "quota")], {"intra_op_threads": 32}, [("warn", 32)]),  # a pool sized by what it sees
        ([cpu_limit(64), cpu_limit(4, "quota")], {"intra_op_threads": 4}, []),
        ([cpu_limit(64), cpu_limit(3.5, "quota")], {"intra_op_threads": 4}, []),
        ([cpu_limit(2)], {"intra_op_threads": 64}, [("warn", 64)]),  # OMP_NUM_THREADS=64 on two CPUs
        ([cpu_limit(64), cpu_limit(32, "quota", shared_by=8)], {"ranks": 8, "intra_op_threads": 1}, []),  # torchrun sets 1
    ],
)
def test_limits(limits: list[Any], fields: dict[str, Any], found: list[tuple[str, float]]) -> None:
    findings = troubles(cpu_budget(*limits, **fields))

    assert [(finding.level, finding.measured and finding.measured.value) for finding in findings] == found


@pytest.mark.parametrize(
    ("cpus", "workers", "node", "gpus", "levels"),
    [
        (1, 4, 64, 1, ["fail"]),
        (8, 8, 64, 8, []),
        (8, 12, 64, 8, []),
        (8, 13, 64, 8, ["fail"]),
        (1, 4, 8, 1, []),  # a small node has no CPUs to spare; worker-count says the rest
        (1, 1, 64, 1, []),
        (1, None, 64, 1, ["warn"]),  # srun's default with a GPU: likely not meant
        (2, None, 64, 1, ["warn"]),
        (3, None, 64, 1, []),
        (1, None, 64, 0, []),  # a CPU job may well have one CPU
    ],
)
def test_bound_by_slurm(cpus: int, workers: int | None, node: int, gpus: int, levels: list[str]) -> None:
    cpu = cpu_budget(cpu_limit(cpus), node_cpus=node)

    findings = troubles(cpu, workers, in_slurm=slurm(), gpus=job_gpus(expected=gpus > 0), where="bare")

    assert [finding.level for finding in findings] == levels


def test_outside_slurm_a_small_mask_is_the_users_own() -> None:
    assert troubles(cpu_budget(cpu_limit(1)), 4, gpus=job_gpus(), where="bare") == []


@pytest.mark.parametrize(
    ("limits", "status"),
    [([cpu_limit(64)], "error"), ([cpu_limit(1, "quota")], "warn")],  # what can be seen is bad enough
)
def test_a_group_out_of_sight_is_no_pass(limits: list[Any], status: str) -> None:
    cpu = cpu_budget(*limits, quota_known=False, intra_op_threads=64)

    verdict = CHECK.judge(cpu, loader_plan(), runtime(), NO_SLURM, job_gpus())

    assert verdict.status == status


def test_kubernetes_without_a_limit_is_told_what_it_is_owed() -> None:
    cpu = cpu_budget(cpu_limit(64), owed_cpus=(1.0, 2.5))
    verdict = CHECK.judge(cpu, loader_plan(), runtime("kubernetes"), NO_SLURM, job_gpus())

    assert verdict.status == "pass"
    assert verdict.findings[0].summary == "No CPU limit: this pod is owed about 1 to 2.5 CPUs and may borrow up to 64"


def test_the_number_its_source_and_its_scope_are_told() -> None:
    cpu = cpu_budget(cpu_limit(64), cpu_limit(32, "quota", shared_by=8), ranks=8, intra_op_threads=1, ancestors_known=False)
    note = CHECK.judge(cpu, loader_plan(), runtime(), NO_SLURM, job_gpus()).findings[-1]

    assert note.summary == "A rank may use 4 CPUs: quota of the container, shared by 8 ranks"
    assert note.measured is not None
    assert (note.measured.value, note.measured.source) == (4, "the quota")
    assert "out of sight" in note.why


@pytest.mark.parametrize(
    ("runtime", "command"),
    [
        ("docker", "docker run --cpus=4 -e OMP_NUM_THREADS=4 ..."),
        ("podman", "podman run --cpus=4 -e OMP_NUM_THREADS=4 ..."),
        ("compose", "cpus: 4"),
        ("kubernetes", 'resources: {limits: {cpu: "4"}}'),
        ("slurm", "#SBATCH --cpus-per-task=4"),
    ],
)
def test_each_runtime_has_its_words(runtime: str, command: str) -> None:
    (finding,) = troubles(cpu_budget(cpu_limit(64), cpu_limit(0.5, "quota")))

    assert finding.fix_for(runtime).commands[0] == command


@pytest.mark.parametrize(
    ("limits", "command"),
    [
        ([cpu_limit(1, shared_by=2), cpu_limit(1, "cpuset", shared_by=2)], "docker run --cpuset-cpus=0-7 ..."),
        ([cpu_limit(1, shared_by=2)], "docker run --cpuset-cpus=0-7 ..."),
        ([cpu_limit(1, shared_by=2), cpu_limit(1, "quota", shared_by=2)], "docker run --cpuset-cpus=0-7 --cpus=8 ..."),
        ([cpu_limit(64, shared_by=2), cpu_limit(1, "quota", shared_by=2)], "docker run --cpus=8 -e OMP_NUM_THREADS=4 ..."),
    ],
)
def test_what_binds_is_what_is_widened(limits: list[Any], command: str) -> None:
    (finding,) = troubles(cpu_budget(*limits, ranks=2))

    assert finding.fix_for("docker").commands == (command,)


@pytest.mark.parametrize(
    ("cpus", "shared_by", "workers", "in_step", "asked"),
    [
        (4, 8, 4, True, 24),  # torchrun in one task: the task gets what all of its ranks need
        (16, 8, 8, True, 64),  # 9 for each rank would be more than the node has
        (1, 1, 4, True, 5),  # srun started the ranks, each a task
        (4, 8, 4, False, 3),  # srun will
    ],
)
def test_cpus_are_asked_for_by_task(cpus: int, shared_by: int, workers: int, *, in_step: bool, asked: int) -> None:
    cpu = cpu_budget(cpu_limit(cpus, shared_by=shared_by), ranks=8, intra_op_threads=1)
    seen = slurm(in_step=in_step, tasks_on_node=8 if shared_by == 1 or not in_step else 1)
    (finding,) = troubles(cpu, workers, in_slurm=seen, where="bare")

    assert finding.fix_for("slurm").commands == (f"#SBATCH --cpus-per-task={asked}", f"srun --cpus-per-task={asked} ...")
