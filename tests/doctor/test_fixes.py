"""Fixes that several checks share say one number of workers, which all limits allow."""

from typing import Any

import pytest

from dl_doctor.checks.limits import memory_budget
from dl_doctor.checks.shm import shm_size
from dl_doctor.checks.workers import worker_count
from dl_doctor.fixes import ask_for_less
from dl_doctor.units import MIB
from tests import facts
from tests.facts import UNKNOWN

PLAN = {"num_workers": 8, "batch_bytes": 24 * MIB}


@pytest.mark.parametrize(
    ("cpus", "free", "headroom", "plan", "options"),
    [
        (64, 64 * 1024, 64 * 1024, {}, None),  # all of it fits
        (64, 512, 64 * 1024, {}, "num_workers=8, prefetch_factor=1"),  # of MiB
        (64, 256, 64 * 1024, {}, "num_workers=5, prefetch_factor=1"),
        (64, 256, 64 * 1024, {"num_workers": 5, "prefetch_factor": 1}, None),
        (2, 64 * 1024, 64 * 1024, {}, "num_workers=1"),
        (4, 256, 64 * 1024, {}, "num_workers=3, prefetch_factor=1"),
        (64, 16, 64 * 1024, {}, "num_workers=0"),
        (64, 64 * 1024, 900, {}, "num_workers=8, prefetch_factor=1"),
        (64, 64 * 1024, 600, {}, "num_workers=6, prefetch_factor=1"),
        (64, 64 * 1024, 100, {}, None),  # the main process alone is too much
        (64, 256, 64 * 1024, {"num_workers": 0}, None),
        (10**9, 256, 64 * 1024, {"num_workers": 10**9}, "num_workers=5, prefetch_factor=1"),  # without trying every number
    ],
)
def test_the_most_that_fits(cpus: int, free: int, headroom: int, plan: dict[str, Any], options: str | None) -> None:
    known = facts.loader_plan(**{**PLAN, **plan})
    limits = facts.cpu_budget(facts.cpu_limit(cpus)), facts.shared_memory(free_bytes=free * MIB)
    fixes = ask_for_less(facts.fitting(known, *limits, facts.memory_budget(headroom * MIB)))

    assert [fix.commands for fix in fixes] == ([(f"DataLoader(..., {options})",)] if options else [])


def test_all_checks_propose_the_same_number() -> None:
    plan = facts.loader_plan(**PLAN)
    cpu, shm, memory = (
        facts.cpu_budget(facts.cpu_limit(4)),
        facts.shared_memory(free_bytes=256 * MIB),
        facts.memory_budget(512 * MIB),
    )
    fits = facts.fitting(plan, cpu, shm, memory)
    verdicts = [
        shm_size.CHECK.judge(shm, plan, fits),
        memory_budget.CHECK.judge(memory, plan, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, fits),
        worker_count.CHECK.judge(cpu, plan, fits, UNKNOWN),
    ]
    told = [command for verdict in verdicts for fix in verdict.findings[0].fixes for command in fix.commands]

    assert [command for command in told if "num_workers" in command] == [f"DataLoader(..., {fits.options})"] * 3
