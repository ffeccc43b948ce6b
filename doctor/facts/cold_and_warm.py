"""Which epoch counts, the first one or those after it: whether the data stays in memory once it has been read. Pure."""

from typing import Literal

from dl_doctor.facts.bottleneck import STORED_BYTES, Costs
from dl_doctor.units import binary_size

SURELY_STAYS = 0.5
"""Of the memory that is left: so much data is still there when it is read again, with room for the job beside it. Proposal."""

Epochs = Literal["first", "later", "both", "unknown"]
"""Those by which settings are compared: `first` reads data that is not in memory (cold), `later` ones read it again (warm)."""


def data_bytes(costs: Costs | None, length: int | None) -> int | None:
    """All that reading the dataset once takes from files; None where that is not known.

    By the samples that were read to see what they cost. What comes by read(2) is counted whether it is in memory or not, what
    is mapped only where it is not. Data that comes another way, such as over a socket, is no file's.

    Args:
        costs: of a sample.
        length: samples of the dataset.
    """
    if costs is None or length is None:
        return None
    each = max(costs.asked_bytes or 0.0, costs.stored_bytes or 0.0)
    return round(each * length) if each >= STORED_BYTES else None


def epochs_that_count(size_bytes: int | None, room_bytes: int) -> Epochs:
    """By the size of the data and the memory that is left for it.

    Data that does not fit has been dropped from memory when its turn comes again: every epoch is like the first one.
    """
    if size_bytes is None:
        return "unknown"
    if size_bytes > room_bytes:
        return "first"
    return "later" if size_bytes < SURELY_STAYS * room_bytes else "both"


def in_words(epochs: Epochs, size_bytes: int | None, room_bytes: int, *, warm: bool) -> str:
    """Which epoch settings were compared by, and why that is the one that counts or is not.

    Args:
        epochs: as `epochs_that_count` has it.
        size_bytes: of the data.
        room_bytes: memory that is left for it.
        warm: whether they were compared while reading data again.
    """
    by = "Compared while reading data again" if warm else "Compared while reading data for the first time"
    if epochs == "unknown" or size_bytes is None:
        return f"{by}; how much data there is in all is not known."
    there = f"about {binary_size(size_bytes)} of data, {binary_size(room_bytes)} of memory left"
    if epochs == "first" and warm:
        return f"{by}, though it does not stay in memory ({there}): every epoch may be slower than this."
    if epochs == "first":
        return f"{by}, as in every epoch: it does not stay in memory ({there})."
    if epochs == "both":
        return f"{by}; whether it stays in memory is not sure ({there})."
    later = "as in all epochs but the first" if warm else "as in the first epoch; later ones were not measured"
    return f"{by}, {later}: it stays in memory ({there})."
