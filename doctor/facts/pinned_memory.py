"""Memory that torch can pin for batches of this loader, and how much faster it is copied to the GPU."""

from typing import Any

import msgspec

from dl_doctor.facts.allowance import Allowance
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.model import NO_GPU, Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import GIB, binary_size

DEADLINE_S = 30.0
"""As for `torch_gpus`: an import that the page cache now holds, and CUDA's first call."""

MOST_BYTES = GIB
"""Pinned at most: what other processes here then miss cannot be swapped out. WSL gives about half of it."""

CUDA_BYTES = GIB
"""What torch and CUDA's context take of the host's memory. Proposal: not measured yet."""

MOST_BLOCKS = 1024
"""Tensors of a batch that are pinned one by one; more of them are taken together."""


class PinnedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a process of the job's Python of its own, which pins as much as the batches in flight take, and copies one."""

    batches: int
    """To be pinned at the same time: all that are in flight, fewer where they would take more than MOST_BYTES."""

    blocks: tuple[int, ...]
    """Bytes of the tensors of a batch, which are taken to be of one size."""

    wanted_bytes: int
    """By all in flight. The allocator gives each tensor a block of a power of two."""

    refused: str | None = None
    """Why it was not tried: what it would take, and what there is."""

    ended: Ended | None = None
    """None where it was not tried."""

    available: bool = False
    """torch.cuda.is_available(), which is also said of AMD's GPUs."""

    pinned_batches: int = 0
    error: str | None = None
    """What pinning the next one raised."""

    pinned_s: float | None = None
    """To copy a batch to the GPU; the median of 10."""

    pageable_s: float | None = None
    copy_error: str | None = None

    @property
    def bytes_of_a_batch(self) -> int:
        """In blocks of the allocator."""
        return sum(map(block, self.blocks))


async def collect(
    probes: Probes,
    settings: Settings,
    plan: LoaderPlan,
    gpus: GpuGrant | Unavailable,
    target: Target,
    files: TorchFiles,
    allowance: Allowance | Unavailable,
    slurm: Slurm | Unavailable,
) -> PinnedMemory | Unavailable:
    """In a process of its own: one that was forked from where the dataset is could not begin CUDA if that has looked at it."""
    if isinstance(gpus, Unavailable) or not gpus.nodes:
        return Unavailable.absent(NO_GPU)
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Unavailable.absent("this Slurm job was granted no GPU: those here are not for it to start")
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if settings.pin_memory is False:
        return Unavailable.not_asked("--no-pin-memory")
    if not plan.batch_bytes or plan.batches_in_flight is None:
        return Unavailable.not_asked("needs --loader, or --num-workers and --batch-bytes")
    if isinstance(allowance, Unavailable):
        return allowance
    allowed = allowance.allowed_bytes
    known = needed(plan.batch_bytes, plan.tensors, plan.batches_in_flight)
    each = sum(map(block, known["blocks"]))
    if CUDA_BYTES + known["batches"] * each > allowed:
        refused = (
            f"with torch and CUDA it would take {binary_size(CUDA_BYTES + known['batches'] * each)}, and a quarter of the "
            f"memory that is left is {binary_size(allowed)}"
        )
        return PinnedMemory(**known, refused=refused)
    arguments = {"blocks": known["blocks"], "batches": known["batches"]}
    probed = await probes.run("pinned_memory", arguments, python=target.path, deadline_s=DEADLINE_S, place="apart")
    return msgspec.convert({**known, **(probed.answer or {}), "ended": probed.ended}, PinnedMemory)


def needed(batch_bytes: int, tensors: int, in_flight: int) -> dict[str, Any]:
    """What is to be pinned: tensors of one size, in batches of which at least one is tried."""
    count = min(max(tensors, 1), MOST_BLOCKS)
    blocks = (-(-batch_bytes // count),) * count
    each = sum(map(block, blocks))
    return {"blocks": blocks, "batches": max(1, min(in_flight, MOST_BYTES // each)), "wanted_bytes": in_flight * each}


def block(size: int) -> int:
    """What torch's allocator of pinned memory takes for so many bytes: the next power of two."""
    return 1 << (size - 1).bit_length()
