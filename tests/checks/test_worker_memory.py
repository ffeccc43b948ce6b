"""What one worker's pages tell of all workers after an epoch."""

from typing import Any

import msgspec
import pytest

from dl_doctor.checks.workers.worker_memory import CHECK
from dl_doctor.facts import WorkerMemory
from dl_doctor.facts.worker_memory import MARGIN
from dl_doctor.model import Ended
from dl_doctor.units import GIB, MIB
from tests.facts import UNKNOWN, dataset_samples, fitting, loader_plan, memory_budget, smoke_load, trouble, worker_memory

STRINGS = (230, 17, 1, 223)
"""Pages that a list of short strings had copied, as measured: one for each sample at random, few for neighbours."""

SCATTERED = (221, 457, 3, 176)
"""The same where neighbours in the list are none in memory."""


def test_arrays_are_not_copied() -> None:
    assert worker_memory(copied=(13, 9, 2, 3)).copied_by(4) < MIB  # pages of the interpreter itself, as measured


def test_strings_are_copied_whole_by_each_worker() -> None:
    one = worker_memory(copied=STRINGS)

    assert one.copied_by(1) == pytest.approx(1_000_000 * 16 * 4096 / 560, rel=0.01)
    assert one.copied_by(8) > 0.98 * one.copied_by(1)  # each page has 33 strings, one of which falls to each worker
    assert worker_memory(copied=STRINGS, random_order=False).copied_by(8) < 0.3 * one.copied_by(1)


def test_large_objects_are_shared_out() -> None:
    """One sample has a page for itself: an eighth of them falls to each of eight workers."""
    one = worker_memory(copied=(240, 560, 0, 240), length=10_000)

    assert one.copied_by(8) == pytest.approx(one.copied_by(1) / 8)


def test_there_is_never_more_to_copy_than_is_shared() -> None:
    assert 0.99 * GIB < worker_memory(copied=(240, 560, 0, 240)).copied_by(1) < GIB


def test_what_is_left_to_copy_shows_in_how_much_less_is_copied() -> None:
    """4,000 pages in all, of which each random sample finds fewer that are still shared."""
    assert 15 * MIB < MARGIN * worker_memory(copied=SCATTERED, length=200_000).copied_by(1) < 24 * MIB


def test_a_few_samples_prove_nothing() -> None:
    """A dataset so slow that few were read: a page or two are the interpreter's."""
    few = [msgspec.structs.replace(reading, samples=3) for reading in worker_memory(copied=(2, 2, 0, 0)).readings]

    assert worker_memory(readings=tuple(few)).copied_by(1) == 0


CAUGHT = """Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/code/train.py", line 9, in __getitem__
    raise ValueError("cannot decode image 4321")
ValueError: cannot decode image 4321
"""


@pytest.mark.parametrize(
    ("one", "plan", "headroom", "status"),
    [
        (worker_memory(), {"num_workers": 8}, 2 * GIB, "pass"),
        (worker_memory(copied=STRINGS), {"num_workers": 8}, 200 * GIB, "pass"),
        (worker_memory(copied=STRINGS), {"num_workers": 8}, 4 * GIB, "warn"),
        (worker_memory(copied=STRINGS), {"num_workers": 8}, 1 * GIB, "fail"),
        (worker_memory(copied=STRINGS), {"num_workers": 8, "ranks": 8}, 4 * GIB, "fail"),  # each rank has its workers
        (worker_memory(copied=STRINGS), {}, 1 * GIB, "pass"),  # how many workers is not known: told, not judged
        (worker_memory(150 * MIB, method="spawn"), {"num_workers": 8}, 1 * GIB, "fail"),
        (worker_memory(refused="a worker takes too much"), {"num_workers": 8}, 1 * GIB, "warn"),
        (worker_memory(readings=(), raised="MemoryError: "), {"num_workers": 8}, 1 * GIB, "error"),  # our own limit
        (worker_memory(readings=(), raised=f"ValueError: {CAUGHT}"), {"num_workers": 8}, 1 * GIB, "fail"),
        (worker_memory(readings=(), raised="KeyError: 7"), {"num_workers": 8}, 1 * GIB, "error"),  # smoke-load's to judge
        (worker_memory(readings=(), ended=Ended(how="hung")), {"num_workers": 8}, 1 * GIB, "error"),
    ],
)
def test_against_the_memory_that_is_left(one: WorkerMemory, plan: dict[str, Any], headroom: int, status: str) -> None:
    verdict = CHECK.judge(one, loader_plan(**plan), memory_budget(headroom, limit=max(headroom, GIB)), UNKNOWN, UNKNOWN, UNKNOWN)

    assert verdict.status == status, verdict


def test_the_fix_is_arrays_or_as_many_workers_as_fit() -> None:
    plan = loader_plan(num_workers=8)
    one, memory = worker_memory(copied=STRINGS), memory_budget(4 * GIB, limit=4 * GIB)
    (finding,) = CHECK.judge(one, plan, memory, UNKNOWN, UNKNOWN, fitting(plan, memory, one)).findings

    assert "copies of the dataset's objects" in finding.why
    assert [fix.commands[0] for fix in finding.fixes][1] == "DataLoader(..., num_workers=7)"


def test_memory_budget_counts_what_was_measured() -> None:
    measured = loader_plan(num_workers=4, worker=worker_memory(50 * MIB)).memory_need_bytes
    assumed = loader_plan(num_workers=4).memory_need_bytes

    assert measured is not None
    assert assumed is not None
    assert measured - assumed == 4 * 40 * MIB


@pytest.mark.parametrize(
    ("one", "met", "load", "status"),
    [
        (
            f"ValueError: {CAUGHT}",
            trouble("ValueError: cannot decode image 9", trace='File "/code/train.py", line 9'),
            UNKNOWN,
            "skip",
        ),
        (
            f"ValueError: {CAUGHT}",
            trouble("ValueError: no label", trace='File "/code/train.py", line 12'),
            UNKNOWN,
            "fail",
        ),  # another
        (f"ValueError: {CAUGHT}", None, UNKNOWN, "fail"),
        ("RuntimeError: DataLoader worker exited unexpectedly", None, smoke_load(raised="the same"), "skip"),
        ("RuntimeError: DataLoader worker exited unexpectedly", None, smoke_load(refused="too much"), "error"),
        ("RuntimeError: DataLoader worker exited unexpectedly", None, smoke_load(0.1), "error"),  # there it went well
    ],
)
def test_one_cause_is_told_once(one: str, met: Any, load: Any, status: str) -> None:
    worker = worker_memory(readings=(), raised=one)
    verdict = CHECK.judge(worker, loader_plan(num_workers=2), memory_budget(), dataset_samples(trouble=met), load, UNKNOWN)

    assert verdict.status == status, verdict
