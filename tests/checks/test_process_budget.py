"""Threads that may still be started, by the tightest limit, against those that ranks and workers start."""

from typing import Any

import pytest

from dl_doctor.checks.limits.process_budget import CHECK
from dl_doctor.facts import ProcessBudget
from dl_doctor.facts.process_budget import ProcessLimit
from dl_doctor.model import Unavailable
from tests.facts import cpu_budget, loader_plan

GROUP = "/sys/fs/cgroup/pids.max"
NEED = 4 + 1 + 8 * 3
"""Of a rank with 4 CPUs and 8 workers."""


def budget(limit: int | None, used: int = 0, source: str = GROUP, **fields: Any) -> ProcessBudget:
    limits = () if limit is None else (ProcessLimit(limit=limit, used=used, source=source),)
    return ProcessBudget(**{"limits": limits, "limit_known": True, "ancestors_known": True, **fields})


FOUR_CPUS = cpu_budget(intra_op_threads=4)


@pytest.mark.parametrize(
    ("known", "plan", "status"),
    [
        (budget(None), {"num_workers": 8}, "pass"),
        (budget(NEED - 1), {"num_workers": 8}, "fail"),
        (budget(NEED), {"num_workers": 8}, "warn"),
        (budget(2 * NEED - 1), {"num_workers": 8}, "warn"),
        (budget(2 * NEED), {"num_workers": 8}, "pass"),
        (budget(2 * NEED + 9, used=10), {"num_workers": 8}, "warn"),
        (budget(2 * NEED), {"num_workers": 8, "ranks": 4}, "fail"),
        (budget(9), {"num_workers": 0}, "warn"),
        (budget(1), {}, "pass"),  # how many workers there will be is not known
        (budget(None, limit_known=False), {"num_workers": 8}, "error"),
        (budget(10_000, limit_known=False), {"num_workers": 8}, "error"),  # a tighter one may be in force
        (budget(1, limit_known=False), {"num_workers": 8}, "fail"),
        (budget(10_000, ancestors_known=False), {"num_workers": 8}, "pass"),
    ],
)
def test_status(known: ProcessBudget, plan: dict[str, Any], status: str) -> None:
    assert CHECK.judge(known, loader_plan(**plan), FOUR_CPUS).status == status


def test_without_cpus_in_sight_a_rank_counts_least() -> None:
    assert CHECK.judge(budget(2 * (2 + 24)), loader_plan(num_workers=8), Unavailable.denied("x")).status == "pass"


@pytest.mark.parametrize(
    ("source", "runtime", "command"),
    [
        (GROUP, "docker", "docker run --pids-limit=4096 ..."),
        ("/proc/sys/kernel/threads-max", None, "sysctl kernel.threads-max=20"),
        ("RLIMIT_NPROC (ulimit -u)", None, "ulimit -u $(ulimit -Hu)"),
    ],
)
def test_the_fix_is_of_the_limit_that_is_reached(source: str, runtime: str | None, command: str) -> None:
    (finding,) = CHECK.judge(budget(10, source=source), loader_plan(num_workers=8), FOUR_CPUS).findings
    fix = finding.fix_for(runtime) if runtime else finding.fixes[0]

    assert (finding.subject, fix.commands) == (source, (command,))
