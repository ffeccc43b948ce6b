"""A measurement at one number of workers: what the probe told of it, by all ranks, as rate and evidence. Pure."""

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from dl_doctor.facts.bottleneck import Evidence
from dl_doctor.facts.sweep_rates import Mark, Rate, rate_of, together
from dl_doctor.facts.sweep_search import Purpose, Tried

DISTURBED = 0.1
"""Of a rank's CPUs, that others use beyond what they used at first, when one process was looked at: then a measurement is
disturbed. A rate that CPUs limit is off by as much. That they use less says nothing: our workers may have crowded them out.
Proposal."""

STOLEN = 0.02
"""Part of the time in which the hypervisor gives the CPUs to others: disturbed, too. Proposal."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was added to the kernel's books while it was measured; see probes/accounts.py."""

    seconds: float
    main_s: float
    main_queued_s: float
    waited_s: float
    """By the main process, for batches."""

    cpu_s: float | None
    waiting_s: float | None
    stored_bytes: float | None
    received_bytes: float | None
    machine_cpu_s: float | None
    memory_stalls_s: float | None
    stolen_s: float | None = None
    own_cpu_s: float | None = None
    """By the main process with all its threads."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank's loader delivered. Source: probes/sweep_rung.py."""

    marks: tuple[Mark, ...]
    raised: str | None
    pressed: bool
    """It was ended because memory ran short."""

    startup_s: float | None
    batches: int
    exhausted: bool
    seen: Seen | None
    waits_for_disk: float | None
    gpu_busy: float | None = None
    """Part of the time in which something ran on the step's GPU; None where no step began CUDA, or it is not told."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Of one rank, where several ran at once the mean of them."""

    workers: int
    purpose: Purpose
    rate: Rate
    startup_s: float
    evidence: Evidence
    warm: bool
    disturbed: bool = False
    """Whether others used more of the CPUs meanwhile than at first."""

    def tried(self, epoch_samples: float | None, *, persistent: bool) -> Tried:
        """For the search. Start-up counts in each epoch, unless workers stay."""
        score = self.rate.samples_per_s
        if epoch_samples and not persistent:
            score = epoch_samples / (epoch_samples / score + self.startup_s)
        return Tried(
            workers=self.workers,
            rate=self.rate.samples_per_s,
            score=score,
            purpose=self.purpose,
            cpus_used=self.evidence.cpus_used,
            warm=self.warm,
        )


def measurement_of(
    deliveries: Sequence[Delivery],
    *,
    workers: int,
    purpose: Purpose,
    warm: bool,
    epoch_samples: float | None = None,
    throttled: float | None = None,
) -> Measured | None:
    """None where one of the ranks delivered too little: of a few batches nobody knows how far off their rate is."""
    rates = together([delivery.marks for delivery in deliveries]) if len(deliveries) > 1 else []
    own = [rate_of(delivery.marks) for delivery in deliveries]
    rates = rates or [rate for rate in own if rate]
    if len(rates) < len(deliveries) or not rates:
        return None
    rate = mean_of(rates)
    if rate.low is None:
        return None
    startup_s = max(delivery.startup_s or 0.0 for delivery in deliveries)
    evidence = evidence_of(deliveries, workers, rate.samples_per_s)
    evidence = msgspec.structs.replace(
        evidence,
        throttled=throttled,
        startup_s=startup_s,
        loading_s=epoch_samples / rate.samples_per_s if epoch_samples else None,
    )
    return Measured(workers=workers, purpose=purpose, rate=rate, startup_s=startup_s, evidence=evidence, warm=warm)


APART = 1.5
"""Times the slowest setting's rate that the fastest has to reach, for the difference between them to tell something."""


def received_of(all_measured: Sequence[Measured]) -> float | None:
    """Bytes over the network that one more sample brings: a neighbour's traffic is the same at every rate. None where the rates
    are too much alike to tell.
    """
    told = [(one.rate.samples_per_s, one.evidence.received_bytes) for one in all_measured]
    by_rate = sorted((rate, each * rate) for rate, each in told if each is not None)
    if not by_rate or by_rate[-1][0] < APART * by_rate[0][0]:
        return None
    (slow, least), (fast, most) = by_rate[0], by_rate[-1]
    return max(0.0, (most - least) / (fast - slow))


def mean_of(rates: Sequence[Rate]) -> Rate:
    lows = [rate.low for rate in rates if rate.low is not None]
    highs = [rate.high for rate in rates if rate.high is not None]
    complete = len(lows) == len(highs) == len(rates)
    return Rate(
        samples_per_s=statistics.fmean(rate.samples_per_s for rate in rates),
        low=statistics.fmean(lows) if complete else None,
        high=statistics.fmean(highs) if complete else None,
        seconds=min(rate.seconds for rate in rates),
    )


def evidence_of(deliveries: Sequence[Delivery], workers: int, rate: float) -> Evidence:
    """Means over the ranks; what a rank's books do not tell is not known of any."""
    books = [delivery.seen for delivery in deliveries if delivery.seen and delivery.seen.seconds > 0]
    if not books:
        return Evidence(workers=workers, samples_per_s=rate)

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    def wanted(seen: Seen) -> float | None:
        if seen.cpu_s is None or seen.waiting_s is None or not workers:
            return None
        return min(1.0, (seen.cpu_s + seen.waiting_s) / (workers * seen.seconds))

    def queued(seen: Seen) -> float | None:
        return seen.waiting_s / (workers * seen.seconds) if seen.waiting_s is not None and workers else None

    used = mean([None if seen.cpu_s is None else seen.cpu_s / seen.seconds for seen in books])
    main = mean([seen.main_s / seen.seconds for seen in books])
    machine = mean([None if seen.machine_cpu_s is None else seen.machine_cpu_s / seen.seconds for seen in books])
    own = mean([None if seen.own_cpu_s is None else seen.own_cpu_s / seen.seconds for seen in books])
    ours = len(books) * ((used or 0.0) + (main or 0.0 if own is None else own))
    return Evidence(
        workers=workers,
        samples_per_s=rate,
        wants_cpu=mean([wanted(seen) for seen in books]),
        waits_for_cpu=mean([queued(seen) for seen in books]),
        cpus_used=used if workers else main,
        main_cpus=main,
        waits_for_batches=mean([max(0.0, seen.waited_s - seen.main_s - seen.main_queued_s) / seen.seconds for seen in books]),
        main_wants=mean([(seen.main_s + seen.main_queued_s) / seen.seconds for seen in books]),
        waits_for_disk=mean([delivery.waits_for_disk for delivery in deliveries]) if workers else None,
        gpu_busy=mean([delivery.gpu_busy for delivery in deliveries]),
        stored_bytes=mean([None if s.stored_bytes is None else s.stored_bytes / s.seconds / rate for s in books]),
        received_bytes=mean(
            [None if s.received_bytes is None else s.received_bytes / s.seconds / rate / len(books) for s in books]
        ),
        others_cpus=None if machine is None else max(0.0, machine - ours),
        stolen=mean([None if seen.stolen_s is None else seen.stolen_s / seen.seconds for seen in books]),
    )


def disturbed(seen: Evidence, quiet_cpus: float | None, cpus: float) -> bool:
    """Whether others took so much meanwhile that the rate is not what it would be.

    Args:
        seen: while it was measured.
        quiet_cpus: what others used at first.
        cpus: that a rank may use.
    """
    more = 0.0 if seen.others_cpus is None or quiet_cpus is None else seen.others_cpus - quiet_cpus
    return more > DISTURBED * cpus or (seen.stolen or 0.0) > STOLEN


def delivery_of(answer: dict[str, Any]) -> Delivery:
    return msgspec.convert(answer, Delivery)
