"""What a sweep's measurements come to: the fewest workers that are as good as the best, or why none can be named. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from dl_doctor.facts.sweep_search import Tried

AS_GOOD = 0.97
"""Of the best: fewer workers that reach it are better, they take less memory."""

TOO_NOISY = 0.10
"""Between two measurements of the best setting: proposal. Sets that compute repeat to 4 to 30 % on a busy machine of two
cores, sets that sleep to 0.5 to 5 %."""

Conclusion = Literal["change", "keep", "too_noisy", "nothing"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    conclusion: Conclusion
    workers: int | None = None
    """Recommended; with `keep` the current one."""

    smallest: int | None = None
    """As good as the best."""

    scores: dict[int, float] = {}
    """By number of workers, over all that was measured of it last."""

    spread: float | None = None
    """Between repeats of the best setting, as a part of its rate."""


def choose(tried: Sequence[Tried], current: int | None, half_widths: Mapping[int, float | None]) -> Choice:
    """By the rounds in which candidates were measured in turn, else by what was measured once.

    Args:
        tried: all measurements.
        current: the setting of the job.
        half_widths: of each setting's interval, as a part of its rate, where it was measured only once.
    """
    if not tried:
        return Choice(conclusion="nothing")
    scores = scores_of(tried)
    best = max(scores, key=lambda workers: scores[workers])
    spread = spread_of([one for one in tried if one.workers == best], half_widths.get(best))
    smallest = min(workers for workers, score in scores.items() if score >= AS_GOOD * scores[best])
    if spread is not None and spread > TOO_NOISY:
        return Choice(conclusion="too_noisy", scores=scores, spread=spread)
    keep = current is not None and current in scores and scores[current] >= AS_GOOD * scores[best]
    chosen = current if keep else smallest
    return Choice(conclusion="keep" if keep else "change", workers=chosen, smallest=smallest, scores=scores, spread=spread)


def scores_of(tried: Sequence[Tried]) -> dict[int, float]:
    """Of each setting: its verification rounds where there are any, as parts of the best one's in the same round.

    What drifts between rounds, such as a neighbour, then changes nothing.
    """
    verified = [one for one in tried if one.purpose == "verify"]
    rounds = rounds_of(verified)
    if not rounds:
        return {one.workers: one.score for one in tried}
    means = {workers: statistics.fmean(turn[workers] for turn in rounds) for workers in rounds[0]}
    best = max(means, key=lambda workers: means[workers])
    first = {one.workers: one.score for one in tried if one.purpose != "verify"}
    others = {workers: score for workers, score in first.items() if workers not in means}
    compared = {
        workers: means[best] * math.exp(statistics.median(math.log(turn[workers] / turn[best]) for turn in rounds))
        for workers in means
    }
    scale = means[best] / first[best] if first.get(best) else 1.0
    return {**{workers: score * scale for workers, score in others.items()}, **compared}


def rounds_of(verified: Sequence[Tried]) -> list[dict[int, float]]:
    """Whole rounds; the last one may have been cut short by the budget."""
    found: list[dict[int, float]] = []
    for one in verified:
        if not found or one.workers in found[-1]:
            found.append({})
        found[-1][one.workers] = one.score
    return [turn for turn in found if turn.keys() == found[0].keys()] if found else []


def spread_of(measured: Sequence[Tried], half_width: float | None) -> float | None:
    """How far repeats lie apart; of what was measured once, the width of its interval. None where neither is known."""
    again = [one.rate for one in measured if one.purpose == "verify"]
    rates = again if len(again) > 1 else [one.rate for one in measured]
    if len(rates) > 1:
        return max(rates) / min(rates) - 1
    return half_width
