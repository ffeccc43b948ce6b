"""Which epoch a sweep goes by: sizes that are written down against the memory that is left."""

from typing import Any

import pytest

from dl_doctor.facts.bottleneck import Costs
from dl_doctor.facts.cold_and_warm import Epochs, data_bytes, epochs_that_count, in_words
from dl_doctor.units import GIB


def costs(**fields: Any) -> Costs:
    return Costs(samples=64, batches=8, read_s=0.01, read_cpu_s=0.001, collate_s=0.001, **fields)


@pytest.mark.parametrize(
    ("known", "length", "size"),
    [
        (costs(asked_bytes=110_000.0, stored_bytes=0.0), 1000, 110_000_000),  # files that are in memory already
        (costs(asked_bytes=110_000.0, stored_bytes=131_072.0), 1000, 131_072_000),  # whole blocks come from the disk
        (costs(asked_bytes=60.0, stored_bytes=131_072.0), 1000, 131_072_000),  # a file that is mapped
        (costs(asked_bytes=60.0, stored_bytes=0.0), 1000, None),  # made, or in memory: nothing tells how large it is
        (costs(asked_bytes=110_000.0), None, None),  # an iterable dataset of unknown length
        (costs(), 1000, None),  # the kernel does not tell
        (None, 1000, None),
    ],
)
def test_the_size_of_the_data(known: Costs | None, length: int | None, size: int | None) -> None:
    assert data_bytes(known, length) == size


@pytest.mark.parametrize(
    ("size", "room", "epochs"),
    [
        (None, 8 * GIB, "unknown"),
        (1 * GIB, 8 * GIB, "later"),
        (4 * GIB, 8 * GIB, "both"),  # half of it: the job needs memory, too
        (8 * GIB, 8 * GIB, "both"),
        (8 * GIB + 1, 8 * GIB, "first"),
        (1, 0, "first"),
    ],
)
def test_the_epochs_that_count(size: int | None, room: int, epochs: Epochs) -> None:
    assert epochs_that_count(size, room) == epochs


@pytest.mark.parametrize(
    ("epochs", "size", "warm", "words"),
    [
        ("unknown", None, False, "Compared while reading data for the first time; how much data there is in all is not known."),
        (
            "first",
            9 * GIB,
            False,
            "as in every epoch: it does not stay in memory (about 9 GiB of data, 8 GiB of memory left)",
        ),
        (
            "both",
            5 * GIB,
            True,
            "reading data again; whether it stays in memory is not sure (about 5 GiB of data, 8 GiB",
        ),
        ("first", 9 * GIB, True, "reading data again, though it does not stay in memory"),  # the beginning of an iterable one
        (
            "later",
            1 * GIB,
            True,
            "reading data again, as in all epochs but the first: it stays in memory (about 1 GiB of",
        ),
        ("later", 1 * GIB, False, "for the first time, as in the first epoch; later ones were not measured: it stays in memory"),
    ],
)
def test_it_is_said_which_epoch_decided(epochs: Epochs, size: int | None, warm: bool, words: str) -> None:
    assert words in in_words(epochs, size, 8 * GIB, warm=warm)


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"stored_bytes": 65_536.0, "again_stored_bytes": 0.0, "again_s": 0.001}, True),
        ({"stored_bytes": 65_536.0, "again_stored_bytes": 65_536.0, "again_s": 0.001}, False),  # O_DIRECT on a disk with a burst
        ({"stored_bytes": 65_536.0, "again_stored_bytes": 0.0, "again_s": 0.009}, False),  # as fast as memory
        ({"stored_bytes": 0.0, "again_stored_bytes": 0.0, "again_s": 0.001}, False),  # a cache of the dataset's own
        ({"stored_bytes": 65_536.0}, False),  # an iterable dataset is not read again
    ],
)
def test_whether_a_disk_makes_the_first_time_slower(fields: dict[str, float], differs: bool) -> None:
    assert costs(**fields).from_disk == differs
