"""Shared memory is judged against what this loader needs, never by its size alone."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.checks.shm.shm_size import CHECK, enlarge
from dl_doctor.facts import LoaderPlan, SharedMemory
from dl_doctor.facts.batches import SpareViews
from dl_doctor.facts.shared_memory import Segment, Tenant
from dl_doctor.model import Unavailable, Verdict
from dl_doctor.units import GIB, MIB
from tests.facts import batches, fitting, gpu_grant, loader, loader_arguments, loader_plan, shared_memory

SPARE = SpareViews(path="batch['crop'][0]", views=8, storage_bytes=32 * MIB, tensor_bytes=4096)

EIGHT_WORKERS = (8 * 2 + 2) * 24 * MIB + 4096 * (8 + 3 * 8)


def judged(shm: SharedMemory | Unavailable, plan: LoaderPlan) -> Verdict:
    return CHECK.judge(shm, plan, fitting(plan, shm))


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (64 * MIB, "fail"),
        (EIGHT_WORKERS - 1, "fail"),
        (EIGHT_WORKERS, "warn"),
        (EIGHT_WORKERS * 3 // 2 - 1, "warn"),
        (EIGHT_WORKERS * 3 // 2, "pass"),
        (None, "pass"),  # mounted with size=0: no limit, not no room
    ],
)
def test_free_space_against_the_need(free: int | None, status: str) -> None:
    verdict = judged(shared_memory(free_bytes=free), loader_plan(num_workers=8, batch_bytes=24 * MIB))

    assert verdict.status == status


@pytest.mark.parametrize(
    ("free", "plan", "status"),
    [
        (64 * MIB, {"num_workers": 8, "batch_bytes": 256 * 1024}, "pass"),  # Docker's default is enough for small samples
        (64 * MIB, {"num_workers": 0}, "pass"),  # nothing is handed over
        (1 * MIB, {"num_workers": 0, "ranks": 2}, "warn"),  # NCCL shares memory also without workers
        (64 * MIB, {"num_workers": 0, "ranks": 4}, "warn"),
        (64 * MIB, {"num_workers": 0, "ranks": 2}, "pass"),
        (511 * MIB, {"num_workers": 4}, "warn"),  # the need is unknown
        (512 * MIB, {"num_workers": 4}, "pass"),
        (64 * MIB, {}, "warn"),  # unknown is not 0 workers
        (700 * MIB, {"num_workers": 8, "batch_bytes": 24 * MIB, "ranks": 2}, "fail"),  # ranks share the mount
        (300 * MIB, {"num_workers": 8, "batch_bytes": 24 * MIB, "prefetch_factor": 1}, "warn"),
    ],
)
def test_the_need_follows_the_plan(free: int, plan: dict[str, int], status: str) -> None:
    assert judged(shared_memory(free_bytes=free), loader_plan(**plan)).status == status


@pytest.mark.parametrize(
    ("plan", "gpus", "status"),
    [
        ({"num_workers": 0, "ranks": 4}, gpu_grant(promised=4), "warn"),
        ({"num_workers": 0, "ranks": 4}, gpu_grant(), "pass"),  # ranks of MPI on CPUs: no NCCL
        ({"num_workers": 0, "ranks": 4}, Unavailable.denied("/dev"), "pass"),
        ({"num_workers": 1, "ranks": 4, "batch_bytes": MIB}, gpu_grant(promised=4), "warn"),
        ({"num_workers": 1, "ranks": 4, "batch_bytes": MIB}, gpu_grant(), "pass"),
    ],
)
def test_nccl_takes_its_share_only_where_there_are_gpus(plan: dict[str, int], gpus: Any, status: str) -> None:
    assert judged(shared_memory(free_bytes=64 * MIB), loader_plan(gpus=gpus, **plan)).status == status


@pytest.mark.parametrize(
    ("free", "plan", "status"),
    [
        (4, {"num_workers": 8}, "fail"),
        (34, {"num_workers": 8}, "fail"),
        (35, {"num_workers": 8}, "pass"),
        (35, {"num_workers": 8, "ranks": 2}, "fail"),
        (13, {"num_workers": 1}, "fail"),
        (14, {"num_workers": 1}, "pass"),  # measured: the least that works
        (4, {"num_workers": 0}, "pass"),
        (4, {}, "pass"),  # there may be no workers
        (None, {"num_workers": 8}, "pass"),  # mounted with nr_inodes=0
        (331, {"num_workers": 8, "tensors_per_batch": 100}, "fail"),
        (332, {"num_workers": 8, "tensors_per_batch": 100}, "pass"),
    ],
)
def test_files_are_counted_as_well(free: int | None, plan: dict[str, int], status: str) -> None:
    assert judged(shared_memory(free_files=free), loader_plan(**plan)).status == status


def test_ranks_without_gpus_and_workers_need_no_shared_memory() -> None:
    assert (
        judged(Unavailable.absent("there is no /dev/shm"), loader_plan(num_workers=0, ranks=4, gpus=gpu_grant())).status == "pass"
    )


@pytest.mark.parametrize(
    ("unavailable", "workers", "status"),
    [
        (Unavailable.absent("there is no /dev/shm"), 4, "fail"),
        (Unavailable.absent("there is no /dev/shm"), None, "fail"),
        (Unavailable.absent("there is no /dev/shm"), 0, "pass"),
        (Unavailable.absent("/proc/self/mountinfo does not exist").inherited_from("mounts"), 4, "skip"),  # macOS
        (Unavailable.denied("statvfs"), 4, "skip"),
        (Unavailable.failed("mountinfo"), 4, "error"),
        (Unavailable.not_asked("--root"), 4, "not_run"),
    ],
)
def test_without_a_look_at_it(unavailable: Unavailable, workers: int | None, status: str) -> None:
    assert judged(unavailable, loader_plan(num_workers=workers)).status == status


@pytest.mark.parametrize(
    ("stale", "levels"),
    [
        ((), []),
        (None, []),  # processes out of sight may use them
        ((Segment(name="sem.mp-a", used_bytes=4096),), ["note"]),
        ((Segment(name="torch_1_2_0", used_bytes=MIB),), ["warn"]),
    ],
)
def test_left_over_segments(stale: tuple[Segment, ...] | None, levels: list[str]) -> None:
    verdict = judged(shared_memory(stale=stale), loader_plan(num_workers=0))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({}, "--num-workers and --batch-bytes"),
        ({"num_workers": 4}, ": --batch-bytes, or --loader, would"),
        ({"num_workers": 0}, ""),
    ],
)
def test_how_to_make_the_need_known(plan: dict[str, int], told: str) -> None:
    notes = [finding.summary for finding in judged(shared_memory(), loader_plan(**plan)).findings]

    assert bool(told) == bool(notes)
    assert all(told in note for note in notes)


def test_the_command_for_left_over_segments_is_safe_to_paste(tmp_path: Path) -> None:
    name = "torch_1_$(touch pwned) '; echo x"
    verdict = judged(shared_memory(stale=(Segment(name=name, used_bytes=MIB),)), loader_plan())
    (command,) = verdict.findings[0].fixes[0].commands

    told = subprocess.run(
        command.replace("rm ", "printf %s ", 1), shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert told.stdout == f"/dev/shm/{name}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("views", "workers", "levels"),
    [
        ((SPARE,), 4, ["warn"]),
        ((SPARE,), None, ["warn"]),
        ((SPARE,), 0, []),  # nothing is handed over
        ((msgspec.structs.replace(SPARE, storage_bytes=MIB + 4095),), 4, []),  # not worth a change
        ((), 4, []),
    ],
)
def test_views_of_larger_storages(views: Any, workers: int | None, levels: list[str]) -> None:
    verdict = judged(shared_memory(), loader_plan(num_workers=workers, batches=batches(spare_views=views)))

    assert [finding.level for finding in verdict.findings if finding.subject == SPARE.path] == levels


def test_a_collate_fn_of_its_own_waits_for_ever() -> None:
    made = loader(arguments=loader_arguments(collate_fn="train.pad", num_workers=8))
    (finding,) = judged(shared_memory(free_bytes=64 * MIB), loader_plan(loader=made, batches=batches())).findings

    assert "own collate_fn (train.pad) is lost in a thread of the worker's, and the loader waits for ever" in finding.why


def test_who_fills_it_is_named() -> None:
    shm = shared_memory(size_bytes=GIB, free_bytes=64 * MIB, tenants=(Tenant(prefix="nccl", used_bytes=960 * MIB),))

    (finding,) = judged(shm, loader_plan(num_workers=8, batch_bytes=24 * MIB)).findings

    assert "nccl… hold 960 MiB" in finding.why


@pytest.mark.parametrize("used", [0, 300 * MIB])
def test_the_size_that_docker_is_told_suffices(used: int) -> None:
    """Room for the comfortable need and for what is there already."""
    shm = shared_memory(size_bytes=used + 64 * MIB, free_bytes=64 * MIB)
    plan = loader_plan(num_workers=8, batch_bytes=24 * MIB)
    (command,) = judged(shm, plan).findings[0].fix_for("docker").commands

    assert command == "docker run --shm-size=1g ..."
    assert judged(shared_memory(size_bytes=GIB, free_bytes=GIB - used), plan).status == "pass"


def test_a_full_mount_is_not_told_to_shrink() -> None:
    """960 MiB are in use, and what the loader needs is not known."""
    (finding, _) = judged(shared_memory(size_bytes=GIB, free_bytes=64 * MIB), loader_plan()).findings

    assert finding.fix_for("docker").commands == ("docker run --shm-size=2g ...",)


def test_asking_for_less_fits() -> None:
    shm, plan = shared_memory(free_bytes=256 * MIB), loader_plan(num_workers=8, batch_bytes=24 * MIB)
    (command,) = judged(shm, plan).findings[0].fixes[-1].commands

    assert command == "DataLoader(..., num_workers=5, prefetch_factor=1)"
    assert judged(shm, loader_plan(num_workers=5, prefetch_factor=1, batch_bytes=24 * MIB)).status == "pass"


@pytest.mark.parametrize(
    ("runtime", "command"),
    [
        ("docker", "docker run --shm-size=1g ..."),
        ("podman", "podman run --shm-size=1g ..."),
        ("compose", "shm_size: 1gb"),
        ("kubernetes", "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]"),
        ("ecs", '"linuxParameters": {"sharedMemorySize": 1024}'),
        ("github-actions", "options: --shm-size=1g"),
        ("slurm", "mount -o remount,size=1g /dev/shm"),
        ("apptainer", "mount -o remount,size=1g /dev/shm"),
        ("enroot", "mount -o remount,size=1g /dev/shm"),
        ("bare", "mount -o remount,size=1g /dev/shm"),
    ],
)
def test_each_runtime_has_its_words(runtime: str, command: str) -> None:
    fixes = [fix for fix in enlarge(600 * MIB) if runtime in fix.runtimes]

    assert fixes[0].commands[0] == command
