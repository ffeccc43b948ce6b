"""Faults that people reported in public, with inputs of our own: each gets its verdict, and its healthy neighbour none.

Real datasets are examined by the real collectors; the machine beside them is made up.
"""

from typing import Any

import pytest

from dl_doctor.checks.dataset import dataset_collate, dataset_random, dataset_sample, iterable_sharding
from dl_doctor.checks.limits import fd_limit, process_budget
from dl_doctor.checks.shm import shm_memory_limit, shm_size
from dl_doctor.facts import ProcessBudget, batches, dataset_samples, worker_draws
from dl_doctor.facts.process_budget import ProcessLimit
from dl_doctor.model import Unavailable
from dl_doctor.units import GIB, MIB
from tests.examined import examined
from tests.facts import UNKNOWN, cpu_budget, limits, loader_plan, memory_budget, runtime, shared_memory

NO_GROUPS = Unavailable.absent("no control groups")


@pytest.mark.parametrize(
    ("name", "free", "status"),
    [
        ("large", 64 * MIB, "fail"),
        ("large", 8 * GIB, "pass"),
        ("small", 64 * MIB, "pass"),  # Docker's default is enough for small samples
    ],
)
def test_pytorch_pytorch_5040(torch_python: str, name: str, free: int, status: str) -> None:
    """A worker dies by a bus error in a container with 64 MiB of /dev/shm (B001)."""
    made, found = examined(torch_python, name, batches.collect)
    verdict = shm_size.CHECK.judge(shared_memory(free_bytes=free), loader_plan(loader=made, batches=found), UNKNOWN)

    assert verdict.status == status
    assert all("--shm-size=2g" in str(finding.fix_for("docker").commands) for finding in verdict.findings)


@pytest.mark.parametrize(
    ("cache", "statuses"),
    [(0, ("pass", "fail")), (6 * GIB, ("pass", "pass"))],  # page cache that the kernel would drop
)
def test_kubernetes_kubernetes_125852(torch_python: str, cache: int, statuses: tuple[str, str]) -> None:
    """A pod is killed for memory while `df /dev/shm` shows half of the node's memory (B005)."""
    made, found = examined(torch_python, "large", batches.collect)
    plan = loader_plan(loader=made, batches=found, num_workers=16)
    free, headroom = shared_memory(free_bytes=128 * GIB), 8 * GIB - int(7.5e9) + cache
    size = shm_size.CHECK.judge(free, plan, UNKNOWN)
    memory = shm_memory_limit.CHECK.judge(plan, memory_budget(headroom, 8 * GIB), free, runtime("kubernetes"), NO_GROUPS, UNKNOWN)

    assert (size.status, memory.status) == statuses


@pytest.mark.parametrize(
    ("name", "soft", "status"),
    [
        ("many_tensors", 256, "fail"),
        ("many_tensors", 1024, "warn"),  # the program may raise it by itself
        ("many_tensors", 65_536, "pass"),
        ("images", 256, "pass"),
    ],
)
def test_pytorch_pytorch_11201(torch_python: str, name: str, soft: int, status: str) -> None:
    """Received 0 items of ancdata (B018): batches of 100 tensors, each a descriptor."""
    made, found = examined(torch_python, name, batches.collect)
    known = limits(open_files_soft=soft, open_files_hard=1_048_576)

    assert fd_limit.CHECK.judge(known, loader_plan(loader=made, batches=found)).status == status


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("numpy_rng", "dataset.rng"),
        ("fixed_seed", "worker_init_fn"),  # the popular advice, which makes it
        ("global_numpy", None),  # as it was reported: torch seeds it since 1.9
    ],
)
def test_pytorch_pytorch_5059(torch_python: str, name: str, subject: str | None) -> None:
    """Every worker draws the same augmentations (B047)."""
    made, draws = examined(torch_python, name, worker_draws.collect)
    findings = dataset_random.CHECK.judge(draws, made, loader_plan(loader=made), UNKNOWN).findings

    assert [finding.subject for finding in findings if finding.level == "warn"] == ([subject] if subject else [])


@pytest.mark.parametrize(("pids_max", "status"), [(30, "fail"), (70, "warn"), (200, "pass")])
def test_vladmandic_sdnext_2642(torch_python: str, pids_max: int, status: str) -> None:
    """No new thread, while `ulimit -u` says unlimited: the group's pids.max (B061)."""
    made, found = examined(torch_python, "many_tensors", batches.collect)
    limit = ProcessLimit(limit=pids_max, used=10, source="/sys/fs/cgroup/pids.max")
    known = ProcessBudget(limits=(limit,), limit_known=True, ancestors_known=True)
    plan = loader_plan(loader=made, batches=found)

    assert process_budget.CHECK.judge(known, plan, cpu_budget(intra_op_threads=8)).status == status


@pytest.mark.parametrize(("name", "status"), [("sizes", "fail"), ("padded", "pass")])
def test_milesial_pytorch_unet_285(torch_python: str, name: str, status: str) -> None:
    """Stack expects each tensor to be equal size: images of different sizes."""
    made, found = examined(torch_python, name, batches.collect)

    assert dataset_collate.CHECK.judge(found, loader_plan(loader=made, batches=found)).status == status


def test_pytorch_pytorch_7238(torch_python: str) -> None:
    """Which of the images is damaged?"""
    made, found = examined(torch_python, "one_damaged", dataset_samples.collect)
    (finding,) = dataset_sample.CHECK.judge(found, made, UNKNOWN).findings

    assert (finding.level, finding.subject) == ("fail", "dataset[17]")
    assert "/data/17.png" in finding.summary


@pytest.mark.parametrize(("name", "subjects"), [("all_in_each", ["dataset.__iter__"]), ("shared_out", [])])
def test_huggingface_datasets_3423(torch_python: str, name: str, subjects: list[Any]) -> None:
    """Streamed data comes once for each worker."""
    made, draws = examined(torch_python, name, worker_draws.collect)

    assert [f.subject for f in iterable_sharding.CHECK.judge(draws, made, loader_plan(loader=made), UNKNOWN).findings] == subjects
