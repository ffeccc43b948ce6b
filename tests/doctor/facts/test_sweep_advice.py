"""What is advised of points that are written down: the gain in words, what is in the way of more, what stages sustain."""

from typing import Any

import msgspec
import pytest

from dl_doctor.facts.bottleneck import Bottleneck, Costs, Evidence, Known
from dl_doctor.facts.loader_sweep import unfinished
from dl_doctor.facts.recommending import Choice
from dl_doctor.facts.sweep_advice import Advised, Point, gain_of, narrowest_of, points_of, recommendation_of, stages_of
from dl_doctor.facts.sweep_arms import Arm, Trial
from dl_doctor.facts.sweep_rates import Rate
from dl_doctor.facts.sweep_rungs import Measured, delivery_of, measurement_of
from tests.facts import loader_plan


def point(workers: int, rate: float, name: Bottleneck = "latency", **fields: Any) -> Point:
    known = {
        "num_workers": workers, "samples_per_s": rate, "samples_per_s_low": rate, "samples_per_s_high": rate, "gpu_fed": None,
        "epoch_s": 10_000 / rate, "startup_s": 0.2, "bottleneck": name, "why": f"{name} at {workers}", "cpus_used": None,
        "others_cpus": None, "warm": True, "measurements": 1,
    }  # fmt: skip
    return Point(**{**known, **fields})


@pytest.mark.parametrize(
    ("at", "now", "stays", "words"),
    [
        (point(4, 400), point(1, 100), False, "loading an epoch takes 25 s instead of 100 s"),
        (point(4, 400, epoch_s=None), point(1, 100), False, "4 times as many samples a second"),
        (point(4, 400), point(4, 400), False, "no change needed"),
        (point(4, 400), point(4, 400), True, "each epoch but the first is 0.2 s shorter: workers are started once"),
        (point(4, 400), None, False, "how it is now was not measured"),
        (point(1, 400), point(8, 400), False, "an epoch takes as long, with 1 worker instead of 8"),
        (
            point(4, 4, gpu_fed=0.9),
            point(1, 1),
            False,
            "loading an epoch takes 41.7 min instead of 2.78 h, which saves 4.17 GPU-hours",  # 7500 s of two
        ),
    ],
)
def test_the_gain(at: Point, now: Point | None, stays: bool, words: str) -> None:
    assert gain_of(at, now, 2, stays=stays) == words


@pytest.mark.parametrize(
    ("points", "workers", "no_room", "name"),
    [
        ([point(1, 100, "latency"), point(2, 101, "lock"), point(4, 99, "lock")], 1, None, "lock"),
        ([point(0, 100, "cpu"), point(1, 60, "latency"), point(2, 70, "ipc")], 0, None, "ipc"),  # one alone tells little
        ([point(1, 100), point(2, 200), point(4, 400)], 4, None, "latency"),
        ([point(1, 100), point(2, 200), point(4, 400)], 4, "8 workers would take 2 GiB", "memory"),
        ([point(1, 100), point(2, 200), point(4, 201, "cpu")], 4, "8 workers would take 2 GiB", "cpu"),  # they would not help
        ([point(1, 100), point(2, 200, "gpu"), point(4, 200, "gpu")], 2, None, "gpu"),
        ([point(1, 100, "cpu"), point(2, 200, "cpu"), point(4, 190, "unknown")], 2, None, "cpu"),
    ],
)
def test_what_is_in_the_way_of_more(points: list[Point], workers: int, no_room: str | None, name: str) -> None:
    assert narrowest_of(points, workers, no_room)[0] == name


@pytest.mark.parametrize(
    ("startup_s", "persistent", "advised"),
    [
        (0.1, False, Advised(value=False, basis="kept")),
        (3.0, False, Advised(value=True, basis="rule")),  # of an epoch of 25 s
        (3.0, True, Advised(value=True, basis="kept")),
    ],
)
def test_workers_stay_where_starting_takes_a_part_of_an_epoch(startup_s: float, persistent: bool, advised: Advised) -> None:
    points = [point(1, 100), point(4, 400, startup_s=startup_s)]
    choice = Choice(conclusion="change", workers=4, scores={1: 100.0, 4: 400.0})
    told = recommendation_of(choice, points, loader_plan(), method="fork", persistent=persistent, no_room=None)

    assert told is not None
    assert told.persistent_workers == advised
    assert ("persistent_workers=True" in told.line) == (advised.basis == "rule")


IN_ANY_ORDER = Arm(name="in_order", value=False, changes={"in_order": False}, least_gain=1.1, price="the order changes")


def test_what_paid_beside_the_number_of_workers_is_in_the_line_and_in_the_gain() -> None:
    """Half as fast again, of an epoch that takes 25 s and 0.2 s to start; a trial at another number of workers is left out."""
    ahead = Arm(name="prefetch_factor", value=4, changes={"prefetch_factor": 4}, least_gain=1.05, price="more are held")
    trials = [
        Trial(arm=IN_ANY_ORDER, workers=4, without=(100, 100), with_it=(150, 150)),
        Trial(arm=ahead, workers=2, without=(100, 100), with_it=(150, 150)),
    ]
    choice = Choice(conclusion="keep", workers=4, scores={1: 100.0, 4: 400.0})
    points = [point(1, 100), point(4, 400, epoch_s=25.2)]
    told = recommendation_of(
        choice, points, loader_plan(num_workers=4), method="fork", persistent=False, no_room=None, trials=trials
    )

    assert told is not None
    assert told.line == "DataLoader(..., num_workers=4, in_order=False)"
    assert told.in_order == Advised(value=False, basis="measured")
    assert told.prefetch_factor == Advised(value=2, basis="kept")
    assert told.gain == "loading an epoch takes 16.9 s instead of 25.2 s"
    assert "in_order=False is 1.5 times as fast; the order changes." in told.reason


@pytest.mark.parametrize(
    ("rates", "chosen", "complete", "more"),
    [
        ((100, 200, 400), 2, False, True),
        ((100, 200, 400), 2, True, False),  # the highest rung
        ((100, 200, 400), 0, False, False),  # starting more takes longer than they save
        ((100, 200, 205), 1, False, False),
        ((100,), 0, False, False),
        ((), None, False, False),
    ],
)
def test_a_conclusion_on_the_way_up_says_so(rates: tuple[float, ...], chosen: int | None, complete: bool, more: bool) -> None:
    points = [point(workers, rate) for workers, rate in enumerate(rates)]

    assert ("still got faster" in unfinished(points, chosen, complete=complete)) == more


def test_nothing_is_advised_where_nothing_was_chosen() -> None:
    choice = Choice(conclusion="too_noisy")

    assert recommendation_of(choice, [], loader_plan(), method="fork", persistent=False, no_room=None) is None


def test_stages_are_never_slower_than_what_came_through() -> None:
    """By what a sample costs 4 workers on 2 CPUs read 200 samples a second; 230 came."""
    costs = Costs(samples=64, read_s=0.009, read_cpu_s=0.009, collate_s=0.001)
    known = Known(costs=costs, cached={4: 2000.0}, demand_per_s=900.0)
    stages = {stage.name: stage.samples_per_s for stage in stages_of([point(4, 230.0)], 4, "workers", known, 0.1, 2.0)}

    assert stages == {"workers": 230.0, "shared memory": 2000.0, "main process": pytest.approx(2300), "step": 900.0}


@pytest.mark.parametrize(
    ("stored", "again_s", "narrowest", "rate"),
    [
        (65_536, 0.008, "workers", 1000.0),  # 1 ms of 9 is the disk's
        (65_536, 0.001, "workers", 230.0),  # one process reads 125 samples a second; several got more of them through
        (65_536, 0.008, "disk", 230.0),  # what is in the way gives what came
        (65_536, 0.010, "workers", None),  # as fast as memory, or faster: nothing of the disk was seen
        (65_536, None, "workers", None),
        (0, 0.008, "workers", None),  # it came from the page cache
        (None, 0.008, "workers", None),
    ],
)
def test_the_disks_rate_is_what_reading_for_the_first_time_takes_longer(
    stored: float | None, again_s: float | None, narrowest: Any, rate: float | None
) -> None:
    costs = Costs(samples=64, read_s=0.009, read_cpu_s=0.001, collate_s=0.001, again_s=again_s, stored_bytes=stored)
    stages = {
        stage.name: stage.samples_per_s for stage in stages_of([point(4, 230.0)], 4, narrowest, Known(costs=costs), None, 2)
    }

    assert stages.get("disk") == (None if rate is None else pytest.approx(rate))


def delivered(rate: float, begin: float = 0.0, **seen: Any) -> Any:
    """What a probe tells of 10 s with two workers."""
    books = {
        "seconds": 10.0, "main_s": 0.5, "main_queued_s": 0.5, "waited_s": 9.0, "cpu_s": 8.0, "waiting_s": 6.0,
        "stored_bytes": 0.0, "received_bytes": 0.0, "machine_cpu_s": 19.0, "memory_stalls_s": 0.0,
    }  # fmt: skip
    marks = [(begin + second, rate * second) for second in range(11)]
    return delivery_of(
        {
            "marks": marks, "raised": None, "pressed": False, "startup_s": 0.5, "batches": 99, "exhausted": False,
            "seen": {**books, **seen}, "waits_for_disk": 0.0,
        }
    )  # fmt: skip


def told(*deliveries: Any) -> Measured | None:
    return measurement_of(deliveries, workers=2, purpose="ladder", warm=True, epoch_samples=1000.0)


def test_evidence_is_made_of_the_kernels_books() -> None:
    found = told(delivered(100.0))

    assert found is not None
    assert found.rate == Rate(samples_per_s=100.0, low=100.0, high=100.0, seconds=10.0)
    assert found.evidence == Evidence(
        workers=2, samples_per_s=100.0, wants_cpu=0.7, waits_for_cpu=0.3, cpus_used=0.8, main_cpus=0.05, main_wants=0.1,
        waits_for_batches=0.8, waits_for_disk=0.0, stored_bytes=0.0, received_bytes=0.0, startup_s=0.5, loading_s=10.0,
        others_cpus=pytest.approx(1.05),
    )  # fmt: skip


def test_how_busy_the_gpu_was_is_the_mean_of_the_ranks() -> None:
    one, other = (msgspec.structs.replace(delivered(100.0), gpu_busy=busy) for busy in (0.5, 0.7))
    found = [told(one, other), told(one, delivered(100.0))]  # the second rank's GPU is not told

    assert None not in found
    assert [points_of([each], Known(), None)[0].gpu_utilization for each in found if each] == [pytest.approx(0.6), None]


def test_of_several_ranks_the_mean_counts_and_what_one_does_not_tell_is_not_known() -> None:
    found = told(delivered(100.0), delivered(60.0, begin=1.0, cpu_s=None))

    assert found is not None
    assert found.rate.samples_per_s == pytest.approx(80.0)
    assert found.evidence.wants_cpu is None


def test_too_few_batches_are_no_measurement() -> None:
    short = delivered(100.0)
    one_turn = type(short)(**{name: getattr(short, name) for name in short.__struct_fields__} | {"marks": short.marks[:3]})

    assert told(one_turn) is None
    assert told(delivered(100.0), one_turn) is None


def test_rounds_count_more_than_the_first_look() -> None:
    first, again = told(delivered(100.0)), told(delivered(120.0))
    assert first is not None
    assert again is not None
    verified = type(again)(**{name: getattr(again, name) for name in again.__struct_fields__} | {"purpose": "verify"})
    (found,) = points_of([first, verified], Known(demand_per_s=240.0), 1000.0)

    assert (found.samples_per_s, found.measurements, found.gpu_fed) == (pytest.approx(120.0), 2, pytest.approx(0.5))
