"""What stopped the reading of samples or the making of a batch, as probes tell it."""

from typing import Literal

import msgspec

from dl_doctor.model import Ended
from dl_doctor.text import place_in

PATIENCE_S = 20.0
"""For one sample, or for one batch to be read or collated."""

BUSY = 0.1
"""Share of that time that what computes spends on a CPU; what has used less waits for something. Proposal."""


MOST_OF_IT = 0.75
"""Share of that time that one sample of a batch takes, where it is that one which waits. Proposal."""


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Two samples of one batch that are not alike, each told by its index and in words."""

    path: str
    first: tuple[str, str]
    second: tuple[str, str]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """An exception of the job's code, or that it did not come back in time."""

    stage: Literal["read", "collate", "hand over"]
    indices: tuple[str, ...]
    """Of the sample, or the first of the batch; in an iterable dataset their places in its order, from 0."""

    error: str
    trace: str
    """Where it was raised, or where it was when it was given up."""

    cpu_s: float | None = None
    """Of what was given up: seconds of CPU that it and its children had used in PATIENCE_S. None of an exception."""

    last_s: float | None = None
    """Of samples of a batch: seconds since the one that is named was begun. None where there was one only."""

    misfit: Misfit | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether we did not let it have more."""
        return refused_memory(self.error)

    @property
    def late(self) -> bool:
        return self.cpu_s is not None

    def explains(self, traceback: str | None) -> bool:
        """Whether another process was stopped at the same line by the same kind of exception."""
        place, kind = place_in(self.trace), self.error.partition(":")[0]
        return traceback is not None and kind in traceback and place is not None and place == place_in(traceback)

    @property
    def waits(self) -> bool:
        """Whether it did not come back because it waits for something, and not because there is much to compute."""
        alone = self.last_s is None or self.last_s > MOST_OF_IT * PATIENCE_S
        return alone and self.cpu_s is not None and self.cpu_s < BUSY * PATIENCE_S


def refused_memory(error: str | None) -> bool:
    """Whether an exception's text is that of Python, NumPy or torch where memory ran out, or a file may not grow (EFBIG)."""
    return error is not None and any(text in error for text in ("MemoryError", "llocate memory", "File too large"))


def stopped_for_memory(ended: Ended, trouble: Trouble | None) -> bool:
    """Whether the process that ended like this, perhaps with trouble, was refused more memory than it was allowed."""
    if trouble is not None:
        return trouble.out_of_memory
    return ended.how == "raised" and refused_memory(ended.error)
