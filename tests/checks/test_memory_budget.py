"""Memory is judged by the tightest limit that is in force, and by what the kernel would not give back."""

from typing import Any

import pytest

from dl_doctor.checks.limits.memory_budget import CHECK
from dl_doctor.facts import Cgroups
from dl_doctor.facts.cgroups import ControlGroup
from dl_doctor.facts.memory_budget import MemoryLimit
from dl_doctor.model import Unavailable, Verdict
from dl_doctor.units import GIB, MIB
from tests.facts import fitting, job_gpus, limits, loader_plan, memory_budget, runtime

NEED = (140 + 8 * 10 + 24) * MIB + (8 * 2 + 2) * 24 * MIB + 4096 * (8 + 3 * 8)
"""Of a rank with 8 forked workers and batches of 24 MiB, one of which is still samples, too."""

COMMIT_NEED = (9 * 168 + 24) * MIB + (8 * 2 + 2) * 24 * MIB + 4096 * (8 + 3 * 8)
"""Of the same rank, where a fork counts in full."""


NO_GROUPS = Unavailable.absent("no control groups")


def judge(
    memory: Any, *, where: str = "docker", rlimits: Any = None, gpus: Any = None, cgroups: Any = NO_GROUPS, **plan: Any
) -> Verdict:
    known = loader_plan(**plan)
    fits = fitting(known, memory)
    return CHECK.judge(memory, known, rlimits or limits(), gpus or job_gpus(expected=False), runtime(where), cgroups, fits)


@pytest.mark.parametrize(
    ("headroom", "status"),
    [
        (NEED - 1, "fail"),
        (NEED, "warn"),
        (int(NEED / 0.7) - 1, "warn"),
        (int(NEED / 0.7) + 1, "pass"),
    ],
)
def test_headroom_against_the_need(headroom: int, status: str) -> None:
    assert judge(memory_budget(headroom, 8 * GIB), num_workers=8, batch_bytes=24 * MIB).status == status


@pytest.mark.parametrize(
    ("headroom", "plan", "status"),
    [
        (99 * MIB, {}, "fail"),  # nothing can run in it
        (100 * MIB, {}, "pass"),
        (1 * GIB, {"num_workers": 8}, "pass"),
        (1 * GIB, {"num_workers": 8, "start_method": "spawn"}, "fail"),  # each imports torch for itself
        (1 * GIB, {"num_workers": 4, "ranks": 8}, "fail"),  # ranks share the limit
        (300 * MIB, {"num_workers": 0, "batch_bytes": 64 * MIB}, "warn"),  # samples, and the batch that is made of them
        (200 * MIB, {"num_workers": 0, "batch_bytes": 64 * MIB}, "fail"),
    ],
)
def test_the_need_follows_the_plan(headroom: int, plan: dict[str, Any], status: str) -> None:
    assert judge(memory_budget(headroom, 8 * GIB), **plan).status == status


@pytest.mark.parametrize(
    ("address_space", "gpus", "status"),
    [
        (20 * GIB, job_gpus(), "fail"),
        (20 * GIB, job_gpus(expected=False), "pass"),  # without CUDA it is the user's own business
        (None, job_gpus(), "pass"),
    ],
)
def test_a_limit_on_address_space(address_space: int | None, gpus: Any, status: str) -> None:
    verdict = judge(memory_budget(), rlimits=limits(address_space_bytes=address_space), gpus=gpus)

    assert verdict.status == status


@pytest.mark.parametrize(
    ("rlimits", "plan", "subjects"),
    [
        ({"address_space_bytes": 619 * MIB}, {}, ["RLIMIT_AS"]),
        ({"address_space_bytes": 640 * MIB}, {}, []),
        ({"address_space_bytes": 640 * MIB}, {"num_workers": 2, "batch_bytes": 32 * MIB}, ["RLIMIT_AS"]),  # measured: 881
        ({"address_space_bytes": 826 * MIB}, {"num_workers": 0, "batch_bytes": 32 * MIB}, []),
        ({"data_bytes": 210 * MIB}, {}, ["RLIMIT_DATA"]),
        ({"data_bytes": 227 * MIB}, {"num_workers": 2, "batch_bytes": MIB // 16}, []),
        ({"data_bytes": 240 * MIB}, {"num_workers": 2, "batch_bytes": 32 * MIB}, ["RLIMIT_DATA"]),  # measured: 317
        ({"data_bytes": 270 * MIB}, {"num_workers": 0, "batch_bytes": 32 * MIB}, ["RLIMIT_DATA"]),  # measured: 352
        ({"data_bytes": 352 * MIB}, {"num_workers": 0, "batch_bytes": 32 * MIB}, []),
    ],
)
def test_limits_that_torch_or_a_batch_does_not_fit_into(rlimits: Any, plan: dict[str, Any], subjects: list[str]) -> None:
    verdict = judge(memory_budget(), rlimits=limits(**rlimits), **plan)

    assert [finding.subject for finding in verdict.findings] == subjects


@pytest.mark.parametrize(("left", "status"), [(COMMIT_NEED - 1, "fail"), (COMMIT_NEED, "pass"), (None, "pass")])
def test_a_kernel_that_does_not_overcommit(left: int | None, status: str) -> None:
    verdict = judge(memory_budget(commit_left_bytes=left), num_workers=8, batch_bytes=24 * MIB)

    assert verdict.status == status


@pytest.mark.parametrize(
    ("peak", "plan"),
    [
        (158, {"num_workers": 1, "batch_bytes": MIB // 16}),
        (232, {"num_workers": 2, "batch_bytes": 8 * MIB}),
        (529, {"num_workers": 2, "batch_bytes": 32 * MIB, "prefetch_factor": 4}),
        (561, {"num_workers": 4, "batch_bytes": 32 * MIB}),
        (626, {"num_workers": 2, "batch_bytes": 64 * MIB}),
        (270, {"num_workers": 8, "batch_bytes": 1 * MIB}),
        (412, {"num_workers": 8, "batch_bytes": 8 * MIB}),
        (526, {"num_workers": 2, "batch_bytes": 8 * MIB, "start_method": "spawn"}),
        (536, {"num_workers": 2, "batch_bytes": 8 * MIB, "start_method": "forkserver"}),
        (1316, {"num_workers": 8, "batch_bytes": MIB // 16, "start_method": "spawn"}),
    ],
)
def test_the_need_is_just_below_the_peaks_of_real_loaders(peak: int, plan: dict[str, Any]) -> None:
    """Measured in MiB in a control group of their own, with torch 2.13 for CPUs; the least of several datasets."""
    need = loader_plan(**plan).memory_need_bytes

    assert need is not None
    assert 0.85 * peak * MIB < need <= peak * MIB


@pytest.mark.parametrize(("headroom", "status"), [(200 * GIB, "error"), (NEED - 1, "fail")])
def test_a_limit_out_of_sight_is_no_pass(headroom: int, status: str) -> None:
    memory = memory_budget(headroom, limit_known=False)

    assert judge(memory, num_workers=8, batch_bytes=24 * MIB).status == status


def test_what_docker_is_told_suffices() -> None:
    """400 MiB are in use: with them the need takes no more than 70 % of what the new limit leaves."""
    memory = memory_budget(112 * MIB, 512 * MIB)
    finding = judge(memory, num_workers=8, batch_bytes=24 * MIB).findings[0]
    larger = memory_budget(2 * GIB - 400 * MIB, 2 * GIB)

    assert finding.fix_for("docker").commands == ("docker run --memory=2g ...",)
    assert judge(larger, num_workers=8, batch_bytes=24 * MIB).status == "pass"


def test_on_a_full_machine_no_limit_is_to_be_raised() -> None:
    finding = judge(memory_budget(50 * MIB, 256 * GIB)).findings[0]

    assert not any(fix.runtimes for fix in finding.fixes)


def test_kubernetes_is_told_how_it_counts_and_how_it_ends() -> None:
    memory = memory_budget(4 * GIB, 8 * GIB, kill_is_shared=True, working_set_bytes=3 * GIB)
    verdict = judge(memory, where="kubernetes")

    assert verdict.status == "pass"
    assert [finding.summary for finding in verdict.findings] == [
        "When one process is killed for memory, the whole container ends",
        "The kubelet counts a working set of 3 GiB",
    ]


@pytest.mark.parametrize(
    ("source", "commands"),
    [
        ("/sys/fs/cgroup/slice/container/memory.max", ("docker run --memory=1g ...",)),
        ("/sys/fs/cgroup/slice/memory.max", ()),  # the container's own may be larger: raising it changes nothing
        ("/sys/fs/cgroup/slice/container/memory.stat", ()),  # v1 tells there of a limit above
    ],
)
def test_a_limit_is_raised_where_it_binds(source: str, commands: tuple[str, ...]) -> None:
    folders = ("/sys/fs/cgroup/slice/container", "/sys/fs/cgroup/slice", "/sys/fs/cgroup")
    group = ControlGroup(version="v2", path="/slice/container", folders=folders, own_visible=True, top_visible=True)
    limit = MemoryLimit(limit_bytes=512 * MIB, used_bytes=400 * MIB, droppable_bytes=0, scope="container", source=source)
    seen = Cgroups(version="v2", namespaced=False, groups={"memory": group})
    (finding,) = judge(memory_budget(limits=(limit,)), cgroups=seen, num_workers=0).findings
    fix = finding.fix_for("docker")

    assert fix.commands == commands
    assert commands or source in fix.title
