"""Samples of the user's dataset, read as a worker would read them: how long one takes, and how large it is."""

import statistics

import msgspec

from dl_doctor.facts.batches import SIDE, Trouble, stopped_for_memory, unexaminable, workers_of
from dl_doctor.facts.loader import Loader
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings

SAMPLES = 64
BUDGET_S = 5.0
"""No further sample is begun after that."""

DEADLINE_S = 30.0


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One sample."""

    index: str
    """Its number, where the dataset is iterable."""

    took_s: float
    opened: bool = False
    """Whether a file was opened for it that is still open: then it is the first of that file."""

    bytes: int | None = None
    """Tensors, arrays and all else; None where it cannot be pickled."""


class DatasetSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Source: up to 64 samples, of indices drawn with a fixed seed or the first of an iterable dataset, read in a process that
    was forked for it and set up as torch sets up a worker: with one thread and its seeds.
    """

    ended: Ended
    allowed_bytes: int
    """What reading them might take of memory."""

    readings: tuple[Reading, ...] = ()
    trouble: Trouble | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether reading them was refused more memory than it was allowed."""
        return stopped_for_memory(self.ended, self.trouble)

    @property
    def steady_s(self) -> tuple[float, ...]:
        """Of each sample that opened no file, in ascending order; of all, where each did."""
        steady = [reading.took_s for reading in self.readings if not reading.opened]
        return tuple(sorted(steady or [reading.took_s for reading in self.readings]))

    @property
    def median_s(self) -> float | None:
        return statistics.median(self.steady_s) if self.readings else None

    @property
    def p95_s(self) -> float | None:
        return self.steady_s[min(len(self.steady_s) - 1, int(0.95 * len(self.steady_s)))] if self.readings else None

    @property
    def slowest(self) -> Reading | None:
        return max(self.readings, key=lambda reading: reading.took_s, default=None)

    @property
    def largest_bytes(self) -> int | None:
        return max((reading.bytes for reading in self.readings if reading.bytes is not None), default=None)


async def collect(probes: Probes, settings: Settings, loader: Loader) -> DatasetSamples | Unavailable:
    if unfit := unexaminable(loader):
        return unfit
    workers = workers_of(settings, loader) or 0
    allowed = loader.allowed_bytes // SIDE
    arguments = {"allowed_bytes": allowed, "samples": SAMPLES, "budget_s": BUDGET_S, "workers": workers}
    probed = await probes.run("dataset_samples", arguments, deadline_s=DEADLINE_S, place="loaded")
    return msgspec.convert({"ended": probed.ended, "allowed_bytes": allowed, **(probed.answer or {})}, DatasetSamples)
