"""Which number of workers is measured next: a ladder that stops early, its gaps, then the best ones in turn. Pure rules.

Climbing, not extrapolating: curves of loaders have a kink, which a fit of the first points always misses.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

STOPS_AT_GAIN = 0.03
"""A rung that gains less than that over the best before it is no step forward."""

CANDIDATE = 0.90
"""Of the best rate: settings this close are measured again, in turn."""

MOST_CANDIDATES = 4
ROUNDS = 2

MOST_WORKERS = 32
"""Beyond it nothing is tried unless it is asked for."""

SHORT_BUDGET_S = 15.0
"""Below it one rung without gain ends the ladder, otherwise two in a row do: one alone may be a neighbour's doing."""

AS_GOOD = 0.97
"""Of the best: fewer workers that reach it are better, they take less memory. A rung that gives so much of what the step takes
leaves nothing to be gained by climbing on.
"""

Purpose = Literal["ladder", "refine", "verify", "first"]
"""The last one is not compared: it tells how long the first epoch takes."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What the search needs to know of a measurement."""

    workers: int
    rate: float
    """Samples per second, of all ranks; for an epoch's worth, start-up included, where `score` is."""

    score: float
    """What settings are compared by: the samples of an epoch by its seconds with start-up, or `rate`."""

    purpose: Purpose
    cpus_used: float | None = None
    """CPUs that the workers kept busy."""

    warm: bool = True
    """Whether it read what had been read before."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Within which it searches."""

    cpus: float
    """That a rank may use."""

    most: int = MOST_WORKERS
    """That may be tried: by memory and shared memory, by what there is to read, and below the number that came to nothing."""

    parts: int | None = None
    """Shards of an iterable dataset, or batches of an epoch: beyond them, workers have nothing to read, and only the current
    setting is tried.
    """

    current: int | None = None
    """As the job has it now: always a candidate."""

    listed: tuple[int, ...] | None = None
    """The only ones to try, where the user says so."""

    demand: float | None = None
    """Samples per second that the step takes."""

    slow: bool = False
    """Whether batches take so long that each rung counts: then one worker, which is hardly ever best, is no rung."""

    budget_s: float = 60.0


class Rung(msgspec.Struct, frozen=True):
    workers: int
    purpose: Purpose


def next_rung(tried: Sequence[Tried], bounds: Bounds) -> Rung | None:
    """The next measurement; None when all is known. The caller ends it where the time is over."""
    known = {one.workers for one in tried}
    if not [one for one in tried if one.purpose == "verify"]:
        if (workers := next_on_ladder(tried, bounds)) is not None:
            return Rung(workers, "ladder")
        if bounds.listed is None:
            for workers in gaps(tried, bounds):
                if workers not in known:
                    return Rung(workers, "refine")
    return next_to_verify(tried, bounds)


def next_on_ladder(tried: Sequence[Tried], bounds: Bounds) -> int | None:
    known = {one.workers for one in tried}
    for workers in ladder(bounds):
        if workers not in known:
            over = bounds.listed is None and workers != bounds.current and ended(tried, bounds, workers)
            if not over:
                return workers
    return None


def ladder(bounds: Bounds) -> list[int]:
    """0, then doubling, with the current setting in its place; or what is listed."""
    if bounds.listed is not None:
        return [workers for workers in bounds.listed if workers <= bounds.most]
    top = min(bounds.most, MOST_WORKERS, bounds.parts or MOST_WORKERS)
    rungs = {0, *(2**power for power in range(17) if 2**power <= top)}
    if bounds.slow and top > 1:
        rungs.discard(1)
    if bounds.parts == top:
        rungs.add(top)
    if bounds.current is not None and bounds.current <= bounds.most:
        rungs.add(bounds.current)
    return sorted(rungs)


def ended(tried: Sequence[Tried], bounds: Bounds, workers: int) -> bool:
    """Whether the ladder need not go on to so many workers: the step has what it takes, nothing was gained any more, or the CPUs
    are in use and shared already.
    """
    below = [one for one in tried if one.purpose == "ladder" and one.workers < workers]
    if bounds.demand is not None and any(one.rate >= AS_GOOD * bounds.demand for one in below):
        return True
    climbed = [one for one in below if one.workers]
    patience = 1 if bounds.budget_s < SHORT_BUDGET_S else 2
    best, without_gain = 0.0, 0
    for one in sorted(climbed, key=lambda one: one.workers):
        without_gain = without_gain + 1 if one.rate < best * (1 + STOPS_AT_GAIN) else 0
        best = max(best, one.rate)
    if without_gain >= patience:
        return True
    busy = climbed[-1].cpus_used if climbed else None
    return workers > 2 * math.ceil(bounds.cpus) and (busy is None or busy >= bounds.cpus / 2)


def gaps(tried: Sequence[Tried], bounds: Bounds) -> list[int]:
    """The middle between the best rung and the next lower and upper one, once."""
    rungs = sorted(one.workers for one in tried if one.purpose == "ladder")
    if not rungs:
        return []
    best = best_of([one for one in tried if one.purpose == "ladder"])
    place = rungs.index(best)
    lower = [(rungs[place - 1] + best) // 2] if place else []
    upper = [(best + rungs[place + 1]) // 2] if place + 1 < len(rungs) else []
    top = min(bounds.most, bounds.parts or bounds.most)
    return [workers for workers in lower + upper if workers not in rungs and workers <= top]


def best_of(tried: Sequence[Tried]) -> int:
    return max(tried, key=lambda one: one.score).workers


def candidates(tried: Sequence[Tried], bounds: Bounds) -> list[int]:
    """Settings worth comparing again, fewest workers first; the current one is among them where it is close enough.

    What was measured while the data was still unread counts from half of the best on: it may have waited for the disk.
    """
    first = [one for one in tried if one.purpose != "verify"]
    if not first:
        return []
    top = max(one.score for one in first)
    any_warm = any(one.warm for one in first)
    close = [one for one in first if one.score >= top * (CANDIDATE if one.warm or not any_warm else 0.5)]
    close.sort(key=lambda one: (one.workers != bounds.current, -one.score))
    return sorted(one.workers for one in close[:MOST_CANDIDATES])


def next_to_verify(tried: Sequence[Tried], bounds: Bounds) -> Rung | None:
    """Two rounds through the candidates, ABCD and DCBA, so that what drifts meanwhile hits all alike.

    Where the data that nobody has read before runs out meanwhile, they begin anew: rates before and after it do not compare.
    """
    order = candidates(tried, bounds)
    plan = [workers for turn in range(ROUNDS) for workers in (order if turn % 2 == 0 else order[::-1])]
    again = any(one.warm for one in tried if one.purpose == "verify")
    for one in tried:
        if one.purpose == "verify" and one.warm == again and one.workers in plan:
            plan.remove(one.workers)
    return Rung(plan[0], "verify") if plan else None
