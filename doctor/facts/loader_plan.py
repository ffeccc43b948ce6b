"""How the job will load its data, and what that takes: the plan that other numbers are judged against."""

import math

import msgspec

from dl_doctor.facts.batches import Batches, SpareViews
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.memory_budget import MAIN_PROCESS_BYTES
from dl_doctor.facts.ranks import Ranks
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.worker_memory import BEFORE_DATA_BYTES, WorkerMemory
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings, StartMethod
from dl_doctor.units import MIB, binary_size, count

DEFAULT_PREFETCH_FACTOR = 2
"""What torch.utils.data.DataLoader takes when there are workers and nothing is said."""

PAGE_BYTES = 4096

NCCL_BYTES_PER_PEER = 10 * MIB
"""Shared memory for each pair of ranks without peer access: segments of 9,637,888 bytes (NVIDIA/nccl#1518)."""

ADDRESS_SPACE_OF_TORCH, DATA_OF_TORCH = 620 * MIB, 212 * MIB
"""What a process has mapped once torch is imported, in all and privately: measured with torch 2.13 for CPUs, whose import fails
under an RLIMIT_AS of 620 MiB or an RLIMIT_DATA of 210 MiB and ends well under 640 and 220 MiB."""

COMMITTED_BYTES_OF_A_PROCESS = 168 * MIB
"""What the kernel promises a process that imports torch, and as much again to each worker, forked or not: measured
(Committed_AS) with torch 2.13 for CPUs, where workers took 219 to 265 MiB."""

DESCRIPTORS_OF_A_LOADER = 4
"""Open in the main process beside the workers' and the tensors' own: the pipe of results, and what a tensor comes through."""

DESCRIPTORS_PER_WORKER = 4
"""Open in the main process for each worker, before any batch: two pipes of two ends. Measured with torch 2.13: with batches
of one tensor a loader of 1 and of 2 forked workers works from 11 and 15 descriptors on; spawn and forkserver take 1 or 2 more.
"""

WORKERS_PER_CPU = 1.5
"""More workers than that per CPU seldom help and often harm; they can where samples wait for a network. Proposal: to be
replaced by what a sweep measures."""


COMFORT_OF_SHM = 1.5
"""Times the need. Below it, one slow consumer or a second loader takes the rest. Proposal, to be calibrated."""


class LoaderPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the job's DataLoader: from the options, else from the loader itself and its batches. None is unknown,
    never 0.

    The need of shared memory is ranks x (batches in flight x their bytes + bookkeeping), with workers x prefetch_factor + 2
    batches in flight: those that the workers may have ready, the one in the main process and the one on its way. Peaks
    measured under fork match it for 1 to 8 workers and a prefetch_factor of 1 to 4.
    """

    num_workers: int | None
    """Per rank."""

    workers_source: str = "--num-workers"
    """Where that number is from."""

    prefetch_factor: int
    batch_size: int | None
    batch_bytes: int | None
    """Shared memory that one collated batch takes."""

    batch_source: str = "by --batch-bytes"
    """Where that number is from."""

    tensors_per_batch: int | None
    """Distinct tensor storages in a batch: each is one descriptor and one mapping."""

    pipe_bytes: int = 0
    """Of a batch, what goes through a pipe: it is private memory."""

    held_bytes: int = 0
    """Tensors of dataset and collate_fn that move to shared memory when a worker is spawned; 0 where workers are forked."""

    kept_bytes: int = 0
    """Of the dataset's own tensors, what batches show: each forked worker moves it to shared memory once."""

    spare_views: tuple[SpareViews, ...] = ()
    """Of the batches that were measured: tensors whose storages travel whole."""

    collate_fn: str | None = None
    """The loader's own; None where it is torch's, or not known."""

    start_method: StartMethod | None
    pin_memory: bool | None
    ranks: int
    """On this node, each with a loader of its own."""

    shm_need_bytes: int | None
    """Of all ranks together, without NCCL's share."""

    measured_worker_bytes: int | None = None
    """Private memory of one worker when it had read some samples (WorkerMemory); None where none was measured."""

    nccl_bytes: int
    """What NCCL takes on top where no GPU can reach its peers directly, and otherwise less; 0 where no GPU is expected."""

    memory_need_bytes: int | None
    """At least: processes that hold nothing but torch, the samples of a batch that is being made, and shared memory. Dataset,
    model and CUDA come on top."""

    @property
    def batches_in_flight(self) -> int | None:
        """Per rank."""
        return None if self.num_workers is None else in_flight(self.num_workers, self.prefetch_factor)

    @property
    def cpus_needed(self) -> int | None:
        """CPUs per rank below which the workers are too many for them."""
        return None if self.num_workers is None else math.ceil(self.num_workers / WORKERS_PER_CPU)

    def shm_need_with(self, workers: int, prefetch_factor: int) -> int | None:
        """Bytes of /dev/shm that all ranks need with so many workers; None where the size of a batch is not known."""
        if workers == 0:
            return 0  # nothing is handed over
        if self.batch_bytes is None:
            return None
        once = self.held_bytes + workers * self.kept_bytes + PAGE_BYTES * locks(workers)
        return self.ranks * (in_flight(workers, prefetch_factor) * self.batch_bytes + once)

    def comfortable_shm(self, need: int) -> int:
        """The need with room to spare, and with what NCCL may take."""
        return max(int(COMFORT_OF_SHM * need), need + self.nccl_bytes)

    @property
    def shm_files_needed(self) -> int:
        """Files in /dev/shm that all ranks need at least: one for each tensor in flight, with names or without, and for locks."""
        if not self.num_workers:
            return 0
        return self.ranks * (locks(self.num_workers) + self.tensors * (self.prefetch_factor + 1))

    def memory_need_with(self, workers: int, prefetch_factor: int) -> int:
        """Bytes that all ranks need at least with so many workers. An unknown start method counts as the cheapest one.

        Of the workers one at least holds samples, beside the batch that it makes of them, while all others have theirs ready.
        Peaks measured under fork, with 1 to 8 workers and batches of 1 to 64 MiB, are 3 to 50 % above it.
        """
        processes = MAIN_PROCESS_BYTES + workers * self.worker_bytes(self.start_method or "fork")
        piped = in_flight(workers, prefetch_factor) * self.pipe_bytes if workers else 0
        private = self.ranks * (processes + piped + self.private_bytes_with(workers))
        return private + (self.shm_need_with(workers, prefetch_factor) or 0)

    def worker_bytes(self, method: str) -> int:
        """Private memory of one worker: as measured, with what it holds of the dataset, else before it holds anything."""
        return self.measured_worker_bytes or BEFORE_DATA_BYTES[method]

    def of_one_rank(self) -> "LoaderPlan":
        return msgspec.structs.replace(self, ranks=1)

    def private_bytes_with(self, workers: int) -> int:
        """Bytes of one rank's data that are not in shared memory: the samples of a batch, and without workers the batch."""
        return (self.batch_bytes or 0) * (1 if workers else 2)

    @property
    def plumbing(self) -> int:
        """Descriptors of a loader without batches, in the main process."""
        return DESCRIPTORS_OF_A_LOADER + DESCRIPTORS_PER_WORKER * (self.num_workers or 0)

    @property
    def tensors(self) -> int:
        """In a batch; where that is not known at least one."""
        return 1 if self.tensors_per_batch is None else self.tensors_per_batch

    @property
    def descriptors_at_best(self) -> int:
        """That the main process opens for the loader where batches come one after the other."""
        return self.plumbing + self.tensors * (self.prefetch_factor + 1)

    @property
    def descriptors_at_worst(self) -> int:
        """The same where all batches in flight have come and wait for one that is late."""
        return self.plumbing + self.tensors * (self.batches_in_flight or 0)

    @property
    def address_space_needed(self) -> int:
        """Bytes that one process maps at least (RLIMIT_AS): torch, the samples of a batch, and the batch."""
        return ADDRESS_SPACE_OF_TORCH + 2 * (self.batch_bytes or 0)

    @property
    def data_needed(self) -> int:
        """Bytes of it that are no file's and no other process's (RLIMIT_DATA)."""
        return DATA_OF_TORCH + self.private_bytes_with(1 if self.num_workers is None else self.num_workers)

    @property
    def commit_need_bytes(self) -> int | None:
        """What the kernel must promise all ranks where it promises no more than it has: a fork counts in full."""
        if self.num_workers is None:
            return None
        processes = COMMITTED_BYTES_OF_A_PROCESS * (1 + self.num_workers)
        private = self.ranks * (processes + self.private_bytes_with(self.num_workers))
        return private + (self.shm_need_bytes or 0)

    @property
    def arithmetic(self) -> str:
        """How the need of shared memory comes about, in a sentence; empty where there is none or it is not known."""
        if not self.num_workers or self.batch_bytes is None:
            return ""
        ranks = f"{self.ranks} ranks × " if self.ranks > 1 else ""
        return (
            f"{ranks}({count(self.num_workers, 'worker')} × {self.prefetch_factor} ahead + 2) = "
            f"{ranks}{self.batches_in_flight} batches of {binary_size(self.batch_bytes)} ({self.batch_source}), "
            f"and a little for bookkeeping.{self.moved}"
        )

    @property
    def moved(self) -> str:
        whose = " of each rank" if self.ranks > 1 else ""
        if self.kept_bytes:
            return f" Each worker moves {binary_size(self.kept_bytes)} of tensors there that the dataset{whose} holds."
        if not self.held_bytes:
            return ""
        return (
            f" The {binary_size(self.held_bytes)} of tensors that the dataset{whose} holds move there when a worker is started "
            "by spawn or forkserver."
        )


def collect(
    settings: Settings,
    ranks: Ranks,
    gpus: GpuGrant | Unavailable,
    loader: Loader | Unavailable,
    batches: Batches | Unavailable,
    methods: StartMethods | Unavailable,
    worker: WorkerMemory | Unavailable,
) -> LoaderPlan:
    said = settings.batch_bytes is not None
    own = settings.num_workers is None and isinstance(loader, Loader) and loader.num_workers is not None
    settings = settings.over(said_by(loader)).over(weighed(batches))
    known = batches if isinstance(batches, Batches) else None
    method = methods.in_force(settings.start_method) if isinstance(methods, StartMethods) else settings.start_method
    plan = LoaderPlan(
        num_workers=settings.num_workers,
        workers_source="num_workers of the loader" if own else "--num-workers",
        prefetch_factor=settings.prefetch_factor or DEFAULT_PREFETCH_FACTOR,
        batch_size=settings.batch_size,
        batch_bytes=settings.batch_bytes,
        batch_source="by --batch-bytes" if said else source(batches),
        tensors_per_batch=known.tensors if known else None,
        pipe_bytes=(known and known.pipe_bytes) or 0,
        kept_bytes=known.kept_bytes if known and method == "fork" else 0,
        spare_views=known.spare_views if known else (),
        collate_fn=loader.arguments.collate_fn if isinstance(loader, Loader) and loader.arguments else None,
        held_bytes=(known and method != "fork" and known.held_bytes) or 0,
        start_method=settings.start_method,
        pin_memory=settings.pin_memory,
        measured_worker_bytes=None if isinstance(worker, Unavailable) else worker.measured_bytes,
        ranks=ranks.on_node,
        shm_need_bytes=None,
        nccl_bytes=nccl_share(ranks.on_node, gpus),
        memory_need_bytes=None,
    )
    if plan.num_workers is None:
        return plan
    return msgspec.structs.replace(
        plan,
        shm_need_bytes=plan.shm_need_with(plan.num_workers, plan.prefetch_factor),
        memory_need_bytes=plan.memory_need_with(plan.num_workers, plan.prefetch_factor),
    )


def said_by(loader: Loader | Unavailable) -> Settings:
    """What the loader itself says of the plan."""
    if isinstance(loader, Unavailable) or loader.arguments is None:
        return Settings(start_method=None if isinstance(loader, Unavailable) else loader.start_method)
    own = loader.arguments
    return Settings(
        num_workers=own.num_workers,
        prefetch_factor=own.prefetch_factor,
        batch_size=own.batch_size,
        start_method=loader.start_method,
        pin_memory=own.pin_memory,
    )


def weighed(batches: Batches | Unavailable) -> Settings:
    """What its batches say of the plan."""
    return Settings(batch_bytes=None if isinstance(batches, Unavailable) else batches.size_bytes)


def source(batches: Batches | Unavailable) -> str:
    if isinstance(batches, Unavailable) or batches.size_bytes is None:
        return "not known"
    return f"the largest of {batches.made} that were measured" if batches.made else "predicted from its first sample"


def nccl_share(ranks: int, gpus: GpuGrant | Unavailable) -> int:
    """Ranks without GPUs (of MPI, of gloo) share nothing through NCCL."""
    return 0 if isinstance(gpus, Unavailable) or not gpus.expected else ranks * (ranks - 1) * NCCL_BYTES_PER_PEER


def locks(workers: int) -> int:
    """Semaphores of a loader and its queues, each a file of one page. Measured: a loader of one worker works from 14 files on,
    of which 3 are tensors.
    """
    return 8 + 3 * workers


def in_flight(workers: int, prefetch_factor: int) -> int:
    """Batches of one loader that exist at the same time outside the worker that makes them."""
    return workers * prefetch_factor + 2
