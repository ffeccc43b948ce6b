"""The loader that fits all limits at once: one number of workers to propose, whichever of them is the first to be met."""

import math
from bisect import bisect_left

import msgspec

from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.loader_plan import WORKERS_PER_CPU, LoaderPlan
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.worker_memory import WorkerMemory
from dl_doctor.model import Unavailable

COMFORT_OF_MEMORY = 0.7
"""Share of the headroom that the need may take before it warns: what a dataset and a model hold comes on top. Proposal."""

COMFORT_OF_WORKERS = 0.25
"""Share of the headroom that the workers' own memory may take: model, CUDA and batches come on top. Proposal."""


class FittingLoader(msgspec.Struct, frozen=True, kw_only=True):
    """Source: what shared memory, memory and CPUs leave, and what the plan would take of them with fewer workers."""

    num_workers: int | None
    """The most, and no more than now, with which nothing warns; None where not even none fit."""

    prefetch_factor: int | None
    """None where it can stay as it is."""

    unchanged: bool
    """Whether that is as the plan has it."""

    @property
    def options(self) -> str:
        """Of a DataLoader."""
        return f"num_workers={self.num_workers}" + (f", prefetch_factor={self.prefetch_factor}" if self.prefetch_factor else "")


def collect(
    plan: LoaderPlan,
    cpu: CpuBudget | Unavailable,
    shm: SharedMemory | Unavailable,
    memory: MemoryBudget | Unavailable,
    worker: WorkerMemory | Unavailable,
) -> FittingLoader | Unavailable:
    if plan.num_workers is None:
        return Unavailable.not_asked("needs --loader, or --num-workers")
    most = plan.num_workers if isinstance(cpu, Unavailable) else least_of_cpus(plan.num_workers, cpu)

    def fits(workers: int, prefetch_factor: int) -> bool:
        return fits_shm(plan, shm, workers, prefetch_factor) and fits_memory(plan, memory, worker, workers, prefetch_factor)

    workers = bisect_left(range(most + 1), True, key=lambda number: not fits(number, 1)) - 1
    stays = workers <= 0 or fits(workers, plan.prefetch_factor)
    return FittingLoader(
        num_workers=workers if workers >= 0 else None,
        prefetch_factor=None if stays else 1,
        unchanged=stays and workers == plan.num_workers,
    )


def least_of_cpus(workers: int, cpu: CpuBudget) -> int:
    """So many as now, or as one CPU less than there are where these are too many; there is always one."""
    return workers if workers <= max(1.0, WORKERS_PER_CPU * cpu.cpus) else max(1, math.floor(cpu.cpus) - 1)


def fits_shm(plan: LoaderPlan, shm: SharedMemory | Unavailable, workers: int, prefetch_factor: int) -> bool:
    need = plan.shm_need_with(workers, prefetch_factor)
    free = None if isinstance(shm, Unavailable) else shm.free_bytes
    return need is None or free is None or workers == 0 or plan.comfortable_shm(need) <= free


def fits_memory(
    plan: LoaderPlan,
    memory: MemoryBudget | Unavailable,
    worker: WorkerMemory | Unavailable,
    workers: int,
    prefetch_factor: int,
) -> bool:
    if isinstance(memory, Unavailable):
        return True
    each = None if isinstance(worker, Unavailable) else worker.bytes_after_epoch(workers)
    return (
        plan.memory_need_with(workers, prefetch_factor) <= COMFORT_OF_MEMORY * memory.headroom_bytes
        and (each or 0) * workers * plan.ranks <= COMFORT_OF_WORKERS * memory.headroom_bytes
    )
