"""From the moments at which batches came to a rate with its uncertainty: pure arithmetic."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

import msgspec

MOST_WINDOWS = 10
"""Batches of one window depend on each other: the window is cut into so many parts at most, whose means do hardly."""

FEWEST_WINDOWS = 3

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""97.5 % quantiles of Student's t for 1 to 9 degrees of freedom."""

Mark = tuple[float, float]
"""A moment in seconds, and the samples that had come by then. Between two marks every worker delivered as many batches."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second, and the interval that holds the true rate in 19 of 20 cases; None where too little was measured."""

    samples_per_s: float
    low: float | None
    high: float | None
    seconds: float
    """That were measured."""

    @property
    def half_width(self) -> float | None:
        """Of the interval, as a part of the rate."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2 / self.samples_per_s


def rate_of(marks: Sequence[Mark]) -> Rate | None:
    """None of fewer than two marks, or of marks between which nothing came."""
    if len(marks) < 2 or marks[-1][0] <= marks[0][0] or marks[-1][1] <= marks[0][1]:
        return None
    seconds = marks[-1][0] - marks[0][0]
    rate = (marks[-1][1] - marks[0][1]) / seconds
    half = relative_half_width(marks)
    if half is None:
        return Rate(samples_per_s=rate, low=None, high=None, seconds=seconds)
    return Rate(samples_per_s=rate, low=rate / (1 + half), high=rate / max(1 - half, 0.1), seconds=seconds)


def relative_half_width(marks: Sequence[Mark]) -> float | None:
    """Of the 95 % interval of the time per sample, by the method of batch means; None of fewer than three windows."""
    parts = len(marks) - 1
    each = max(1, parts // MOST_WINDOWS)
    edges = marks[::each][: MOST_WINDOWS + 1]
    windows = [(later[0] - earlier[0]) / (later[1] - earlier[1]) for earlier, later in pairwise(edges) if later[1] > earlier[1]]
    if len(windows) < FEWEST_WINDOWS:
        return None
    spread = statistics.stdev(windows) / math.sqrt(len(windows))
    return STUDENT[len(windows) - 2] * spread / statistics.fmean(windows)


def together(of_ranks: Sequence[Sequence[Mark]]) -> list[Rate]:
    """The rate of each of several loaders while all of them ran; empty where one of them has none then."""
    if any(len(marks) < 2 for marks in of_ranks):
        return []
    begin, end = max(marks[0][0] for marks in of_ranks), min(marks[-1][0] for marks in of_ranks)
    rates = [rate_of([mark for mark in marks if begin <= mark[0] <= end]) for marks in of_ranks]
    return [rate for rate in rates if rate] if all(rates) else []


def budget_needed_s(rate: Rate, budget_s: float, wanted: float = 0.05) -> float | None:
    """Seconds of a whole sweep in which the interval would shrink to this half width: it does with the root of the time."""
    half = rate.half_width
    return None if half is None or half <= wanted else budget_s * (half / wanted) ** 2
