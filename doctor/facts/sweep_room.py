"""How many workers a sweep may try, by the memory and the shared memory that are left. Pure."""

import msgspec

from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.memory_budget import MAIN_PROCESS_BYTES, MemoryBudget
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.model import Unavailable
from dl_doctor.units import binary_size, count

SHARE_OF_HEADROOM = 0.6
"""Of the memory that is left, what a setting may need by prediction; else it is not tried."""


class Room(msgspec.Struct, frozen=True):
    """The memory that is left, and what settings may take of it. Free shared memory is None without a limit, or if not known."""

    headroom_bytes: int
    free_shared_bytes: int | None

    @property
    def allowed_bytes(self) -> int:
        return int(SHARE_OF_HEADROOM * self.headroom_bytes)

    def most_workers(self, plan: LoaderPlan, wished: int) -> tuple[int, str | None]:
        """The most that fit, and what keeps it from more: None where that is as many as are wished."""
        for workers in range(wished + 1):
            shared = shared_bytes(plan, workers, plan.prefetch_factor)
            if self.free_shared_bytes is not None and shared > self.free_shared_bytes:
                there = f"{binary_size(self.free_shared_bytes)} of /dev/shm are free"
                return workers - 1, f"{count(workers, 'worker')} would need {binary_size(shared)} of shared memory, and {there}"
            need = need_bytes(plan, workers, plan.prefetch_factor)
            if need > self.allowed_bytes and workers:
                there = f"of the memory that is left, {binary_size(self.allowed_bytes)} may be taken"
                return workers - 1, f"{count(workers, 'worker')} would take about {binary_size(need)}; {there}"
        return wished, None

    def holds(self, plan: LoaderPlan, workers: int, prefetch_factor: int) -> bool:
        shared = shared_bytes(plan, workers, prefetch_factor)
        enough = self.free_shared_bytes is None or shared <= self.free_shared_bytes
        return enough and need_bytes(plan, workers, prefetch_factor) <= self.allowed_bytes


def room_of(memory: MemoryBudget, shm: SharedMemory | Unavailable) -> Room:
    return Room(memory.headroom_bytes, None if isinstance(shm, Unavailable) else shm.free_bytes)


def shared_bytes(plan: LoaderPlan, workers: int, prefetch_factor: int) -> int:
    return plan.shm_need_with(workers, prefetch_factor) or 0


def need_bytes(plan: LoaderPlan, workers: int, prefetch_factor: int) -> int:
    """Of memory, private and shared, beside the processes that are there already."""
    return plan.memory_need_with(workers, prefetch_factor) - MAIN_PROCESS_BYTES
