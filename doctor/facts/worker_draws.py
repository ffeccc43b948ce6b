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


class WorkerDraws(msgspec.Struct, frozen=True, kw_only=True):
    """Source: two processes, each forked for it and set up as torch sets up a worker, with the seed of workers 0 and 1."""

    workers: tuple[Draws, Draws]
    generators: tuple[Generator, ...] = ()
    in_both: int = 0
    """Items of an iterable dataset that both gave, in whatever order."""

    shards: int | None = None
    """Parts that the dataset says it can be split into (Hugging Face's num_shards, n_shards)."""

    @property
    def answered(self) -> bool:
        return all(worker.ended.how == "answered" for worker in self.workers)

    @property
    def the_same(self) -> bool:
        """Whether both give the same items of an iterable dataset: in the same order, or all that there is in whatever order."""
        return self.in_order or self.in_another_order

    @property
    def in_order(self) -> bool:
        one, other = self.workers
        proven = len(one.first) >= LEAST or one.exhausted
        unlike = len(set(one.first)) > 1 or (one.exhausted and len(one.first) == 1)
        return bool(one.first) and proven and one.first == other.first and unlike

    @property
    def in_another_order(self) -> bool:
        """Whether both gave all that there is; shuffled in each, for example."""
        one, other = self.workers
        return one.exhausted and other.exhausted and one.taken == other.taken == self.in_both and len(set(one.first)) > 1


async def collect(probes: Probes, loader: Loader, dataset: ReadableDataset) -> WorkerDraws:
    arguments = arguments_of(dataset.allowed_bytes, dataset.num_workers, BUDGET_S)
    probed = await probes.run_each("worker_draws", arguments, deadline_s=DEADLINE_S, place="loaded")
    return draws_of(loader.kind, probed)


def arguments_of(allowed_bytes: int, workers: int | None, budget_s: float) -> list[dict[str, Any]]:
    """Of the probes that play two workers."""
    common = {"allowed_bytes": allowed_bytes // 2, "workers": workers or 0, "budget_s": budget_s}
    return [{**common, "worker": worker} for worker in (0, 1)]


def draws_of(kind: str | None, probed: Sequence[Probed]) -> WorkerDraws:
    told: list[dict[str, Any]] = [one.answer or {} for one in probed]
    if kind == "map":
        both = min(len(answer.get("second", ())) for answer in told)  # one may have been slower
        told = [{**answer, **{name: answer.get(name, ())[:both] for name in ("first", "second")}} for answer in told]
    one, other = (Counter(answer.get("first", ())) for answer in told)
    numbers = [{"taken": count.total(), "distinct": len(count)} for count in (one, other)]
    told = [{**answer, "first": answer.get("first", ())[:SHOWN], **some} for answer, some in zip(told, numbers, strict=True)]
    draws = [{"ended": one.ended, **answer} for one, answer in zip(probed, told, strict=True)]
    shared = {name: told[0].get(name) for name in ("generators", "shards") if told[0].get(name) is not None}
    return msgspec.convert({"workers": draws, "in_both": (one & other).total(), **shared}, WorkerDraws)
