"""Whether a worker uses CUDA to make a sample."""

import msgspec

from dl_doctor.facts.loader import Loader, allowed_bytes
from dl_doctor.facts.memory_budget import MemoryBudget
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


async def collect(probes: Probes, loader: Loader, memory: MemoryBudget | Unavailable) -> WorkerCuda | Unavailable:
    if loader.not_examined:
        return loader.not_examined
    allowed = allowed_bytes(memory)
    if isinstance(allowed, Unavailable):
        return allowed
    probed = await probes.run("worker_cuda", {"allowed_bytes": allowed}, deadline_s=DEADLINE_S, place="loaded")
    return msgspec.convert({"ended": probed.ended, **(probed.answer or {})}, WorkerCuda)
