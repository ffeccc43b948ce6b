"""A whole sweep of loaders that are written down as rates: what is measured, in which order, and what comes of it."""

from collections.abc import Callable
from typing import Any

import pytest

from dl_doctor.facts.loader_sweep import LoaderSweep, told
from dl_doctor.facts.sweep_course import Course
from dl_doctor.facts.sweep_measuring import Measurement
from dl_doctor.model import Ended
from dl_doctor.probing import Probed
from dl_doctor.settings import SweepOptions
from dl_doctor.units import GIB, MIB
from tests.facts import cpu_budget, cpu_limit, loader, loader_arguments, loader_plan, memory_budget, shared_memory

BATCH = 8


def rung(rate: float) -> dict[str, Any]:
    """What a probe tells of 2 s."""
    return {
        "marks": [(step / 5, rate * step / 5) for step in range(11)], "raised": None, "pressed": False, "startup_s": 0.1,
        "batches": 20, "exhausted": False, "seen": None, "waits_for_disk": None,
    }  # fmt: skip


def costs(batch_s: float, slow_s: float) -> dict[str, Any]:
    return {
        "samples": 64, "read_s": batch_s / BATCH, "read_cpu_s": 0.0, "collate_s": 0.0, "batches": 4, "typical_s": batch_s,
        "slow_s": slow_s,
    }  # fmt: skip


EVEN, UNEVEN = costs(0.1, 0.1), costs(0.1, 1.0)


def draws(first: list[str]) -> dict[str, Any]:
    return {"first": first, "exhausted": False, "generators": [], "shards": None}


Rates = Callable[[int, dict[str, Any]], float]


def swept(
    rates: Rates,
    *,
    costing: dict[str, Any] | None = None,
    seconds: float = 150.0,
    shares: bool | None = True,
    workers: int = 2,
    **facts: Any,
) -> LoaderSweep:
    """The end of a sweep in which each measurement takes 3 s."""
    options = facts.pop("sweep", SweepOptions(budget_s=60.0))
    arguments = loader_arguments(batch_size=BATCH, num_workers=workers, persistent_workers=True, batches=None)
    made = loader(arguments, **{"options": ("in_order",), **facts})
    plan = loader_plan(loader=made, batch_bytes=MIB)
    cpus, shm = cpu_budget(cpu_limit(16)), shared_memory(free_bytes=GIB)
    course = Course(options, made, plan, "fork", cpus, memory_budget(8 * GIB), shm)
    took_s = 0.0
    while (wanted := course.next(seconds - took_s)) is not None:
        course.take(wanted, [answered(one) for one in answers(wanted, rates, costing or EVEN, shares=shares)], None)
        took_s += 3.0
    return told(course, took_s)


def answers(wanted: Measurement, rates: Rates, costing: dict[str, Any], *, shares: bool | None) -> list[dict[str, Any]]:
    if wanted.kind == "costs":
        return [costing]
    if wanted.kind == "sharing":
        items = [f"item {number}" for number in range(80)]
        if shares is None:
            return [draws(["alike"] * 40)] * 2
        return [draws(items[:40]), draws(items[40:] if shares else items[:40])]
    return [rung(9999.0 if wanted.kind == "cached" else rates(wanted.workers, wanted.arguments[0]["changes"]))]


def answered(answer: dict[str, Any]) -> Probed:
    return Probed(answer=answer, ended=Ended(how="answered"))


def scaling(workers: int, most: int = 4) -> float:
    return 100.0 * min(max(workers, 1), most)


def freed(times: float) -> Rates:
    """In any order so many times as fast."""
    return lambda workers, changes: scaling(workers) * (times if changes.get("in_order") is False else 1)


@pytest.mark.parametrize(
    ("rates", "facts", "line", "tried"),
    [
        (freed(1.0), {}, "num_workers=4", []),
        (freed(2.0), {"costing": UNEVEN}, "num_workers=4, in_order=False", ["in_order", "prefetch_factor"]),
        (freed(1.0), {"costing": UNEVEN}, "num_workers=4", ["prefetch_factor"]),
        (freed(2.0), {"costing": UNEVEN, "options": ()}, "num_workers=4", ["prefetch_factor"]),  # an old torch
        (freed(2.0), {"costing": UNEVEN, "seconds": 30.0}, "num_workers=4", []),  # there was no time
        (
            lambda workers, changes: scaling(workers) * (1.1 if changes.get("prefetch_factor") == 4 else 1),
            {"costing": UNEVEN},
            "num_workers=4, prefetch_factor=4",
            ["prefetch_factor"],
        ),
        (
            lambda workers, changes: scaling(workers) * (0.99 if changes.get("worker_method") == "thread" else 1),
            {"options": ("in_order", "worker_method")},
            'num_workers=4, worker_method="thread"',
            ["worker_method"],
        ),
        (
            lambda workers, changes: scaling(workers) * (0.8 if changes.get("worker_method") == "thread" else 1),
            {"options": ("in_order", "worker_method")},
            "num_workers=4",
            ["worker_method"],
        ),
    ],
)
def test_what_is_tried_beside_the_number_of_workers(rates: Rates, facts: dict[str, Any], line: str, tried: list[str]) -> None:
    found = swept(rates, **facts)

    assert found.line == f"DataLoader(..., {line})"
    assert [trial.arm.name for trial in found.tried] == tried
    assert all(name in found.why for name in line.replace('"', "'").split(", "))


def plainly(workers: int, _: dict[str, Any]) -> float:
    return scaling(workers, 32)


@pytest.mark.parametrize(
    ("facts", "measured", "recommended", "limited_by"),
    [
        ({"shards": 3}, [0, 1, 2, 3], 3, "3 shards: more workers would have nothing to read"),
        ({"shards": 1}, [0, 1, 2], 0, "1 shard: more workers would have nothing to read"),  # 2 is how it is
        ({"shards": 2, "sweep": SweepOptions(workers=(1, 4))}, [1, 4], 4, None),  # asked for
        ({"shares": False}, [0, 1], 0, "every worker gives all items: more of them repeat data (see iterable-sharding)"),
        ({"kind": "map", "shards": 1, "length": 10**6}, [0, 1, 2, 4, 8, 16, 24, 32], 32, None),  # torch shares indices out
        (
            {"kind": "map", "length": 5 * BATCH},
            [0, 1, 2, 4, 5],
            5,
            "an epoch of 5 batches: more workers would have nothing to read",
        ),
        (  # the job's own 8 would read more than an epoch has, and seem to be faster
            {"kind": "map", "length": 5 * BATCH, "workers": 8},
            [0, 1, 2, 4, 5],
            5,
            "an epoch of 5 batches: more workers would have nothing to read",
        ),
    ],
)
def test_no_more_workers_than_have_something_to_read(
    facts: dict[str, Any], measured: list[int], recommended: int, limited_by: str | None
) -> None:
    def rates(workers: int, changes: dict[str, Any]) -> float:
        return plainly(min(workers, facts["shards"]) if "shards" in facts and limited_by else workers, changes)

    found = swept(rates, **{"kind": "iterable", "length": None, **facts})

    assert [point.num_workers for point in found.points] == measured
    assert (found.recommended, found.limited_by) == (recommended, limited_by)
    assert found.recommendation is not None
    assert {point.epoch_s is None for point in found.points} == {"length" not in facts}  # of an unknown length, and not 0
    assert ("takes no longer with 5 workers than with 8" in found.recommendation.gain) == ("workers" in facts)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, ""),
        ({"shares": False}, ""),  # it recommends none
        ({"shares": None}, "Whether workers share the data out is not known, as all items are alike"),
        ({"shares": False, "sweep": SweepOptions(workers=(1, 4))}, "Every worker gives all items"),  # asked for
    ],
)
def test_what_is_said_beside_workers_that_may_give_the_same(facts: dict[str, Any], said: str) -> None:
    found = swept(plainly, kind="iterable", length=None, **facts)

    assert found.recommendation is not None
    assert found.caveat.partition(":")[0] == said
    assert found.caveat in found.recommendation.reason


ONLY, SLOWLY = "only 0 and 1 workers were measured", "only 0 and 2 workers were measured"
AS_RATES = ": rates are told in samples"


@pytest.mark.parametrize(
    ("batch_s", "budget_s", "seconds", "why"),
    [
        (
            4.0,
            60.0,
            33.0,
            f"{SLOWLY} within 60 s: a batch takes 4 s; --budget 260 may be enough, or --batch-size 1{AS_RATES}",
        ),
        (40.0, 60.0, 3.0, "nothing was measured within 60 s: a batch takes 40 s; --budget 2520 may be enough"),
        (0.1, 3.0, 10.0, f"{ONLY} within 3 s: a batch takes 0.1 s; --budget 10 may be enough, or --batch-size 3{AS_RATES}"),
        (0.01, 3.0, 10.0, f"{ONLY} within 3 s; --budget 10 may be enough"),  # it is not the batches that are slow
    ],
)
def test_slow_batches_are_told_and_what_helps(batch_s: float, budget_s: float, seconds: float, why: str) -> None:
    """Of a job with 4 workers: that fewer are as fast as none says nothing of 4. Of slow batches one worker is not measured."""
    options = SweepOptions(budget_s=budget_s)
    rates: Rates = lambda workers, _: scaling(workers) / 100 * BATCH / batch_s  # noqa: E731
    found = swept(rates, costing=costs(batch_s, batch_s), seconds=seconds, workers=4, sweep=options)

    assert (found.conclusion, found.recommendation, found.why) == ("nothing", None, why)
