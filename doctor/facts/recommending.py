"""What a sweep's measurements come to: the fewest workers that are as good as the best, or why none can be named. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from dl_doctor.facts.sweep_rungs import Measured
from dl_doctor.facts.sweep_search import AS_GOOD, ROUNDS, Tried

REPEATS = 0.05
"""Two measurements of the best setting that lie no further apart repeat: what is measured in turn then holds. The bench asks the
same of its grid before a case counts."""

LOSS = 0.95
"""Of another setting's rate: a choice that could be below it is no choice."""

TOO_NOISY = 0.20
"""Measurements in turn of one setting that lie further apart: then those that were measured once tell nothing. Proposal; with
noise of 25 % that a simulation made up, up to two of five choices were bad without this limit."""

Some = TypeVar("Some", Tried, Measured)

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

    mixed: bool = False
    """Whether settings were compared of which some read data for the first time, and others again."""


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
    keep = current is not None and current in scores and scores[current] >= AS_GOOD * scores[best]
    chosen = current if keep and current is not None else smallest
    if spread is not None and too_noisy(chosen, scores, rounds_of(verified(tried)), spread):
        return Choice(conclusion="too_noisy", scores=scores, spread=spread)
    return Choice(
        conclusion="keep" if keep else "change",
        workers=chosen,
        smallest=smallest,
        scores=scores,
        spread=spread,
        mixed=not rounds_of(verified(tried)) and len({one.warm for one in tried}) > 1,
    )


def too_noisy(chosen: int, scores: Mapping[int, float], rounds: Sequence[Mapping[int, float]], spread: float) -> bool:
    """Whether the noise could change the answer.

    It cannot where the best setting repeats within REPEATS. Beyond, what counts is whether another setting could be so much
    better that the chosen one is below LOSS of it: whether it was, in one of the rounds in turn (of two rounds the better one is
    mean and standard error); of what was not measured in turn, whether it would be with the spread in its favour. So a setting
    that is twice as fast as all others is recommended though its own rate repeats to 12 % only, and two that are 2 % apart are
    not told apart there. That rates do not repeat is said in any case (LoaderSweep.spread), and decides alone beyond TOO_NOISY:
    an interval does not, as it has the noise of its one measurement in it.
    """
    if spread <= REPEATS:
        return False
    in_turn = len(rounds) > 1 and chosen in rounds[0]

    def at_best(workers: int) -> float:
        """What another setting reaches, as a part of the chosen one's rate, if the noise hid it."""
        if in_turn and workers in rounds[0]:
            return max(turn[workers] / turn[chosen] for turn in rounds)
        return (1 + spread) * scores[workers] / scores[chosen]

    of_each = [[turn[workers] for turn in rounds] for workers in (rounds[0] if rounds else ())]
    apart = [max(rates) / min(rates) - 1 for rates in of_each]
    if max(apart, default=spread if len(scores) == 1 else 0.0) > TOO_NOISY:
        return True
    return any(at_best(workers) * LOSS > 1 for workers in scores if workers != chosen)


def scores_of(tried: Sequence[Tried]) -> dict[int, float]:
    """Of each setting: its verification rounds, as parts of the best one's in the same round.

    What drifts between rounds, such as a neighbour, then changes nothing. Where time was over before the second round, the mean
    of all that was measured of it.
    """
    rounds = rounds_of(verified(tried))
    if not rounds:
        return {one.workers: one.score for one in tried}
    if len(rounds) < ROUNDS and len({one.warm for one in tried}) == 1:  # one round decides no more than the look before it
        return {one.workers: statistics.fmean(same.score for same in tried if same.workers == one.workers) for one in tried}
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


def verified(measured: Sequence[Some]) -> list[Some]:
    """Measurements in turn: those of data read again where there are any, as the others of before do not compare with them."""
    in_turn = [one for one in measured if one.purpose == "verify"]
    return [one for one in in_turn if one.warm] or in_turn


def rounds_of(in_turn: Sequence[Tried]) -> list[dict[int, float]]:
    """Whole rounds; the last one may have been cut short by the budget."""
    found: list[dict[int, float]] = []
    for one in in_turn:
        if not found or one.workers in found[-1]:
            found.append({})
        found[-1][one.workers] = one.score
    return [turn for turn in found if turn.keys() == found[0].keys()] if found else []


def spread_of(measured: Sequence[Tried], half_width: float | None) -> float | None:
    """How far repeats lie apart; of what was measured once, the width of its interval. None where neither is known."""
    again = [one.rate for one in verified(measured)]
    rates = again if len(again) > 1 else [one.rate for one in measured]
    if len(rates) > 1:
        return max(rates) / min(rates) - 1
    return half_width
