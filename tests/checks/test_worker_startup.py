"""Seconds until the first batch against those of an epoch; measured, or told by one worker."""

from typing import Any

import pytest

from dl_doctor.checks.workers.worker_startup import CHECK
from dl_doctor.model import Unavailable
from tests.facts import cpu_budget, cpu_limit, loader, loader_arguments, loader_plan, smoke_load, worker_memory

NONE = Unavailable.not_asked("a test")
ONE = worker_memory(method="spawn", started_s=0.1, first_batch_s=3.1)


def judged(load: Any, worker: Any = NONE, *, workers: int = 4, **arguments: Any) -> Any:
    made = loader(loader_arguments(**arguments))
    return CHECK.judge(made, loader_plan(num_workers=workers), load, worker, cpu_budget(cpu_limit(2)))


@pytest.mark.parametrize(
    ("load", "arguments", "status"),
    [
        (smoke_load(0.1, 0.2, 0.3), {}, "pass"),
        (smoke_load(9.0, 9.1, 9.2), {}, "warn"),  # 9 s of a start for 10 s of an epoch
        (smoke_load(9.0, 9.1, 9.2), {"persistent_workers": True}, "pass"),
        (smoke_load(9.0, 9.1, 9.2), {"batches": 10_000}, "pass"),
        (smoke_load(9.0), {}, "pass"),  # how long an epoch is is not known, and it is less than 10 s
        (smoke_load(12.0), {}, "warn"),
        (smoke_load(5.0, 5.01, 5.02), {"batches": 20}, "pass"),  # toy data: 0.2 s of an epoch
        (smoke_load(0.5, 0.51, 0.52), {"batches": 20}, "pass"),  # nobody waits for half a second
        (smoke_load(2.5, 3.7, 4.9), {"batches": 8}, "pass"),  # 4 workers of 2.4 s for a batch: they read, and start at once
        (smoke_load(), {}, "skip"),
    ],
)
def test_against_an_epoch(load: Any, arguments: dict[str, Any], status: str) -> None:
    assert judged(load, **arguments).status == status


def test_told_by_one_worker() -> None:
    """Eight workers on two CPUs: 8 x 0.1 s to start them, and four rounds of 3 s of imports."""
    (finding,) = judged(NONE, ONE, workers=8, persistent_workers=False).findings

    assert finding.measured is not None
    assert finding.measured.value == pytest.approx(12.8)


def test_without_workers_none_is_started() -> None:
    assert judged(NONE, workers=0).status == "pass"
