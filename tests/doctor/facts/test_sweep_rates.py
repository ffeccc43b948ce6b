"""Rates and intervals from moments that are written down."""

import random
from itertools import accumulate

import pytest

from dl_doctor.facts.sweep_rates import Mark, Rate, budget_needed_s, rate_of, relative_half_width, together


def marks_of(intervals: list[float], samples: int = 32, begin: float = 100.0) -> list[Mark]:
    return list(zip(accumulate(intervals, initial=begin), range(0, samples * (len(intervals) + 1), samples), strict=True))


@pytest.mark.parametrize(
    ("marks", "rate"),
    [
        ([], None),
        (marks_of([]), None),  # one mark is no interval
        ([(1.0, 0), (1.0, 32)], None),  # a clock that stands
        ([(1.0, 32), (2.0, 32)], None),  # nothing came
        (marks_of([0.5]), 64.0),
        (marks_of([0.5] * 20), 64.0),
        (marks_of([0.25, 0.75]), 64.0),
    ],
)
def test_samples_by_seconds(marks: list[Mark], rate: float | None) -> None:
    found = rate_of(marks)

    assert (found and found.samples_per_s) == (rate and pytest.approx(rate))


@pytest.mark.parametrize(
    ("intervals", "least", "most"),
    [
        ([0.5, 0.5], None, None),  # two windows say nothing of their spread
        ([0.5] * 4, 0.0, 1e-9),
        ([0.4, 0.6] * 5, 0.1, 0.2),
        ([0.49, 0.51] * 50, 0.0, 0.001),  # ten windows of ten: what alternates is level in each
    ],
)
def test_the_interval_follows_the_spread(intervals: list[float], least: float | None, most: float | None) -> None:
    half = relative_half_width(marks_of(intervals))

    assert (half is None) == (least is None)
    assert half is None or (least or 0) <= half <= (most or 0)


def test_the_interval_holds_the_true_rate_in_most_cases() -> None:
    """95 % of them by its definition; intervals of 12 windows whose times vary by a tenth."""
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        found = rate_of(marks_of([draw.gauss(0.5, 0.05) for _ in range(12)]))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 64.0 <= found.high

    assert 0.90 <= held / 400 <= 0.99


def test_loaders_are_compared_while_all_of_them_ran() -> None:
    fast_alone = marks_of([0.1] * 10 + [0.5] * 10)  # before the other one began
    later = marks_of([0.5] * 10, begin=101.0)

    assert [round(rate.samples_per_s) for rate in together([fast_alone, later])] == [64, 64]
    assert together([fast_alone, []]) == []
    assert together([fast_alone, marks_of([0.5] * 4, begin=500.0)]) == []


def test_a_narrower_interval_needs_four_times_the_time_for_half_the_width() -> None:
    wide = Rate(samples_per_s=100, low=90, high=110, seconds=3)

    assert budget_needed_s(wide, 60, wanted=0.05) == pytest.approx(240)
    assert budget_needed_s(wide, 60, wanted=0.2) is None
