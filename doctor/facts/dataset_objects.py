"""What is reachable from the dataset: open handles and how samples read from them, tensors on a GPU, Python objects."""

from typing import Literal

import msgspec

from dl_doctor.facts.examination import Examination
from dl_doctor.model import Ended
from dl_doctor.probing import Probes

DEADLINE_S = 20.0

READING_S = 3.0
"""No further sample is begun after that when offsets are watched."""

READING_DEADLINE_S = 10.0


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """Something open for reading that an attribute leads to."""

    path: str
    """Such as `dataset.index.file`; that of the file where no attribute leads to it."""

    type: str
    """`int` of a descriptor's number, `descriptor` where no attribute leads to it."""

    kind: Literal["file", "h5py", "lmdb", "sqlite", "connection"]
    """What workers that inherit it would share: a place in a file, or the state of a library or of a server's session."""

    file: str | None
    """Where it leads; None where it does not say."""

    descriptor: int | None = None
    """Of a file that Python itself reads: what it does to it can be seen."""


class Moved(msgspec.Struct, frozen=True):
    """A descriptor whose offset samples have moved."""

    descriptor: int
    file: str


class FileOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Source: offsets of files that were open already, before and after each of 16 samples that a process forked for it reads."""

    ended: Ended
    watched: tuple[int, ...] | None = None
    """Descriptors of regular files that are not only written or appended to; None where that was not told."""

    moved: tuple[Moved, ...] = ()
    samples_read: int = 0
    trouble: str | None = None
    """What reading a sample raised."""


class Most(msgspec.Struct, frozen=True):
    """The attribute below which most bytes lie."""

    path: str
    bytes: int


class DatasetObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a walk over attributes and containers of the dataset and collate_fn, which runs none of their code."""

    ended: Ended
    handles: tuple[Handle, ...] = ()
    on_gpu: tuple[str, ...] = ()
    """Paths of tensors on a CUDA device."""

    objects: int = 0
    """Python objects: strings, numbers, containers. Of large containers a thousand elements stand for all."""

    object_bytes: int = 0
    """What of them becomes a worker's own when it reads them: their reference counts lie beside them. At most a page each."""

    whole: bool = True
    """Whether the walk came to its end; if not, there is more."""

    heaviest: Most | None = None
    offsets: FileOffsets | None = None
    """None where that was not looked at."""

    @property
    def shared(self) -> tuple[Handle, ...]:
        """What forked workers would get in each other's way by: all but files whose offset samples do not move."""
        moved = {one.descriptor: one.file for one in self.offsets.moved} if self.offsets else {}
        held = {handle.descriptor for handle in self.handles if handle.type != "int"}
        found = [
            handle
            for handle in self.handles
            if handle.descriptor is None
            or (handle.descriptor in moved and (handle.type != "int" or handle.descriptor not in held))
        ]
        reached = {handle.descriptor for handle in found}
        told = tuple(handle.file.lstrip("./") for handle in found if handle.file)
        left = [
            Handle(path=file, type="descriptor", kind="file", file=file, descriptor=number)
            for number, file in moved.items()
            if number not in reached and not (told and file.endswith(told))
        ]
        return (*found, *left)

    @property
    def undecided(self) -> str | None:
        """Why it is not known whether samples move the offset of an open file, if so."""
        if self.offsets is None or self.offsets.samples_read:
            return None
        moved = {one.descriptor for one in self.offsets.moved}
        held = {handle.descriptor for handle in self.handles if handle.descriptor is not None} - moved
        if not (held if self.offsets.watched is None else held.intersection(self.offsets.watched)):
            return None
        if self.offsets.ended.how != "answered":
            return f"reading samples {self.offsets.ended.in_words}"
        return f"reading a sample raised {self.offsets.trouble}" if self.offsets.trouble else "there was no sample to read"


async def collect(probes: Probes, examination: Examination) -> DatasetObjects:
    allowed = examination.allowed_bytes
    probed = await probes.run("dataset_objects", {"allowed_bytes": allowed}, deadline_s=DEADLINE_S, place="loaded")
    known = {"ended": probed.ended, **(probed.answer or {})}
    if not probed.answer:
        return msgspec.convert(known, DatasetObjects)
    arguments = {"allowed_bytes": allowed, "workers": examination.num_workers or 1, "budget_s": READING_S}
    watched = await probes.run("file_offsets", arguments, deadline_s=READING_DEADLINE_S, place="loaded")
    return msgspec.convert({**known, "offsets": {"ended": watched.ended, **(watched.answer or {})}}, DatasetObjects)
