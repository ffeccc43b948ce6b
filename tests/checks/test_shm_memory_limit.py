"""Shared memory is memory: what it may take is bound by the memory limit, however large the mount is."""

from typing import Any

import pytest

from dl_doctor.checks.shm.shm_memory_limit import CHECK
from dl_doctor.model import Unavailable, Verdict
from dl_doctor.units import GIB, MIB
from tests.facts import fitting, loader_plan, memory_budget, runtime, shared_memory

NEED = (8 * 2 + 2) * 24 * MIB + 4096 * (8 + 3 * 8)
PLAN = {"num_workers": 8, "batch_bytes": 24 * MIB}


def judged(headroom: int, plan: dict[str, Any] = PLAN, *, where: str = "docker", **memory: Any) -> Verdict:
    known = memory_budget(headroom, 8 * GIB, **memory)
    shm = shared_memory(free_bytes=128 * GIB)
    wanted = loader_plan(**plan)
    no_groups = Unavailable.absent("no control groups")
    return CHECK.judge(wanted, known, shm, runtime(where), no_groups, fitting(wanted, known, shm))


@pytest.mark.parametrize(
    ("headroom", "plan", "status"),
    [
        (NEED - 1, PLAN, "fail"),
        (NEED, PLAN, "warn"),
        (int(NEED / 0.7) + 1, PLAN, "pass"),
        (2 * NEED - 1, {**PLAN, "ranks": 2}, "fail"),
        (1, {"num_workers": 0}, "pass"),
        (1, {"num_workers": 8}, "pass"),  # the need is not known
        (1, {}, "pass"),
    ],
)
def test_the_need_against_the_headroom(headroom: int, plan: dict[str, Any], status: str) -> None:
    assert judged(headroom, plan).status == status


@pytest.mark.parametrize(("headroom", "status"), [(8 * GIB, "error"), (NEED - 1, "fail")])
def test_where_a_limit_is_out_of_sight(headroom: int, status: str) -> None:
    assert judged(headroom, limit_known=False).status == status


def test_it_is_the_memory_that_is_raised() -> None:
    (finding,) = judged(NEED - 1).findings

    assert finding.fix_for("docker").commands == ("docker run --memory=9g ...",)
    assert "/dev/shm shows 128 GiB free, and that does not help" in finding.why
    assert finding.explained_by == "memory-budget"


def test_on_kubernetes_it_may_be_smaller_than_it_looks() -> None:
    assert [finding.level for finding in judged(8 * GIB, where="kubernetes").findings] == ["note"]
