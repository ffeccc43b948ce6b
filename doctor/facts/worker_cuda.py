"""Whether a worker uses CUDA to make a sample."""

import msgspec

from dl_doctor.facts.batches import Batches
from dl_doctor.facts.dataset_samples import DatasetSamples
from dl_doctor.facts.examination import Examination
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 20.0


class WorkerCuda(msgspec.Struct, frozen=True, kw_only=True):
    """Source: one sample and a batch of it, made where torch.cuda's beginning is replaced by an exception."""

    ended: Ended
    used_at: str | None = None
    """`/code/train.py:40 in __getitem__`; None where CUDA was not used."""

    error: str | None = None
    """What making them raised."""


async def collect(
    probes: Probes,
    examination: Examination,
    samples: DatasetSamples | Unavailable,
    batches: Batches | Unavailable,
) -> WorkerCuda | Unavailable:
    if isinstance(samples, DatasetSamples) and samples.late:
        return Unavailable.absent(f"{samples.obstacle}: see dataset-sample")
    if isinstance(batches, Batches) and batches.trouble and batches.trouble.late:
        return Unavailable.absent("a batch is not ready in time: see dataset-collate")
    arguments = {"allowed_bytes": examination.allowed_bytes}
    probed = await probes.run("worker_cuda", arguments, deadline_s=DEADLINE_S, place="loaded")
    return msgspec.convert({"ended": probed.ended, **(probed.answer or {})}, WorkerCuda)
