"""A few batches, delivered by a real DataLoader with the plan's workers: how it went."""

import re
from typing import Any

import msgspec

from dl_doctor.facts.batches import Batches
from dl_doctor.facts.dataset_samples import DatasetSamples
from dl_doctor.facts.examination import Examination
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.trouble import refused_memory
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probed, Probes, signal_name, signal_named
from dl_doctor.units import binary_size

PATIENCE_S = 30.0
"""For all batches: 4 workers by spawn on 2 CPUs have their first one after 9 s."""

DEADLINE_S = PATIENCE_S + 5

BLIND_WORKERS = 2
"""Tried for a dataset where nobody says how many the job will have."""

FEWEST_BATCHES = 3

FEEDER = re.compile(r"in _feed\n(?:\s+.*\n)+(?P<error>\S.*)")
"""The traceback of the thread that writes a worker's batches into its queue (multiprocessing/queues.py), and its last line."""


END_IN_TORCHS_WORDS = re.compile(r"is killed by signal: (?P<signal>[^.]+)\.|exited unexpectedly with exit code (?P<code>\d+)")
"""Of a worker that died while others were still being started: nobody has the list of workers then. Source: DataLoader.cpp."""


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker was doing at the end. Source: /proc/PID/stat, /proc/PID/wchan."""

    pid: int
    exit_code: int | None
    """None while it lives, and where it died by a signal."""

    signal: str | None = None

    state: str | None
    wait_channel: str | None
    cpu_s: float | None
    """Seconds of CPU that it has used since it was started."""

    @property
    def end(self) -> str:
        return f"died by {self.signal}" if self.signal else f"exited with {self.exit_code}"


class SmokeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a DataLoader of the user's dataset, in a process forked from the one that made it."""

    workers: int
    prefetch_factor: int
    method: str
    wanted: int
    """Batches that it was to deliver."""

    refused: str | None = None
    """Why it was not tried: what it would take, and what there is."""

    short_of_shared_memory: bool = False
    ended: Ended | None = None
    """Of the process that iterated over it; None where it was not tried."""

    came_s: tuple[float, ...] = ()
    """When each batch came, in seconds from the start of the workers."""

    raised: str | None = None
    """The exception in the main process; a worker's traceback is in it."""

    late: str | None = None
    """`time`: no batch in time. `feeder`: a feeder thread has lost one, and the loader would wait for ever."""

    processes: tuple[WorkerState, ...] = ()
    printed: str = ""
    """On standard error, by this process and the workers: the end."""

    @property
    def first_batch_s(self) -> float | None:
        return self.came_s[0] if self.came_s else None

    @property
    def seconds_per_batch(self) -> float | None:
        """Of those after the first one that were not ready before: None where there are none."""
        ready = self.workers * self.prefetch_factor
        later = self.came_s[ready:] if ready and len(self.came_s) > ready + 1 else self.came_s
        return (later[-1] - later[0]) / (len(later) - 1) if len(later) > 1 else None

    @property
    def feeder_error(self) -> str | None:
        """What a worker's feeder thread raised: the batch is lost then, and the loader is not told."""
        found = FEEDER.search(self.printed)
        return found["error"].strip() if found else None

    @property
    def ends(self) -> list[str]:
        """How workers ended that did not end well, each way once."""
        seen = {worker.end for worker in self.processes if worker.signal or worker.exit_code}
        told = END_IN_TORCHS_WORDS.search(self.raised or "")
        if told and not seen:
            words = told["signal"]
            return [f"died by {signal_named(words)}" if words else f"exited with {told['code']}"]
        return sorted(seen)

    @property
    def out_of_memory(self) -> bool:
        """Whether it was refused more memory than it was allowed, by the limit that we had set."""
        return any(map(refused_memory, (self.raised, self.feeder_error, self.ended.error if self.ended else None)))


async def collect(
    probes: Probes,
    examination: Examination,
    samples: DatasetSamples | Unavailable,
    batches: Batches | Unavailable,
    loader: Loader,
    plan: LoaderPlan,
    methods: StartMethods,
    shm: SharedMemory | Unavailable,
) -> SmokeLoad | Unavailable:
    if loader.arguments is None and plan.batch_size is None:
        return Unavailable.not_asked("needs --loader, or --batch-size beside --dataset")
    if isinstance(samples, DatasetSamples) and samples.obstacle and (samples.like_the_job or samples.out_of_memory):
        return Unavailable.absent(f"{samples.obstacle}: see dataset-sample")
    if isinstance(batches, Batches) and batches.stuck_at_read:
        return Unavailable.absent("a sample does not come: see dataset-sample")
    if isinstance(batches, Batches) and batches.stuck_at_collate:
        return Unavailable.absent("a batch is never ready: see dataset-collate")
    allowed = examination.allowed_bytes
    workers = BLIND_WORKERS if plan.num_workers is None else plan.num_workers
    method = methods.in_force(plan.start_method)
    plain: dict[str, Any] = {
        "workers": workers,
        "prefetch_factor": plan.prefetch_factor,
        "method": method,
        "wanted": max(FEWEST_BATCHES, workers + 2),
    }
    refused, short = too_much(plan, workers, method, allowed, shm)
    if refused:
        return SmokeLoad(**plain, refused=refused, short_of_shared_memory=short)
    own_size = loader.arguments is not None and loader.arguments.batch_size == plan.batch_size
    arguments = {
        "workers": workers,
        "prefetch_factor": plan.prefetch_factor,
        "method": method,
        "batch_size": None if own_size else plan.batch_size,
        "batches": plain["wanted"],
        "patience_s": PATIENCE_S,
        "allowed_bytes": allowed,
    }
    probed = await probes.run("smoke_load", arguments, deadline_s=DEADLINE_S, place="loaded")
    return load_of(plain, probed)


def load_of(plain: dict[str, Any], probed: Probed) -> SmokeLoad:
    """What the probe tells, with signals by their names."""
    told: dict[str, Any] = probed.answer or {"printed": probed.ended.output_tail}
    for process in told.get("processes", ()):
        if (process["exit_code"] or 0) < 0:
            process["signal"], process["exit_code"] = signal_name(-process["exit_code"]), None
    return msgspec.convert({**plain, **told, "ended": probed.ended}, SmokeLoad)


def too_much(
    plan: LoaderPlan, workers: int, method: str, allowed: int, shm: SharedMemory | Unavailable
) -> tuple[str | None, bool]:
    """Why it must not be tried, if so, and whether that is for want of shared memory: others here may need it."""
    one = plan.of_one_rank()
    shared = one.shm_need_with(workers, plan.prefetch_factor) or 0
    free = None if isinstance(shm, Unavailable) else shm.free_bytes
    if free is not None and shared > free:
        return f"it would need {binary_size(shared)} of /dev/shm, where {binary_size(free)} are free", True
    private = workers * plan.worker_bytes(method) + one.private_bytes_with(workers)
    if private + shared > allowed:
        return (
            f"{workers} workers would take about {binary_size(private + shared)}, and a quarter of the memory that is left is "
            f"{binary_size(allowed)}"
        ), False
    return None, False
