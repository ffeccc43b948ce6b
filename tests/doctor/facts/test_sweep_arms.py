"""What a sweep tries beside the number of workers: when it is worth a try, in which order it is measured, when it pays."""

from typing import Any

import pytest

from dl_doctor.facts.sweep_arms import Arm, Situation, Trial, Trials, arms_of

UNEVEN = {"uneven": True, "order_gain": 1.5}
NEWEST = ("in_order", "worker_method")


def situation(**fields: Any) -> Situation:
    known = {
        "options": ("in_order",), "workers": 4, "prefetch_factor": 2, "uneven": False, "coupled": False, "fed": False,
        "order_gain": None, "room_for_twice": True,
    }  # fmt: skip
    return Situation(**{**known, **fields})


@pytest.mark.parametrize(
    ("now", "settings"),
    [
        (situation(), []),
        (situation(**UNEVEN), ["in_order=False", "prefetch_factor=4"]),
        (situation(**UNEVEN, options=()), ["prefetch_factor=4"]),  # torch before 2.6
        (situation(uneven=True, order_gain=1.05), ["prefetch_factor=4"]),  # a first look said that order costs little
        (situation(**UNEVEN, workers=1), ["prefetch_factor=4"]),  # one alone delivers in order
        (situation(**UNEVEN, workers=0, options=NEWEST), []),
        (situation(**UNEVEN, room_for_twice=False), ["in_order=False"]),
        (situation(coupled=True), ["prefetch_factor=4"]),
        (situation(coupled=True, fed=True, **UNEVEN), []),  # the step takes no more
        (situation(options=NEWEST), ['worker_method="thread"']),
        (situation(options=NEWEST, coupled=True, fed=True), ['worker_method="thread"']),  # it may take less memory
    ],
)
def test_what_is_worth_trying(now: Situation, settings: list[str]) -> None:
    assert [arm.setting for arm in arms_of(now)] == settings


def arm(least_gain: float = 1.10, **fields: Any) -> Arm:
    known = {"name": "in_order", "value": False, "changes": {"in_order": False}, "price": "it costs"}
    return Arm(**{**known, "least_gain": least_gain, **fields})


@pytest.mark.parametrize(
    ("least_gain", "without", "with_it", "pays"),
    [
        (1.10, (100, 100), (120, 115), True),
        (1.10, (100, 100), (108, 109), False),
        (1.10, (100, 100), (150, 99), False),  # one round says that it loses
        (1.10, (100, 130), (120, 156), True),  # all got faster meanwhile
        (1.10, (100,), (150,), False),  # there was no time for the second round
        (0.97, (100, 100), (98, 99), True),  # as good, and cheaper
        (0.97, (100, 100), (96, 99), False),
    ],
)
def test_when_it_pays(least_gain: float, without: tuple[float, ...], with_it: tuple[float, ...], pays: bool) -> None:
    trial = Trial(arm=arm(least_gain), workers=4, without=without, with_it=with_it)

    assert trial.pays == pays


def offered(*arms: Arm) -> Trials:
    trials = Trials(workers=4)
    trials.offer(arms)
    return trials


def test_each_is_measured_in_turn_without_and_with_it_and_what_paid_stays() -> None:
    ahead = arm(1.05, name="prefetch_factor", value=4, changes={"prefetch_factor": 4})
    trials, asked = offered(arm(), ahead), []
    for rate in (100, 150, 100, 150, 150, 151, 150, 151):
        asked.append(trials.next(left_s=60, each_s=3))
        trials.take(rate)

    order = {"in_order": False}
    assert asked == [{}, order, {}, order, order, {**order, "prefetch_factor": 4}, order, {**order, "prefetch_factor": 4}]
    assert trials.next(left_s=60, each_s=3) is None
    assert [one.name for one in trials.adopted] == ["in_order"]


def test_none_is_begun_without_time_for_all_rounds_and_one_that_fails_is_left() -> None:
    late, failing = offered(arm()), offered(arm())
    failing.next(left_s=60, each_s=3)
    failing.take(None, "TypeError: unexpected keyword")

    assert late.next(left_s=11, each_s=3) is None
    assert failing.next(left_s=60, each_s=3) is None
    assert (failing.made[0].gain, failing.made[0].failed) == (None, "TypeError: unexpected keyword")


def test_a_first_look_is_the_first_round() -> None:
    trials = Trials(workers=4)
    trials.begin(arm(), without=100, with_it=150)
    trials.offer([arm()])  # it is not tried twice

    assert trials.next(left_s=7, each_s=3) == {}
    trials.take(100)
    assert trials.next(left_s=4, each_s=3) == {"in_order": False}
    trials.take(140)
    assert trials.next(left_s=60, each_s=3) is None
    assert trials.made[0].gain == pytest.approx(1.449, abs=0.001)
