"""The memory that one worker of the user's loader keeps for itself, measured, and what it will be after an epoch."""

import math
from typing import Any

import msgspec

from dl_doctor.facts.batches import Batches
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.trouble import refused_memory
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import MIB, binary_size

SAMPLES = 2000

READING_S = 5.0
"""Where samples take longer, fewer are read."""

SHARE_OF_SWEEP = 0.05
"""Of a sweep's budget, where that is all that was asked for: growth by the sample may then go unseen."""

PATIENCE_S = 30
"""For the start of the worker, too: 2 to 5 s where it imports torch."""

DEADLINE_S = PATIENCE_S + 5

BLIND_BATCH_SIZE = 32

PAGE_BYTES = 4096

OBJECT_BYTES = 16
"""The least that an object of Python takes: a count of references and a type."""

HANDING_OVER_BYTES = 3 * MIB
"""What making and handing over batches takes on top, which is left out where one worker is measured: 1 to 4 MiB were."""

MARGIN = 1.15
"""On top of what is predicted: measured growth lies between 0.8 and 1.0 of it."""

CACHE_BYTES_PER_SAMPLE = 256
"""Growth below that is the allocator's, and not taken for a cache that grows on. Proposal."""

BEFORE_DATA_BYTES = {"fork": 10 * MIB, "spawn": 145 * MIB, "forkserver": 145 * MIB}
"""Private memory of a worker before it holds anything of a dataset: measured with torch 2.13 for CPUs."""


class Pages(msgspec.Struct, frozen=True):
    """Source: the private mappings of /proc/PID/smaps."""

    private_bytes: int
    shared_bytes: int
    """Of anonymous memory: still shared with the process that it was forked from."""


class Reading(msgspec.Struct, frozen=True):
    """Samples that the worker has read, and its pages before and after."""

    name: str
    samples: int
    before: Pages
    after: Pages

    @property
    def copied_bytes(self) -> int:
        return max(0, self.before.shared_bytes - self.after.shared_bytes)

    @property
    def copied_per_sample(self) -> float:
        return self.copied_bytes / self.samples

    @property
    def grown_bytes(self) -> int:
        """Of private memory, beside copies."""
        return self.after.private_bytes - self.before.private_bytes - self.copied_bytes


class WorkerMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a loader with one worker, in a process forked from the one that made the dataset."""

    method: str
    allowed_bytes: int
    refused: str | None = None
    """Why it was not tried."""

    ended: Ended | None = None
    started_s: float | None = None
    """What starting it took the main process."""

    first_batch_s: float | None = None
    """From before the worker was started."""

    readings: tuple[Reading, ...] = ()
    random_order: bool = True
    raised: str | None = None
    late: bool = False
    length: int | None = None
    """Samples of the dataset."""

    batch_size: int

    @property
    def samples(self) -> int:
        return sum(reading.samples for reading in self.readings)

    @property
    def out_of_memory(self) -> bool:
        """Whether it was refused more memory than it was allowed, by the limit that we had set."""
        return refused_memory(self.raised) or (self.ended is not None and refused_memory(self.ended.error))

    @property
    def measured_bytes(self) -> int | None:
        """What it had for itself when it had read the samples; None where it came to none."""
        return max(reading.after.private_bytes for reading in self.readings) if self.readings else None

    def seconds_to_first_batch(self, workers: int, cpus: float) -> float | None:
        """Of so many workers: they are started one after another, and then import and load at the same time on these CPUs."""
        if self.first_batch_s is None or self.started_s is None:
            return None
        return workers * self.started_s + max(1.0, workers / cpus) * (self.first_batch_s - self.started_s)

    def bytes_after_epoch(self, workers: int) -> int | None:
        """Private memory of one of so many workers after an epoch. None where nothing was measured."""
        if self.measured_bytes is None:
            return None
        seen = sum(reading.copied_bytes for reading in self.readings)
        measured = self.measured_bytes + HANDING_OVER_BYTES
        return int(MARGIN * (measured + max(0, self.copied_by(workers) - seen) + self.cached_by(workers)))

    def copied_by(self, workers: int) -> float:
        """Bytes of shared pages that one of so many workers will have copied after an epoch.

        Samples lie on `density` bytes each, and every page is used by `sharing` samples. A worker reads a share of 1/workers of
        them, so that a page stays shared if none of its samples fell to this worker. Samples that are read in order come to a
        page by whole batches, which go to the workers in turn. Where neighbours in the dataset are none in memory, what is left
        to be copied decides.
        """
        in_order, single, again = (self._reading(name) for name in ("in order", "at random", "the same again"))
        if in_order is None or again is None or not self.length:
            return 0.0
        density = in_order.copied_per_sample - again.copied_per_sample
        unsure = PAGE_BYTES * (8 + 2 * (again.copied_bytes / PAGE_BYTES) ** 0.5)
        if density < OBJECT_BYTES or density * in_order.samples < unsure:
            return 0.0
        sharing = max(1.0, (single.copied_per_sample - again.copied_per_sample) / density) if single else 1.0
        share = 1 / max(workers, 1)
        touched = 1 - (1 - share) ** sharing if self.random_order else min(1.0, (1 + sharing / self.batch_size) * share)
        return min(self.length * density * touched, self._left_to_copy(workers) / MARGIN, self.readings[0].after.shared_bytes)

    def _left_to_copy(self, workers: int) -> float:
        """Bytes that samples at random copy until hardly any of what they touch is shared, by how much less the later ones do.

        At most: how far chance may have moved it is added.
        """
        early, later, in_order = (self._reading(name) for name in ("at random", "at random later", "in order"))
        if not (early and later and in_order and self.length) or not 0 < later.copied_bytes < early.copied_bytes:
            return math.inf
        between = (early.samples + later.samples) / 2 + in_order.samples
        decay = math.log(early.copied_per_sample / later.copied_per_sample)
        new = [min(1.0, reading.copied_per_sample / PAGE_BYTES) for reading in (early, later)]
        spread = math.sqrt(sum((1 - share) / share / reading.samples for share, reading in zip(new, (early, later), strict=True)))
        if decay <= spread:
            return math.inf
        until = between / (decay - spread)
        read = self.length / max(workers, 1)
        return early.copied_per_sample * until * (1 - math.exp(-read / until))

    def cached_by(self, workers: int) -> float:
        """Bytes by which one of so many workers will have grown if it keeps what it has read, as it seems."""
        new = [self._reading(name) for name in ("at random", "in order", "at random later")]
        again = self._reading("the same again")
        if again is None or not self.length or not all(new):
            return 0.0
        kept = min(reading.grown_bytes / reading.samples for reading in new if reading)
        kept -= max(0.0, again.grown_bytes / again.samples)
        return 0.0 if kept < CACHE_BYTES_PER_SAMPLE else kept * max(0.0, self.length / max(workers, 1) - self.samples)

    def _reading(self, name: str) -> Reading | None:
        return next((reading for reading in self.readings if reading.name == name and reading.samples), None)


async def collect(
    probes: Probes,
    settings: Settings,
    dataset: ReadableDataset,
    batches: Batches | Unavailable,
    shm: SharedMemory | Unavailable,
    loader: Loader,
    methods: StartMethods,
) -> WorkerMemory | Unavailable:
    if dataset.num_workers == 0:
        return Unavailable.absent("there are no workers")
    if isinstance(batches, Batches) and batches.stuck_at_read:
        return Unavailable.absent("a sample does not come: see dataset-sample")
    allowed = dataset.allowed_bytes
    method = methods.in_force(settings.start_method or loader.start_method)
    if method != "fork" and does_not_fit(batches, shm):
        return Unavailable.absent("tensors that the dataset holds do not fit into /dev/shm: see shm-size")
    batch_size = settings.batch_size or (loader.arguments and loader.arguments.batch_size) or BLIND_BATCH_SIZE
    known: dict[str, Any] = {"method": method, "allowed_bytes": allowed, "length": loader.length, "batch_size": batch_size}
    needed = BEFORE_DATA_BYTES[method]
    if needed > allowed:
        refused = f"a worker takes {binary_size(needed)}, and a quarter of the memory that is left is {binary_size(allowed)}"
        return WorkerMemory(**known, refused=refused)
    arguments = {
        "method": method,
        "batch_size": batch_size,
        "samples": SAMPLES,
        "reading_s": READING_S if settings.sweep is None else min(READING_S, SHARE_OF_SWEEP * settings.sweep.budget_s),
        "patience_s": PATIENCE_S,
        "allowed_bytes": allowed,
    }
    probed = await probes.run("worker_memory", arguments, deadline_s=DEADLINE_S, place="loaded")
    told: dict[str, Any] = probed.answer or {}
    return msgspec.convert({**known, **told, "ended": probed.ended}, WorkerMemory)


def does_not_fit(batches: Batches | Unavailable, shm: SharedMemory | Unavailable) -> bool:
    """Whether what moves to shared memory when a worker is spawned finds no room there."""
    if isinstance(batches, Unavailable) or isinstance(shm, Unavailable):
        return False
    return shm.free_bytes is not None and (batches.held_bytes or 0) > shm.free_bytes
