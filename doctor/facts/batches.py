"""Batches of the user's dataset, made as a worker would make them: what one takes of shared memory, and what of a pipe."""

import msgspec

from dl_doctor.facts.loader import Loader
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.facts.trouble import PATIENCE_S, Trouble, stopped_for_memory
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings

DEADLINE_S = 30.0


class SpareViews(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors of a batch that show a quarter or less of their storages, which travel whole."""

    path: str
    """Of the first of them: `batch['image'][0]`."""

    views: int
    storage_bytes: int
    """Of all these storages together, and of the tensors that show them."""

    tensor_bytes: int


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    """Source: up to 8 batches of the loader's own sampler, else of indices drawn at random, made in a process forked for it.

    A batch is pickled as torch would, without handing it over: every distinct storage counts once and whole, rounded up to
    the page. Of each number the largest of all batches counts. What was not reached is None.
    """

    ended: Ended
    allowed_bytes: int
    """What making them might take of memory."""

    like_the_job: bool = True
    """As Examination has it."""

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
    def stuck_at_read(self) -> bool:
        """Whether one of its samples does not come because reading it waits for something."""
        trouble = self.trouble
        return trouble is not None and trouble.stage == "read" and trouble.waits and self.like_the_job

    @property
    def stuck_at_collate(self) -> bool:
        """Whether what makes a batch of samples waits for something that does not come."""
        trouble = self.trouble
        return trouble is not None and trouble.stage != "read" and trouble.waits and self.like_the_job

    @property
    def size_bytes(self) -> int | None:
        """Shared memory that one batch takes: measured, else predicted."""
        return self.batch_bytes if self.made else self.predicted_bytes


async def collect(probes: Probes, settings: Settings, dataset: ReadableDataset, loader: Loader) -> Batches | Unavailable:
    if loader.arguments is None and settings.batch_size is None:
        return Unavailable.not_asked("needs --batch-size")
    arguments = {
        "allowed_bytes": dataset.allowed_bytes,
        "batch_size": settings.batch_size,
        "workers": dataset.num_workers or 0,
        "patience_s": PATIENCE_S,
    }
    probed = await probes.run("batches", arguments, deadline_s=DEADLINE_S, place="loaded")
    told = {name: value for name, value in (probed.answer or {}).items() if value is not None}
    known = {"allowed_bytes": dataset.allowed_bytes, "like_the_job": dataset.like_the_job}
    return msgspec.convert({"ended": probed.ended, **known, **told}, Batches)
