"""Whether POSIX shared memory works: what a DataLoader's worker does with it, done once and undone."""

import msgspec

from dl_doctor.facts.refusal import Refusal
from dl_doctor.facts.target import Target
from dl_doctor.model import Ended
from dl_doctor.probing import QUICK_S, Probes

TRIED_BYTES = 4 << 20
"""Enough to tell a mount that works from one that only pretends to, and little enough to disturb nobody."""


class SharedMemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Source: shm_open(3), posix_fallocate(3), mmap(2) and a lock of multiprocessing (sem_open(3)), in the target's Python.

    Space is reserved with posix_fallocate, because ftruncate and mmap succeed where there is none.
    """

    ended: Ended
    """What the trial did to its process; a bus error is an answer."""

    tried_bytes: int
    segment: Refusal | None
    """Why a segment could not be made, filled and removed; None where it could, or where `ended` tells."""

    lock: Refusal | None
    """Why a lock of multiprocessing could not be made."""


async def collect(probes: Probes, target: Target) -> SharedMemoryUse:
    probed = await probes.run("shared_memory", {"size": TRIED_BYTES}, python=target.path, deadline_s=QUICK_S)
    answer = probed.answer or {}
    return SharedMemoryUse(
        ended=probed.ended,
        tried_bytes=TRIED_BYTES,
        segment=msgspec.convert(answer.get("segment"), Refusal | None),
        lock=msgspec.convert(answer.get("lock"), Refusal | None),
    )
