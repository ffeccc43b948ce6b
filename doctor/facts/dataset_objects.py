"""What is reachable from the dataset: open handles, tensors on a GPU, Python objects."""

from typing import Literal

import msgspec

from dl_doctor.facts.examination import Examination
from dl_doctor.model import Ended
from dl_doctor.probing import Probes

DEADLINE_S = 20.0


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """Something open for reading that an attribute leads to."""

    path: str
    """Such as `dataset.index.file`."""

    type: str
    kind: Literal["file", "h5py", "lmdb", "sqlite", "connection"]
    """What workers that inherit it would share: a place in a file, or the state of a library or of a server's session."""

    file: str | None
    """Where it leads; None where it does not say."""


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


async def collect(probes: Probes, examination: Examination) -> DatasetObjects:
    arguments = {"allowed_bytes": examination.allowed_bytes}
    probed = await probes.run("dataset_objects", arguments, deadline_s=DEADLINE_S, place="loaded")
    return msgspec.convert({"ended": probed.ended, **(probed.answer or {})}, DatasetObjects)
