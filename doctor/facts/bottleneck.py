"""What is in the way of a loader's samples: names with their evidence, by rules that hold on datasets of known cost. Pure.

A worker's time is spent on a CPU, waiting for one, or blocked; /proc/PID/schedstat tells the three apart, whatever the
neighbours do. The thresholds are proposals, which hold on the sets of tests/sweep_sets.py.
"""

import math
from typing import Literal

import msgspec

from dl_doctor.units import binary_size, count, plain

Bottleneck = Literal[
    "latency", "cpu", "lock", "collate", "ipc", "disk", "network", "quota", "memory", "startup", "straggler", "gpu", "host",
    "unknown",
]  # fmt: skip

FED = 0.95
"""Of what the step takes: a loader that delivers this much is not in the way."""

READY = 0.10
"""Of the main process's time, waiting for batches: no more than that is the taking over of batches that are there. Proposal:
MLPerf Storage calls an accelerator fed that is in use 90 % of the time."""

WANTS_CPU = 0.7
"""Of the workers' time, on a CPU or waiting for one: then they compute."""

CROWDED = 0.4
"""Of the workers' time, waiting for a CPU: then they compute, too. Those who wait for the batch of one who waits for a CPU, as
batches are delivered in order, are idle."""

MAIN_BUSY = 0.7
"""CPUs that the main process uses, or waits for, while its workers do not compute: then taking over batches takes the time."""

MAIN_COMPUTES = 0.3
"""CPUs that the main process uses at least, then: one that only waits for a CPU has a neighbour and little to do."""

WAITS_FOR_DISK = 0.3
"""Of looks at the workers, in which the kernel had them wait for a disk (state D)."""

THROTTLED = 0.05
"""Of the time, in which the group had used up its CPU quota."""

SCALES = 0.6
"""Of so many times one worker's rate: what waits and stays below it does not wait for itself alone."""

REMOTE_BYTES = 1024
"""That come over the network for each sample: less is a heartbeat."""

STORED_BYTES = 1024
"""That are read from a disk for each sample."""

SLOWER_COLD = 1.25
"""Reading what nobody has read before, against reading it again."""

SLOW_BATCHES = 3.0
"""Times the typical batch that the slowest tenth takes: then slow samples are worth a look."""

FREED_BY_ORDER = 1.10
"""What delivering batches as they come gains where slow samples hold the others up."""


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample costs in one process that does nothing else; seconds, without those in the queue for a CPU, and bytes per
    sample.
    """

    samples: int
    batches: int = 0
    """That were read to find out."""

    read_s: float
    read_cpu_s: float
    collate_s: float
    again_s: float | None = None
    """Reading the same once more; None where that is not possible."""

    stored_bytes: float | None = None
    """That came from a disk, at the first time."""

    again_stored_bytes: float | None = None
    """The same, at the second time: what goes past the page cache comes from there again."""

    asked_bytes: float | None = None
    """That were read from files, at the first time, from a disk or from memory."""

    received_bytes: float = 0.0
    """That came over the network."""

    typical_s: float = 0.0
    slow_s: float = 0.0
    """Reading a batch: the median, and the mean of the slowest tenth."""

    others_cpus: float | None = None
    """Used by others meanwhile."""

    @property
    def unevenness(self) -> float:
        """Times the typical batch that the slowest tenth takes."""
        return self.slow_s / self.typical_s if self.typical_s > 0 else 1.0

    @property
    def slower_cold(self) -> float | None:
        return self.read_s / self.again_s if self.again_s else None

    @property
    def from_memory(self) -> bool:
        """Whether hardly anything came from a disk or over the network, so that what took longer at first was something else."""
        return self.stored_bytes is not None and max(self.stored_bytes, self.received_bytes) < STORED_BYTES

    @property
    def from_disk(self) -> bool:
        """Whether a disk is what makes reading the data for the first time slower than reading it again."""
        kept = (self.stored_bytes or 0.0) - (self.again_stored_bytes or 0.0)
        return kept >= STORED_BYTES and (self.slower_cold or 1.0) >= SLOWER_COLD

    @property
    def of_later_epochs(self) -> "Costs":
        """The same of a sample that has been read before."""
        again_s = self.read_s if self.again_s is None else self.again_s
        return msgspec.structs.replace(self, read_s=again_s, read_cpu_s=min(self.read_cpu_s, again_s), stored_bytes=0.0)

    @property
    def waiting(self) -> float:
        """The part of reading in which it does not compute."""
        return max(0.0, 1 - self.read_cpu_s / self.read_s) if self.read_s else 0.0


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of processes while a setting was measured. None where the kernel does not tell."""

    workers: int
    samples_per_s: float
    wants_cpu: float | None = None
    """Part of the workers' time on a CPU or waiting for one."""

    waits_for_cpu: float | None = None
    """The part of it in which they wait for one."""

    cpus_used: float | None = None
    """By the workers."""

    main_cpus: float | None = None
    """By the main process, for taking over batches; without workers for making them."""

    main_wants: float | None = None
    """The same, and what it waited for a CPU meanwhile."""

    waits_for_batches: float | None = None
    """Part of the time in which the main process waited for the loader, without what it took to take batches over."""

    waits_for_disk: float | None = None
    """Part of the looks at the workers that found them in state D."""

    gpu_busy: float | None = None
    """Part of the time in which something ran on the GPU."""

    throttled: float | None = None
    """Part of the time in which the CPU quota was used up."""

    stored_bytes: float | None = None
    """Read from a disk, per sample."""

    received_bytes: float | None = None
    """Over the network, per sample."""

    startup_s: float = 0.0
    loading_s: float | None = None
    """Of an epoch, without start-up; None where its length is not known."""

    others_cpus: float | None = None
    """Used by processes that are not this job's."""

    stolen: float | None = None
    """Part of the time in which the hypervisor gave the CPUs to others."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the loader beside one setting's evidence."""

    costs: Costs | None = None
    one_worker_per_s: float | None = None
    """Samples per second with a single worker."""

    cached: dict[int, float] = {}
    """Samples per second that workers hand over which read nothing, by their number: collating and handing over."""

    delivering_s: float | None = None
    """CPU seconds per sample of a worker that reads nothing."""

    demand_per_s: float | None = None
    """What the step takes."""

    host_bound: bool = False
    """Whether the step itself keeps the main process computing all the time."""

    persistent: bool = False
    parts: int | None = None
    """Shards of an iterable dataset, or batches of an epoch; each is read by one worker."""

    parts_in_words: str = ""

    received_bytes: float | None = None
    """Over the network, that one more sample brings: what comes anyway for others is not in it."""

    order_gain: float | None = None
    """The rate of delivering in any order against that of delivering in order."""


Named = tuple[Bottleneck, str]
"""The name, and what was seen, in a sentence."""


def bottleneck_of(seen: Evidence, known: Known) -> Named:
    """The narrowest stage at one setting."""
    for rule in (fed, idle, starting, throttled, held_up, handing_over, computing, blocked):
        if (named := rule(seen, known)) is not None:
            return named
    return "unknown", "the kernel does not tell what the workers did"


def fed(seen: Evidence, known: Known) -> Named | None:
    if known.demand_per_s is None:
        return None
    enough = seen.samples_per_s >= FED * known.demand_per_s
    waits = seen.waits_for_batches if seen.workers else None
    if not enough and (waits is None or waits > READY):
        return None
    got = f"the loader delivers {plain(seen.samples_per_s)} samples/s, and the step takes {plain(known.demand_per_s)}"
    if not enough:
        got += f" at most; it waits for batches {plain(100 * (waits or 0.0))} % of the time, beside taking them over"
    if known.host_bound:
        return "host", f"{got}: it keeps the main process's CPU busy"
    return "gpu", got


def idle(seen: Evidence, known: Known) -> Named | None:
    """Some have nothing to read: what the others do says nothing of more of them."""
    if not known.parts or seen.workers <= known.parts:
        return None
    told = f"{count(seen.workers, 'worker')} share {known.parts_in_words}"
    return "unknown", f"{told}: {seen.workers - known.parts} of them have nothing to read"


def starting(seen: Evidence, known: Known) -> Named | None:
    if known.persistent or not seen.workers or seen.loading_s is None or seen.startup_s <= seen.loading_s:
        return None
    return "startup", f"starting takes {plain(seen.startup_s)} s of each epoch, and loading {plain(seen.loading_s)} s"


def throttled(seen: Evidence, _: Known) -> Named | None:
    if seen.throttled is None or seen.throttled < THROTTLED:
        return None
    return "quota", f"for {plain(100 * seen.throttled)} % of the time the CPU quota was used up and everything stood still"


def held_up(seen: Evidence, known: Known) -> Named | None:
    if seen.workers < 2 or known.order_gain is None or known.order_gain < FREED_BY_ORDER:
        return None
    return "straggler", f"delivering batches as they come is {plain(known.order_gain)} times as fast: slow samples hold others up"


def handing_over(seen: Evidence, _: Known) -> Named | None:
    """The main process has its hands full, and the workers wait for it."""
    waiting = seen.wants_cpu is not None and seen.wants_cpu < WANTS_CPU
    if not seen.workers or not waiting or seen.main_wants is None or seen.main_wants < MAIN_BUSY:
        return None
    if seen.main_cpus is not None and seen.main_cpus < MAIN_COMPUTES:
        return None
    told = f"the main process is busy taking over batches {plain(100 * min(1.0, seen.main_wants))} % of the time"
    return "ipc", f"{told}, while the workers wait"


def computing(seen: Evidence, known: Known) -> Named | None:
    """On CPUs: the largest of reading, collating and handing over."""
    costs = known.costs
    if not seen.workers:
        if costs is None or (costs.read_cpu_s + costs.collate_s) < (costs.read_s + costs.collate_s) / 2:
            return None
    elif (seen.wants_cpu or 0.0) < WANTS_CPU and (seen.waits_for_cpu or 0.0) < CROWDED:
        return None
    busy = "it computes"
    if seen.wants_cpu:
        busy = f"workers are on a CPU, or wait for one, {plain(100 * seen.wants_cpu)} % of the time"
    if costs is None:
        return "cpu", busy
    parts: dict[Bottleneck, float] = {"cpu": costs.read_cpu_s, "collate": costs.collate_s}
    if seen.workers and (each := handing_over_s(known)) is not None:
        parts["ipc"] = each
    name = max(parts, key=lambda part: parts[part])
    words = {"cpu": "reading", "collate": "collating", "ipc": "handing over"}
    told = ", ".join(f"{words[part]} {milliseconds(value)}" for part, value in parts.items())
    return name, f"{busy}; of a sample, {told}"


def handing_over_s(known: Known) -> float | None:
    """Of a sample, what one worker spends on handing over: what it takes to deliver without reading, less collating."""
    if known.costs is None or known.delivering_s is None:
        return None
    return max(0.0, known.delivering_s - known.costs.collate_s)


def blocked(seen: Evidence, known: Known) -> Named | None:
    """Neither computing nor held up by the main process: waiting for something outside."""
    costs = known.costs
    if seen.workers and seen.wants_cpu is None:
        return None
    if not seen.workers and costs is None:
        return None
    if costs is not None and costs.collate_s > costs.read_s:
        told = f"collating takes {milliseconds(costs.collate_s)} of a sample, reading {milliseconds(costs.read_s)}"
        return "collate", f"{told}, and most of it is waiting"
    rest = f"workers compute {plain(100 * seen.wants_cpu)} % of the time and wait" if seen.wants_cpu is not None else "it waits"
    stored = max(seen.stored_bytes or 0.0, (costs and costs.stored_bytes) or 0.0)
    cold = (costs and costs.slower_cold) or 1.0
    in_disk = seen.waits_for_disk or 0.0
    if in_disk >= WAITS_FOR_DISK or (stored >= STORED_BYTES and cold >= SLOWER_COLD):
        told = f"{plain(100 * in_disk)} % of it for a disk, {binary_size(round(stored))} of each sample come from there"
        return "disk", f"{rest}, {told}"
    each = (seen.received_bytes, costs.received_bytes if costs else None, known.received_bytes)
    received = min(known_of(*each), default=0.0)
    if received >= REMOTE_BYTES:
        return "network", f"{rest}, and {binary_size(round(received))} of each sample come over the network"
    if seen.workers > 1 and known.one_worker_per_s:
        times = seen.samples_per_s / known.one_worker_per_s
        possible = min(seen.workers, (known.demand_per_s or math.inf) / known.one_worker_per_s)
        if times < SCALES * possible and costs is not None and costs.unevenness >= SLOW_BATCHES:
            told = f"the slowest tenth of batches takes {plain(costs.unevenness)} times as long as a typical one"
            return "straggler", f"{told}, and the others wait for it, because they are delivered in order"
        if times < SCALES * possible:
            told = f"{count(seen.workers, 'worker')} are {plain(times)} times as fast as one"
            return "lock", f"{rest}, for each other as it seems: {told}, and neither disk nor network is busy"
    return "latency", f"{rest}, each for itself: more of them wait at the same time"


def known_of(*values: float | None) -> list[float]:
    return [value for value in values if value is not None]


def milliseconds(seconds: float) -> str:
    return f"{plain(1000 * seconds)} ms" if seconds >= 1e-5 else f"{plain(1e6 * seconds)} us"
