"""Samples of the user's dataset, read as a worker would read them: how long one takes, and how large it is."""

import statistics

import msgspec

from dl_doctor.facts.examination import Examination
from dl_doctor.facts.trouble import PATIENCE_S, Trouble, stopped_for_memory
from dl_doctor.model import Ended
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings

SAMPLES = 64
BUDGET_S = 5.0
"""No further sample is begun after that."""

SHARE_OF_SWEEP = 0.02
"""Of a sweep's budget, where that is all that was asked for: it only has to be known that samples come."""

DEADLINE_S = BUDGET_S + PATIENCE_S + 3
"""What does not come back in PATIENCE_S tells where it waits; what Python cannot interrupt is ended from outside."""


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

    like_the_job: bool = True
    """As Examination has it."""

    readings: tuple[Reading, ...] = ()
    first_worker_idle: bool = False
    """Whether an iterable dataset gave the first worker nothing, and was then read as if there were one alone."""

    trouble: Trouble | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether reading them was refused more memory than it was allowed."""
        return stopped_for_memory(self.ended, self.trouble)

    @property
    def waits(self) -> bool:
        """Whether a sample does not come because reading it waits for something."""
        if self.trouble is not None:
            return self.trouble.waits
        return self.ended.how in ("hung", "stuck") and self.ended.state not in (None, "R")

    @property
    def late(self) -> bool:
        return self.ended.how in ("hung", "stuck") or (self.trouble is not None and self.trouble.late)

    @property
    def obstacle(self) -> str | None:
        """Why whoever reads more samples would not get far; None where there is none, or a single sample raised."""
        if self.out_of_memory:
            return "a sample takes more memory than an examination may"
        if self.late:
            return "a sample does not come"
        if self.ended.how != "answered":
            return f"the process that reads samples {self.ended.in_words}"
        if not self.readings and self.trouble is None:
            return "the dataset gives no sample"
        return None

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


async def collect(probes: Probes, settings: Settings, examination: Examination) -> DatasetSamples:
    arguments = {
        "allowed_bytes": examination.allowed_bytes,
        "workers": examination.num_workers or 0,
        "samples": SAMPLES,
        "budget_s": BUDGET_S if settings.sweep is None else min(BUDGET_S, SHARE_OF_SWEEP * settings.sweep.budget_s),
        "patience_s": PATIENCE_S,
    }
    probed = await probes.run("dataset_samples", arguments, deadline_s=DEADLINE_S, place="loaded")
    known = {"allowed_bytes": examination.allowed_bytes, "like_the_job": examination.like_the_job}
    return msgspec.convert({"ended": probed.ended, **known, **(probed.answer or {})}, DatasetSamples)
