"""What two workers draw from the user's dataset: whether their random numbers and their shares differ."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from dl_doctor.facts.loader import Loader
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.model import Ended
from dl_doctor.probing import Probed, Probes

SHOWN = 64
"""Digests that are kept."""

LEAST = 16
"""Items that must be the same before a longer dataset is judged by them; fewer will do where there are no more."""

BUDGET_S = 4.0
"""Once this is over, no further sample is drawn. Of an iterable dataset 16 items are taken all the same."""

DEADLINE_S = 30.0
"""One sample is drawn twice, however long that takes."""


class Generator(msgspec.Struct, frozen=True, kw_only=True):
    """A random number generator that was made before any worker, and that a worker has drawn from."""

    path: str
    """`dataset.transform.rng`, or of its module."""

    type: str


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of what one worker drew."""

    ended: Ended
    first: tuple[str, ...] = ()
    """Of samples of one to three indices, as many as there is time for; of an iterable dataset the first items, up to 64."""

    second: tuple[str, ...] = ()
    """Of the same indices, drawn again in the same worker."""

    taken: int = 0
    """Items of an iterable dataset that were compared: up to 2,000, or all that came in 4 s."""

    distinct: int = 0
    """Of these, how many are unlike all others of the same worker."""

    exhausted: bool = False
    """Whether an iterable dataset had no more."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What is at one place of each item, such as its label or its key: random changes of the rest leave it as it is."""

    path: str
    """`[1]`, or `['key']`, of an item."""

    compared: int
    """So many of one worker."""

    distinct: int
    """Of these."""

    in_both: int
    """So many both gave, in whatever order."""

    in_order: bool
    """Whether both gave the same, in the same order."""

    all_there_is: bool = False
    """Whether both came to their end, and gave the same in whatever order."""

    @property
    def the_same(self) -> bool:
        return self.in_order or self.all_there_is

    @property
    def tells_apart(self) -> bool:
        """Whether it is like a key: most are unlike all others. Of classes there are few, and many items of each."""
        return 2 * self.distinct > self.compared


class WorkerDraws(msgspec.Struct, frozen=True, kw_only=True):
    """Source: two processes, each forked for it and set up as torch sets up a worker, with the seed of workers 0 and 1; of an
    iterable dataset a third one, which is worker 1 with the seed of worker 0.
    """

    workers: tuple[Draws, Draws]
    generators: tuple[Generator, ...] = ()
    in_both: int = 0
    """Items of an iterable dataset that both gave, in whatever order."""

    part: Part | None = None
    """Of the parts of items, the one that both gave, in order or some of them, and that tells most items apart."""

    seed_decides: bool = False
    """Whether worker 1 with the seed of worker 0 gives the items of worker 0: what differs is random, and there are no shares."""

    shards: int | None = None
    """Parts that the dataset says it can be split into (Hugging Face's num_shards, n_shards)."""

    @property
    def answered(self) -> bool:
        return all(worker.ended.how == "answered" for worker in self.workers)

    @property
    def the_same(self) -> bool:
        """Whether both give the same items of an iterable dataset: in the same order, or all that there is in whatever order; or
        the same with random changes.
        """
        return self.in_order or self.in_another_order or self.changed_at_random

    @property
    def in_order(self) -> bool:
        one, other = self.workers
        unlike = len(set(one.first)) > 1 or (one.exhausted and len(one.first) == 1)
        return unlike and begin_alike(one.first, other.first, one.exhausted and other.exhausted)

    @property
    def in_another_order(self) -> bool:
        """Whether both gave all that there is; shuffled in each, for example."""
        one, other = self.workers
        return one.exhausted and other.exhausted and one.taken == other.taken == self.in_both and len(set(one.first)) > 1

    @property
    def changed_at_random(self) -> bool:
        """By a part that stays as it is. A worker's own count of its share does too, but no seed decides what is in a share."""
        return self.seed_decides and self.part is not None and self.part.the_same and self.part.tells_apart

    @property
    def alike(self) -> bool:
        """Whether all items are alike, so that nothing can be told."""
        one, other = self.workers
        return len({*one.first, *other.first}) == 1 and not one.exhausted

    @property
    def unclear(self) -> str:
        """Why it cannot be said that workers share an iterable dataset out; empty where they do, or where they do not."""
        if not self.answered:
            ended = next(worker.ended for worker in self.workers if worker.ended.how != "answered")
            return f"a process that takes items {ended.in_words}"
        if self.the_same:
            return ""
        if self.alike:
            return "all items are alike"
        if self.in_both:
            return "two workers gave some of the same items"
        if self.part is not None and self.part.the_same and (self.part.tells_apart or self.seed_decides):
            return f"two workers gave the same for item{self.part.path}"
        return "what differs between two workers is random" if self.seed_decides else ""


async def collect(probes: Probes, loader: Loader, dataset: ReadableDataset) -> WorkerDraws:
    arguments = arguments_of(loader.kind, dataset.allowed_bytes, dataset.num_workers, BUDGET_S)
    probed = await probes.run_each("worker_draws", arguments, deadline_s=DEADLINE_S, place="loaded")
    return draws_of(loader.kind, probed)


def arguments_of(kind: str | None, allowed_bytes: int, workers: int | None, budget_s: float) -> list[dict[str, Any]]:
    """Of the probes that play two workers, and the second one with the seed of the first."""
    played = [(0, 0), (1, 1), (1, 0)] if kind == "iterable" else [(0, 0), (1, 1)]
    common = {"allowed_bytes": allowed_bytes // len(played), "workers": workers or 0, "budget_s": budget_s}
    return [{**common, "worker": worker, "seeded_as": seeded_as} for worker, seeded_as in played]


def draws_of(kind: str | None, probed: Sequence[Probed]) -> WorkerDraws:
    probed, seeded_alike = probed[:2], [one.answer or {} for one in probed[2:]]
    told: list[dict[str, Any]] = [one.answer or {} for one in probed]
    if kind == "map":
        both = min(len(answer.get("second", ())) for answer in told)  # one may have been slower
        told = [{**answer, **{name: answer.get(name, ())[:both] for name in ("first", "second")}} for answer in told]
    ended = all(answer.get("exhausted") for answer in told)
    part = best_part(told[0].get("parts", {}), told[1].get("parts", {}), ended)
    decides = any(give_the_same(told[0], answer) for answer in seeded_alike)
    one, other = (Counter(answer.get("first", ())) for answer in told)
    numbers = [{"taken": count.total(), "distinct": len(count)} for count in (one, other)]
    told = [{**answer, "first": answer.get("first", ())[:SHOWN], **some} for answer, some in zip(told, numbers, strict=True)]
    draws = [{"ended": one.ended, **answer} for one, answer in zip(probed, told, strict=True)]
    shared = {name: told[0].get(name) for name in ("generators", "shards") if told[0].get(name) is not None}
    found = {"in_both": (one & other).total(), "part": part, "seed_decides": decides}
    return msgspec.convert({"workers": draws, **found, **shared}, WorkerDraws, from_attributes=True)


def give_the_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ended = bool(one.get("exhausted") and other.get("exhausted"))
    return bool(one.get("first")) and begin_alike(one["first"], other.get("first", ()), ended)


def begin_alike(one: Sequence[str], other: Sequence[str], ended: bool) -> bool:
    """Whether they are the same as far as both go: one of two workers may have been slower. Where both ended, all of them are."""
    both = min(len(one), len(other))
    return one == other if ended else both >= LEAST and one[:both] == other[:both]


def best_part(one: dict[str, list[str]], other: dict[str, list[str]], ended: bool) -> Part | None:
    parts = [part_of(path, one[path], other[path], ended) for path in one if path in other]
    telling = [part for part in parts if part.distinct > 1 and (part.the_same or (part.in_both and part.tells_apart))]
    return max(telling, key=lambda part: (part.the_same, part.distinct), default=None)


def part_of(path: str, one: list[str], other: list[str], ended: bool) -> Part:
    both = min(len(one), len(other))
    counts = Counter(one), Counter(other)
    return Part(
        path=path,
        compared=both,
        distinct=len(set(one[:both])),
        in_both=(counts[0] & counts[1]).total(),
        in_order=begin_alike(one, other, ended),
        all_there_is=ended and counts[0] == counts[1],
    )
