"""Which of the GPUs that NVML lists are this job's: others may be another one's, and as busy as they like."""

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.nvml import Gpu, Nvml
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.visible_gpus import VisibleGpus
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings


class OwnGpus(msgspec.Struct, frozen=True, kw_only=True):
    """Source: CUDA_VISIBLE_DEVICES, else Slurm's grant, against the GPUs that NVML lists."""

    indices: tuple[int, ...]
    """NVML's; the whole GPU where an instance of it (MIG) is this job's."""

    source: str
    """Who says so."""


def collect(
    environment: Environment, nvml: Nvml, visible: VisibleGpus, slurm: Slurm | Unavailable, settings: Settings
) -> OwnGpus:
    usable = nvml.usable
    if visible.told is not None and not settings.of_the_node(environment.variables):
        shown = named_by(visible, nvml)
        if shown is not None:
            return OwnGpus(indices=shown, source="CUDA_VISIBLE_DEVICES")
    if isinstance(slurm, Slurm):
        granted = tuple(gpu.index for gpu in usable if str(gpu.minor) in slurm.gpus)
        if granted or not slurm.gpus:
            return OwnGpus(indices=granted, source="Slurm's grant")
    return OwnGpus(indices=tuple(gpu.index for gpu in usable), source="NVML")


def named_by(visible: VisibleGpus, nvml: Nvml) -> tuple[int, ...] | None:
    """Those that CUDA shows; None where it counts them in an order of its own."""
    tokens, usable = visible.taken, nvml.usable
    if any(token.startswith("MIG-") for token in tokens):
        return tuple(gpu.index for gpu in usable if gpu.mig)
    if any(token.startswith("GPU-") for token in tokens):
        return tuple(gpu.index for gpu in usable if (gpu.uuid or "").startswith(tokens))
    if not tokens:
        return ()
    return by_place(tokens, usable) if visible.in_bus_order or len({gpu.name for gpu in usable}) == 1 else None


def by_place(tokens: tuple[str, ...], usable: tuple[Gpu, ...]) -> tuple[int, ...]:
    return tuple(usable[int(token)].index for token in tokens if int(token) < len(usable))
