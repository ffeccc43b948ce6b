"""What an examination may take of memory: a share of what is left, because the job may run beside it."""

import msgspec

from dl_doctor.facts.memory_budget import MAIN_PROCESS_BYTES, MemoryBudget
from dl_doctor.model import Unavailable
from dl_doctor.units import binary_size

SHARE_OF_HEADROOM = 0.25


class Allowance(msgspec.Struct, frozen=True):
    """Source: a quarter of MemoryBudget's headroom."""

    allowed_bytes: int
    """On top of a process that has imported torch."""


def collect(memory: MemoryBudget | Unavailable) -> Allowance | Unavailable:
    """There is none where torch alone is too much."""
    if isinstance(memory, Unavailable):
        return Unavailable.failed(f"how much memory may be taken is not known: {memory.detail}")
    left = memory.headroom_bytes
    allowed = int(SHARE_OF_HEADROOM * left)
    if MAIN_PROCESS_BYTES + allowed > left:
        return Unavailable.not_asked(
            f"torch takes {binary_size(MAIN_PROCESS_BYTES)}, and {binary_size(left)} of memory are left: "
            "examining a dataset could end the job"
        )
    return Allowance(allowed)
