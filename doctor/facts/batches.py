"""Batches of the user's dataset, made as a worker would make them: what one takes of shared memory, and what of a pipe."""

from typing import Literal

import msgspec

from dl_doctor.facts.loader import Loader, refused_memory
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings

DEADLINE_S = 30.0

SIDE = 2
"""How many examinations of one dataset run beside each other, and share what may be taken of memory."""


class SpareViews(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of a batch that show a quarter or less of their storages, which travel whole."""

    path: str
    """Of the first of them: `batch['image'][0]`."""

    views: int
    storage_bytes: int
    """Of all these storages together, and of the tensors that show them."""

    tensor_bytes: int


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Two samples of one batch that are not alike, each told by its index and in words."""

    path: str
    first: tuple[str, str]
    second: tuple[str, str]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """The exception that ended it."""

    stage: Literal["read", "collate", "hand over"]
    indices: tuple[str, ...]
    """Of the sample, or the first of the batch; their numbers in an iterable dataset."""

    error: str
    trace: str
    misfit: Misfit | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether we did not let it have more."""
        return refused_memory(self.error)


def stopped_for_memory(ended: Ended, trouble: Trouble | None) -> bool:
    """Whether the process that ended like this, perhaps with trouble, was refused more memory than it was allowed."""
    if trouble is not None:
        return trouble.out_of_memory
    return ended.how == "raised" and refused_memory(ended.error)


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    """Source: up to 8 batches of the loader's own sampler, else of indices drawn at random, made in a process forked for it.

    A batch is pickled as torch would, without handing it over: every distinct storage counts once and whole, rounded up to
    the page. Of each number the largest of all batches counts. What was not reached is None.
    """

    ended: Ended
    allowed_bytes: int
    """What making them might take of memory."""

    made: int = 0
    samples: int | None = None
    """In a batch."""

    batch_bytes: int | None = None
    """Shared memory that one takes, without what the dataset keeps."""

    kept_bytes: int = 0
    """Storages of the dataset's own that a batch shows: a worker moves them to shared memory once, and not for each batch."""

    tensors: int | None = None
    """Distinct storages in one."""

    pipe_bytes: int | None = None
    """What travels inside the pickle, through a pipe: NumPy arrays and objects of a collate_fn of its own."""

    predicted_bytes: int | None = None
    """Of one batch by its first sample, where two of that size would take more than is allowed; then none is made."""

    held_bytes: int | None = None
    """Storages that dataset and collate_fn hold, in whole pages: they move to shared memory when a worker is spawned."""

    spare_views: tuple[SpareViews, ...] = ()
    trouble: Trouble | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether making them was refused more memory than it was allowed."""
        return stopped_for_memory(self.ended, self.trouble)

    @property
    def size_bytes(self) -> int | None:
        """Shared memory that one batch takes: measured, else predicted."""
        return self.batch_bytes if self.made else self.predicted_bytes


async def collect(probes: Probes, settings: Settings, loader: Loader) -> Batches | Unavailable:
    if unfit := unexaminable(loader):
        return unfit
    own = loader.arguments
    if own is None and settings.batch_size is None:
        return Unavailable.not_asked("needs --batch-size")
    workers = workers_of(settings, loader) or 0
    allowed = loader.allowed_bytes // SIDE
    arguments = {"allowed_bytes": allowed, "batch_size": settings.batch_size, "workers": workers}
    probed = await probes.run("batches", arguments, deadline_s=DEADLINE_S, place="loaded")
    told = {name: value for name, value in (probed.answer or {}).items() if value is not None}
    return msgspec.convert({"ended": probed.ended, "allowed_bytes": allowed, **told}, Batches)


def workers_of(settings: Settings, loader: Loader) -> int | None:
    """How many the job will have; None where that is not known."""
    if settings.num_workers is not None:
        return settings.num_workers
    return loader.arguments.num_workers if loader.arguments else None


def unexaminable(loader: Loader) -> Unavailable | None:
    """Why samples of it cannot be looked at; None where they can."""
    if not loader.made:
        return Unavailable.absent("the dataset could not be made: see dataset-loads")
    if loader.kind == "other":
        return Unavailable.absent(f"{loader.type} is no Dataset of torch")
    return None
