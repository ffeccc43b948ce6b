"""What a sweep measures next, by answers of probes that are written down: no process is started."""

from typing import Any

import msgspec
import pytest

from dl_doctor.facts.loader_sweep import told
from dl_doctor.facts.sweep_course import Course
from dl_doctor.facts.sweep_measuring import Measurement
from dl_doctor.model import Ended
from dl_doctor.probing import Probed
from dl_doctor.settings import SweepOptions
from dl_doctor.units import GIB
from tests.facts import cpu_budget, cpu_limit, loader, loader_arguments, loader_plan, memory_budget, shared_memory

BUDGET_S = 60.0
KB = 1000.0


def course(*, length: int = 1_000_000, room: int = 8 * GIB, **options: Any) -> Course:
    """Of samples of 100 KB, in batches of 10."""
    own = loader(loader_arguments(batch_size=10, num_workers=2, batches=length // 10, persistent_workers=True), length=length)
    plan = loader_plan(loader=own, batch_bytes=1000)
    limits = cpu_budget(cpu_limit(2)), memory_budget(room), shared_memory(free_bytes=GIB)
    return Course(SweepOptions(budget_s=BUDGET_S, **options), own, plan, "fork", *limits)


def answer(
    wanted: Measurement, *, from_disk: bool, rate: float, others: float = 0.1, batches: int = 100, startup_s: float = 0.1
) -> Probed:
    """What its probe says where others use so many CPUs."""
    if wanted.kind == "costs":
        stored = {"stored_bytes": 100 * KB, "again_s": 0.001} if from_disk else {"stored_bytes": 0.0, "again_s": 0.01}
        more = {"samples": 80, "read_s": 0.01, "read_cpu_s": 0.001, "collate_s": 0.0, "asked_bytes": 100 * KB, **stored}
        return Probed({**more, "batches": 8, "others_cpus": others}, Ended(how="answered"))
    seen = {
        "seconds": 10.0, "main_s": 0.0, "main_queued_s": 0.0, "waited_s": 9.0, "cpu_s": 1.0, "waiting_s": 0.0,
        "stored_bytes": 0.0, "received_bytes": 0.0, "machine_cpu_s": 1.0 + 10 * others, "memory_stalls_s": 0.0,
        "stolen_s": 0.0, "own_cpu_s": 0.0,
    }  # fmt: skip
    marks = [(float(second), rate * second) for second in range(11)]
    delivery = {"marks": marks, "raised": None, "pressed": False, "startup_s": startup_s, "batches": batches, "exhausted": False}
    return Probed({**delivery, "seen": seen, "waits_for_disk": 0.0}, Ended(how="answered"))


def measured(of: Course, *, from_disk: bool = False, others: Any = lambda _: 0.1, batches: int = 100) -> list[Measurement]:
    """All that it asks for, where workers are as fast as they are many, up to 4; what is read for the first time takes twice."""
    asked: list[Measurement] = []
    while (wanted := of.next(BUDGET_S)) is not None:
        asked.append(wanted)
        slower = 1 if wanted.warm or not from_disk else 2
        rate = 100.0 * min(max(wanted.workers, 1), 4) / slower
        loading = [one for one in asked if one.kind == "rung"]
        busy = others(len(loading) if wanted.kind == "rung" else 0)
        of.take(wanted, [answer(wanted, from_disk=from_disk, rate=rate, others=busy, batches=batches)], None)
    return asked


def begins(asked: list[Measurement]) -> list[int]:
    return [one.arguments[0]["begin"] for one in asked if one.kind == "rung"]


@pytest.mark.parametrize(
    ("room", "from_disk", "again"),
    [
        (4 * 100 * GIB, True, True),  # 93 GiB, which stay in memory: a slice that was read is read over and over
        (120 * GIB, True, False),  # nobody knows whether they stay
        (80 * GIB, True, False),  # they do not: every epoch is a first one
        (4 * 100 * GIB, False, False),  # the disk is not in the way
    ],
)
def test_data_that_stays_in_memory_is_read_again(room: int, from_disk: bool, again: bool) -> None:
    asked = measured(course(room=room, workers=(1, 4)), from_disk=from_disk)
    rungs = [one for one in asked if one.kind == "rung"]

    assert {one.arguments[0]["again"] for one in rungs} == ({8} if again else {None})
    assert {one.warm for one in rungs} == {again}
    assert (begins(asked) == [0] * len(rungs)) == again
    assert [one.workers for one in asked if one.kind == "first"] == ([4] if again else [])


def test_the_first_epoch_is_told_beside_the_later_ones() -> None:
    of = course(room=400 * GIB, workers=(1, 4))
    measured(of, from_disk=True)
    found = told(of, 30.0)
    (first,) = [point for point in found.points if point.num_workers == 4]

    assert (first.samples_per_s, first.epoch_s) == (pytest.approx(400), pytest.approx(2500))
    assert first.first_epoch_s == pytest.approx(5000.1)
    assert (found.epochs_that_count, found.data_bytes) == ("later", 100_000_000_000)
    assert found.recommendation is not None
    assert "Compared while reading data again" in found.recommendation.reason


@pytest.mark.parametrize("room", [80 * GIB, 8 * GIB])
def test_data_that_does_not_fit_is_never_read_again(room: int) -> None:
    """Even where all of it was read: until its turn comes again it is no longer in memory."""
    asked = measured(course(room=room, workers=(1, 4)), from_disk=True, batches=200_000)

    assert not any(one.warm for one in asked if one.kind == "rung")


def test_slices_that_run_out_are_read_again_and_handing_over_takes_none() -> None:
    """1,000 batches: 8 for the costs, 100 and what is read ahead for each rung."""
    asked = measured(course(length=10_000, workers=(1, 4)), batches=100)
    rungs = [one for one in asked if one.kind == "rung"]

    assert asked[1].kind == "cached"
    assert begins(asked)[:2] == [8, 8 + 102]
    assert not rungs[0].warm
    few = measured(course(length=2_000, workers=(1, 4)), batches=100)
    assert [one.warm for one in few if one.kind == "rung"] == [False, False, True, True]


@pytest.mark.parametrize(
    ("others", "workers", "marked"),
    [
        (lambda _: 0.1, [1, 2, 4], set()),
        (lambda number: 1.5 if number == 2 else 0.1, [1, 2, 2, 4], set()),  # a moment: measured once more
        (lambda number: 1.5 if number in (2, 3) else 0.1, [1, 2, 2, 4], {2}),  # twice: it stays as it is, with a mark
        (lambda number: 1.5 if number else 0.1, [1, 1, 2, 4], {1, 2, 4}),  # it stays: only the first one is repeated
        (lambda _: 1.5, [1, 2, 4], set()),  # it was there before: a rate beside such a neighbour is what there is
        (lambda _: 0.2, [1, 2, 4], set()),
    ],
)
def test_what_others_disturbed_is_measured_once_more(others: Any, workers: list[int], marked: set[int]) -> None:
    of = course(workers=(1, 2, 4))
    asked = measured(of, others=others)

    assert [one.workers for one in asked if one.kind == "rung" and one.purpose == "ladder"] == workers
    assert {point.num_workers for point in told(of, 30.0).points if point.disturbed} == marked


def test_nothing_is_repeated_in_the_second_half_of_the_time() -> None:
    of = course(workers=(1, 2))
    for left_s, others in ((60.0, 0.1), (55.0, 0.1), (29.0, 1.5)):
        wanted = of.next(left_s)
        assert wanted is not None
        of.take(wanted, [answer(wanted, from_disk=False, rate=100.0, others=others)], None)
    following = of.next(25.0)

    assert following is not None
    assert following.workers == 2


@pytest.mark.parametrize(("startup_s", "begun"), [(0.1, True), (1.0, True), (1.1, False)])
def test_what_cannot_start_in_time_is_not_begun(startup_s: float, begun: bool) -> None:
    """There is time for a window, and a second more."""
    of = course(workers=(1, 8))
    for _ in range(3):
        wanted = of.next(30.0)
        assert wanted is not None
        of.take(wanted, [answer(wanted, from_disk=False, rate=100.0, startup_s=startup_s)], None)

    assert (of.next(of.measuring.window_s) is not None) == begun
    assert of.out_of_time != begun


IN_A_WORKER = """ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 374, in _worker_loop
    data = fetcher.fetch(index)
  File "/job/train.py", line 20, in __getitem__
    raise ValueError("picture 7 is damaged")
ValueError: picture 7 is damaged
"""


@pytest.mark.parametrize(
    ("ended", "raised", "conclusion", "why"),
    [
        ("answered", IN_A_WORKER, "broke", "the loader broke: ValueError: picture 7 is damaged (/job/train.py:20)"),
        ("killed", None, "broke", "the loader broke: it died by SIGSEGV"),
        ("answered", "MemoryError", "nothing", "nothing was measured: 0 workers: MemoryError"),  # it may be our own limit
        ("hung", None, "nothing", "nothing was measured: 0 workers: it did not come back in time"),  # the machine may be busy
        ("stuck", None, "nothing", "nothing was measured: 0 workers: it is stuck in the kernel"),
    ],
)
def test_why_a_loader_delivers_nothing(ended: Any, raised: str | None, conclusion: str, why: str) -> None:
    of = course()
    while (wanted := of.next(BUDGET_S)) is not None:
        whole = answer(wanted, from_disk=False, rate=100.0)
        if wanted.kind == "rung":
            whole = Probed(None, Ended(how=ended, signal="SIGSEGV" if ended == "killed" else None))
            if raised and (told_by := answer(wanted, from_disk=False, rate=100.0).answer):
                whole = Probed({**told_by, "raised": raised}, Ended(how="answered"))
        of.take(wanted, [whole], None)
    found = told(of, 5.0)

    assert (found.conclusion, found.recommendation) == (conclusion, None)
    assert found.why.startswith(why)


def test_a_setting_that_does_not_start_in_time_is_the_last_one() -> None:
    of = course(workers=(1, 4, 8))
    while (wanted := of.next(BUDGET_S)) is not None:
        late = Probed(None, Ended(how="hung"))
        of.take(wanted, [late if wanted.workers == 8 else answer(wanted, from_disk=False, rate=100.0 * wanted.workers)], None)
    found = told(of, 5.0)

    assert found.recommendation is not None
    assert found.recommended == 4
    assert found.limited_by is not None
    assert found.limited_by.startswith("8 workers: it did not come back in time")


@pytest.mark.parametrize(
    ("current", "late_at", "conclusion"),
    [
        (2, 1, "nothing"),  # without workers it works; that says nothing of the job, which has two
        (8, 4, "nothing"),  # nor does what fewer workers do
        (2, 4, "keep"),
    ],
)
def test_what_is_late_as_the_job_has_it_leaves_nothing_to_be_told(current: int, late_at: int, conclusion: str) -> None:
    of = course()
    of.bounds = msgspec.structs.replace(of.bounds, current=current)
    while (wanted := of.next(BUDGET_S)) is not None:
        faster = 100.0 * {0: 1, 1: 1, 2: 2, 3: 3}.get(wanted.workers, 0)
        late = wanted.kind == "rung" and wanted.workers >= late_at
        of.take(wanted, [Probed(None, Ended(how="hung")) if late else answer(wanted, from_disk=False, rate=faster or 1.0)], None)
    found = told(of, 5.0)

    assert found.conclusion == conclusion
    assert ("nothing can be told" in found.why) == (conclusion == "nothing")


@pytest.mark.parametrize(
    ("step_s", "why"), [(5.0, None), (35.0, "the step takes 35 s of each batch; --budget 2100 may be enough")]
)
def test_a_step_that_leaves_no_time_for_measurements_says_so(step_s: float, why: str | None) -> None:
    of = course(step_time_s=step_s)

    assert of.unmeasurable == why
    assert (of.next(BUDGET_S) is None) == (why is not None)


@pytest.mark.parametrize(
    ("rungs", "conclusion"),
    [
        (2, "nothing"),  # 0 and 1, of a job that has 2
        (3, "nothing"),  # 2 are the best of 0, 1 and 2, and nobody knows of 4
        (4, "change"),  # to 4, on the way up; the reason says that more may be better
    ],
)
def test_what_is_cut_short_on_the_way_up_keeps_nothing(rungs: int, conclusion: str) -> None:
    of = course()
    for _ in range(2 + rungs):
        wanted = of.next(BUDGET_S)
        assert wanted is not None
        of.take(wanted, [answer(wanted, from_disk=False, rate=100.0 * max(wanted.workers, 1))], None)
    assert of.next(0.0) is None
    found = told(of, BUDGET_S)

    assert found.conclusion == conclusion
    assert ("may find more" in found.why) == (conclusion == "change")


@pytest.mark.parametrize(
    ("rungs", "listed", "name"),
    [
        (3, None, "latency"),  # up to 2, and 4 would have had room: time was in the way
        (4, None, "memory"),  # up to 4, and 8 have none
        (5, (0, 4), "latency"),  # more was not asked for
        (5, (0, 4, 8), "memory"),
    ],
)
def test_memory_is_in_the_way_of_what_comes_next(rungs: int, listed: tuple[int, ...] | None, name: str) -> None:
    of = course(workers=listed)
    of.no_room, of.bounds = "6 workers would take 2 GiB", msgspec.structs.replace(of.bounds, most=5, cpus=16)
    for _ in range(2 + rungs):
        if wanted := of.next(BUDGET_S):
            of.take(wanted, [answer(wanted, from_disk=False, rate=100.0 * max(wanted.workers, 1))], None)

    assert told(of, BUDGET_S).bottleneck == name


@pytest.mark.parametrize(
    ("measurements", "why"),
    [
        (0, "nothing was measured"),
        (1, "nothing was measured but one process, which reads and collates about 100 samples/s"),
        (3, "only 0 workers were measured"),  # no advice to have none
        (5, "only 0, 1 and 2 workers were measured"),  # of a job that has 2: nobody knows of 4
    ],
)
def test_what_is_known_when_it_is_interrupted_early(measurements: int, why: str) -> None:
    of = course()
    for _ in range(measurements):
        wanted = of.next(BUDGET_S)
        assert wanted is not None
        of.take(wanted, [answer(wanted, from_disk=False, rate=100.0)], None)

    assert told(of, 5.0).why == why


@pytest.mark.parametrize(
    ("stored", "startup_s", "reached"),
    [
        (0.0, 0.1, [0, 1, 2, 4]),
        (0.0, 6.0, [0]),  # but starting does
        (1e6, 0.1, []),  # a disk may be slow at every batch
        (None, 0.1, []),
    ],
)
def test_a_first_batch_that_takes_long_is_not_taken_for_all(stored: float | None, startup_s: float, reached: list[int]) -> None:
    """A process reads its first 10 samples in 10 s, the same again in 0.1 s; later there are 3.5 s."""
    of = course()
    for _ in range(6):
        if (wanted := of.next(13.5 if not of.measured else 3.5)) is None:
            break
        told_by = answer(wanted, from_disk=False, rate=100.0 * max(wanted.workers, 1), startup_s=startup_s)
        if wanted.kind == "costs" and told_by.answer:
            told_by.answer.update(samples=10, read_s=1.0, batches=1, stored_bytes=stored)
        of.take(wanted, [told_by], None)

    assert [one.workers for one in of.measured] == reached


def test_what_is_measured_says_how_long_a_batch_takes() -> None:
    of = course()
    for _ in range(3):
        wanted = of.next(BUDGET_S)
        assert wanted is not None
        told_by = answer(wanted, from_disk=False, rate=100.0)
        if wanted.kind == "costs" and told_by.answer:
            told_by.answer.update(read_s=1.0, again_s=None, batches=1)
        of.take(wanted, [told_by], None)
        assert of.batch_s == pytest.approx(0.1 if of.measured else 10.0)


@pytest.mark.parametrize(("startup_s", "tries"), [(9.0, [10.0, 19.0]), (0.2, [10.0])])
def test_workers_that_start_later_than_thought_get_another_try(startup_s: float, tries: list[float]) -> None:
    """Once: where even that is too short, time is over."""
    of, allowed_s = course(workers=(0,)), []
    while (wanted := of.next(BUDGET_S)) is not None:
        told_by = answer(wanted, from_disk=False, rate=100.0, startup_s=startup_s)
        if wanted.kind == "rung" and told_by.answer:
            allowed_s.append(wanted.most_s)
            told_by.answer.update(marks=[(0.0, 0.0)])
        of.take(wanted, [told_by], None)

    assert (allowed_s, of.out_of_time, of.measured) == (tries, True, [])
