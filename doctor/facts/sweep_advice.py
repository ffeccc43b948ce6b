"""From what a sweep has measured to a table, the narrowest stage and one recommendation. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from dl_doctor.facts.bottleneck import STORED_BYTES, Bottleneck, Known, bottleneck_of
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.recommending import REPEATS, Choice, verified
from dl_doctor.facts.sweep_arms import Trial
from dl_doctor.facts.sweep_rungs import Measured
from dl_doctor.units import count, plain

PERSISTENT_PAYS = 0.05
"""Of an epoch spent on starting workers: then they had better stay. Proposal."""

STILL_GAINS = 1.03

Basis = Literal["measured", "kept", "rule"]
StageName = Literal["disk", "workers", "shared memory", "main process", "step"]

STAGE_OF: dict[Bottleneck, StageName] = {
    "cpu": "workers", "collate": "workers", "lock": "workers", "latency": "workers", "quota": "workers", "memory": "workers",
    "startup": "workers", "straggler": "workers", "disk": "disk", "network": "disk", "ipc": "shared memory", "gpu": "step",
    "host": "step",
}  # fmt: skip
"""The stage of a sample's way that each name belongs to."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at one number of workers, over all its measurements. Of one rank."""

    num_workers: int
    samples_per_s: float
    samples_per_s_low: float | None
    samples_per_s_high: float | None
    gpu_fed: float | None
    """Part of what the step takes; None where that is not known."""

    gpu_utilization: float | None = None
    """Part of the time in which something ran on the step's GPU, by NVML; None without --step, or where it is not told."""

    epoch_s: float | None
    """With start-up, unless workers stay; None where the length of an epoch is not known. Where both were measured, of an epoch
    that reads what the first one has left in memory."""

    first_epoch_s: float | None = None
    """That reads the data for the first time, start-up included; None where that is not known or `epoch_s` is it."""

    startup_s: float
    """Until the first batch was there."""

    bottleneck: Bottleneck
    why: str
    cpus_used: float | None
    """By the workers; without workers by the process."""

    others_cpus: float | None
    """Used by others on this machine meanwhile."""

    warm: bool
    """Whether it read what had been read before."""

    measurements: int
    disturbed: bool = False
    """Whether others used more of the CPUs meanwhile than at first, so that the rate may be too low."""


class Advised(msgspec.Struct, frozen=True, kw_only=True):
    value: int | bool | str | None
    basis: Basis


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The setting to use, and on what each part of it is based."""

    num_workers: Advised
    prefetch_factor: Advised
    pin_memory: Advised
    persistent_workers: Advised
    start_method: Advised
    in_order: Advised = Advised(value=True, basis="kept")
    worker_method: Advised = Advised(value=None, basis="kept")
    """None where the DataLoader has no such parameter, or it is left alone."""

    bottleneck: Bottleneck
    reason: str
    gain: str
    """Against the setting of now, in time."""

    line: str
    """To be pasted."""

    memory_bytes: int
    """Of all ranks at that setting, without dataset and model."""

    shared_memory_bytes: int | None
    descriptors: int
    """Open in a rank's main process, at worst."""


class StageRate(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage of a sample's way sustains, of one rank."""

    name: StageName
    samples_per_s: float


def points_of(all_measured: Sequence[Measured], known: Known, epoch_samples: float | None) -> tuple[Point, ...]:
    """One for each number of workers, fewest first."""
    ordered = sorted(all_measured, key=lambda one: one.workers)
    return tuple(point_of(list(group), known, epoch_samples) for _, group in groupby(ordered, key=lambda one: one.workers))


def point_of(same: Sequence[Measured], known: Known, epoch_samples: float | None) -> Point:
    """By its rounds against others where there are any, else by what was measured first."""
    counted = verified([*same]) or [one for one in same if one.purpose != "first"] or list(same)
    cold = [one.rate.samples_per_s for one in same if not one.warm]
    first_s = epoch_samples / statistics.geometric_mean(cold) if epoch_samples and cold else None
    rate = statistics.geometric_mean(one.rate.samples_per_s for one in counted)
    startup_s = statistics.median(one.startup_s for one in same)
    loading_s = epoch_samples / rate if epoch_samples else None
    seen = msgspec.structs.replace(counted[-1].evidence, samples_per_s=rate, startup_s=startup_s, loading_s=loading_s)
    name, why = bottleneck_of(seen, known)
    lows = [one.rate.low for one in counted if one.rate.low is not None]
    highs = [one.rate.high for one in counted if one.rate.high is not None]
    return Point(
        num_workers=counted[0].workers,
        samples_per_s=rate,
        samples_per_s_low=min(lows) if lows else None,
        samples_per_s_high=max(highs) if highs else None,
        gpu_fed=min(1.0, rate / known.demand_per_s) if known.demand_per_s else None,
        gpu_utilization=seen.gpu_busy,
        epoch_s=None if loading_s is None else loading_s + (0.0 if known.persistent else startup_s),
        first_epoch_s=None if first_s is None or not all(one.warm for one in counted) else first_s + startup_s,
        startup_s=startup_s,
        bottleneck=name,
        why=why,
        cpus_used=seen.cpus_used,
        others_cpus=seen.others_cpus,
        warm=all(one.warm for one in counted),
        measurements=len(same),
        disturbed=any(one.disturbed for one in counted),
    )


def narrowest_of(points: Sequence[Point], workers: int, no_room: str | None) -> tuple[Bottleneck, str]:
    """Why more workers than these do not help: by the next setting above, where nothing was gained any more."""
    by_count = {point.num_workers: point for point in points}
    above = [point for point in points if point.num_workers > workers]
    at = by_count[workers]
    if at.bottleneck in ("gpu", "host", "startup", "straggler"):
        return at.bottleneck, at.why
    if not above and no_room and still_gains(points):
        return "memory", f"it still got faster with more workers, and there was no room for them: {no_room}"
    several = [point for point in above if point.num_workers > 1 and point.bottleneck != "unknown"]
    plateau = several[0] if several else at
    return plateau.bottleneck, plateau.why


def still_gains(points: Sequence[Point]) -> bool:
    """Whether the last rung was faster than all before."""
    rates = [point.samples_per_s for point in points]
    return len(rates) > 1 and rates[-1] >= STILL_GAINS * max(rates[:-1])


def recommendation_of(
    choice: Choice,
    points: Sequence[Point],
    plan: LoaderPlan,
    *,
    method: str,
    persistent: bool,
    no_room: str | None,
    nothing_to_read: str | None = None,
    trials: Sequence[Trial] = (),
    in_order: bool = True,
    read: str = "",
) -> Recommendation | None:
    """What to set; None where the choice names nothing.

    Args:
        choice: the number of workers.
        points: all that were measured.
        plan: the loader as it is.
        method: how its workers are started.
        persistent: whether they stay.
        no_room: what kept it from more workers, where that is memory.
        nothing_to_read: why more workers would have nothing of their own to read.
        trials: of other features, at that number of workers.
        in_order: whether the loader as it is delivers in order.
        read: by which epochs settings were compared, in a sentence.
    """
    if choice.workers is None:
        return None
    at = next(point for point in points if point.num_workers == choice.workers)
    now = next((point for point in points if point.num_workers == plan.num_workers), None)
    bottleneck, _ = narrowest_of(points, choice.workers, no_room)
    stays = pays_to_stay(at, persistent=persistent)
    workers = choice.workers
    paid = [trial for trial in trials if trial.pays and trial.workers == workers]
    tried = {trial.arm.name: Advised(value=trial.arm.value, basis="measured") for trial in paid}
    better = faster(at, math.prod(trial.gain or 1.0 for trial in paid), persistent=persistent)
    ahead = tried.get("prefetch_factor", Advised(value=plan.prefetch_factor if workers else None, basis="kept"))
    factor = ahead.value if isinstance(ahead.value, int) else plan.prefetch_factor
    one = msgspec.structs.replace(plan, num_workers=workers, prefetch_factor=factor)
    said = [reason_of(choice, stays=stays and not persistent), *beside_it(paid, nothing_to_read), read, noise_of(choice)]
    return Recommendation(
        num_workers=Advised(value=workers, basis="measured"),
        prefetch_factor=ahead,
        pin_memory=Advised(value=bool(plan.pin_memory), basis="kept"),
        persistent_workers=Advised(value=stays and workers > 0, basis="kept" if stays == persistent else "rule"),
        start_method=Advised(value=method if workers and "worker_method" not in tried else None, basis="kept"),
        in_order=tried.get("in_order", Advised(value=in_order, basis="kept")),
        worker_method=tried.get("worker_method", Advised(value=None, basis="kept")),
        bottleneck=bottleneck,
        reason=" ".join(filter(None, said)),
        gain=gain_of(better, now, plan.ranks, stays=stays and not persistent),
        line=line_of(workers, [trial.arm.setting for trial in paid], stays=stays and not persistent and workers > 0),
        memory_bytes=plan.memory_need_with(workers, factor),
        shared_memory_bytes=plan.shm_need_with(workers, factor),
        descriptors=one.descriptors_at_worst,
    )


def faster(at: Point, times: float, *, persistent: bool) -> Point:
    """The point as what was tried beside the number of workers makes it."""
    if times == 1.0:
        return at
    startup_s = 0.0 if persistent else at.startup_s
    epoch_s = None if at.epoch_s is None else (at.epoch_s - startup_s) / times + startup_s
    return msgspec.structs.replace(at, samples_per_s=times * at.samples_per_s, epoch_s=epoch_s)


def beside_it(paid: Sequence[Trial], nothing_to_read: str | None) -> list[str]:
    """Sentences on what was tried, and on what bounds the number of workers."""
    told = [f"{trial.told}." for trial in paid]
    return [*told, f"{nothing_to_read[0].upper()}{nothing_to_read[1:]}."] if nothing_to_read else told


def pays_to_stay(at: Point, *, persistent: bool) -> bool:
    if persistent or not at.num_workers or at.epoch_s is None:
        return persistent
    return at.startup_s >= PERSISTENT_PAYS * at.epoch_s


def reason_of(choice: Choice, *, stays: bool) -> str:
    """Why this number of workers; what is in the way is told beside it."""
    workers = choice.workers or 0
    others = [n for n in choice.scores if n != workers]
    if choice.conclusion == "keep":
        said = f"No other setting is more than 3 % faster than {count(workers, 'worker')}"
        if choice.smallest is not None and choice.smallest < workers:
            said += f"; {choice.smallest} would do as well, and take less memory"
    elif others:
        said = f"{count(workers, 'worker')}: the fewest within 3 % of the best of {', '.join(map(str, sorted(choice.scores)))}"
    else:
        said = f"Only {count(workers, 'worker')} was measured"
    kept = " Workers that stay do not see what changes in the dataset between epochs (set_epoch)." if stays else ""
    return f"{said}.{kept}"


def noise_of(choice: Choice) -> str:
    """That the rate is not well known, where it is not: that has not changed the choice."""
    if choice.spread is None or choice.spread <= REPEATS:
        return ""
    return f"The rate of the best setting is known to {plain(100 * choice.spread)} % only, which does not change the choice."


def gain_of(at: Point, now: Point | None, ranks: int, *, stays: bool) -> str:
    """In time of an epoch, and in GPU-hours where the step was measured along; in samples where epochs have no known length."""
    if now is None:
        return "how it is now was not measured"
    if now.num_workers == at.num_workers and now.samples_per_s == at.samples_per_s:
        saved = f"each epoch but the first is {time_of(at.startup_s)} shorter"
        return f"{saved}: workers are started once" if stays else "no change needed"
    times = plain(at.samples_per_s / now.samples_per_s)
    if at.epoch_s is None or now.epoch_s is None:
        return f"{times} times as many samples a second"
    if time_of(at.epoch_s) == time_of(now.epoch_s) and at.num_workers != now.num_workers:
        return f"an epoch takes as long, with {count(at.num_workers, 'worker')} instead of {now.num_workers}"
    saved_h = (now.epoch_s - at.epoch_s) * ranks / 3600
    hours = f", which saves {plain(saved_h)} GPU-hours" if saved_h >= 0.01 and at.gpu_fed is not None else ""
    return f"loading an epoch takes {time_of(at.epoch_s)} instead of {time_of(now.epoch_s)}{hours}"


def time_of(seconds: float) -> str:
    if seconds < 120:
        return f"{plain(seconds)} s"
    return f"{plain(seconds / 60)} min" if seconds < 7200 else f"{plain(seconds / 3600)} h"


def line_of(workers: int, tried: Sequence[str] = (), *, stays: bool) -> str:
    return f"DataLoader(..., {', '.join([f'num_workers={workers}', *tried, *(['persistent_workers=True'] if stays else [])])})"


def narrowest_stage(points: Sequence[Point], workers: int, bottleneck: Bottleneck) -> StageName | None:
    """At this setting; without workers, nothing is handed over that could be in the way."""
    at = next(point for point in points if point.num_workers == workers)
    return STAGE_OF.get(bottleneck if workers else at.bottleneck)


def stages_of(
    points: Sequence[Point], workers: int, narrowest: StageName | None, known: Known, main_cpus: float | None, cpus: float
) -> tuple[StageRate, ...]:
    """What each stage would sustain at this setting; none is slower than what came through all of them."""
    rate = next(point.samples_per_s for point in points if point.num_workers == workers)
    found: dict[StageName, float] = {}
    if (from_disk := stored_rate(known)) is not None:
        found["disk"] = from_disk
    if (alone := capacity(workers, known, cpus)) is not None:
        found["workers"] = alone
    if workers in known.cached and workers:
        found["shared memory"] = known.cached[workers]
    if workers and main_cpus and main_cpus > 0.02:
        found["main process"] = rate / main_cpus
    if known.demand_per_s is not None:
        found["step"] = known.demand_per_s
    if narrowest is not None and narrowest != "step":
        found[narrowest] = rate
    order: tuple[StageName, ...] = ("disk", "workers", "shared memory", "main process", "step")
    return tuple(
        StageRate(name=name, samples_per_s=found[name] if name in (narrowest, "step") else max(found[name], rate))
        for name in order
        if name in found
    )


def stored_rate(known: Known) -> float | None:
    """Samples per second of a disk that one process reads from: by how much longer reading for the first time takes."""
    costs = known.costs
    if costs is None or costs.again_s is None or (costs.stored_bytes or 0) < STORED_BYTES or costs.read_s <= costs.again_s:
        return None
    return 1 / (costs.read_s - costs.again_s)


def capacity(workers: int, known: Known, cpus: float) -> float | None:
    """Samples per second that so many workers read and collate, by what a sample costs, on these CPUs."""
    costs = known.costs
    if costs is None or costs.read_s + costs.collate_s <= 0:
        return None
    computing = costs.read_cpu_s + costs.collate_s
    by_cpus = cpus / computing if computing > 0 else math.inf
    return min(max(workers, 1) / (costs.read_s + costs.collate_s), by_cpus)


def half_widths(all_measured: Sequence[Measured]) -> Mapping[int, float | None]:
    return {one.workers: one.rate.half_width for one in all_measured}
