"""The loader at several numbers of workers: how fast it is, what is in the way, and what to set."""

import math
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from dl_doctor.facts.bottleneck import Bottleneck, Costs
from dl_doctor.facts.burst_credits import BurstCredits
from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.facts.cold_and_warm import Epochs, in_words
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.facts.recommending import Choice, verified
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.sweep_advice import (
    Advised,
    Point,
    Recommendation,
    StageRate,
    narrowest_of,
    narrowest_stage,
    points_of,
    recommendation_of,
    stages_of,
    still_gains,
)
from dl_doctor.facts.sweep_arms import Trial
from dl_doctor.facts.sweep_course import RUNGS, Course
from dl_doctor.facts.sweep_measuring import STARTING_S, TURNS
from dl_doctor.facts.sweep_rates import budget_needed_s
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import System
from dl_doctor.text import Malformed, key_values, series
from dl_doctor.units import count, plain

PREPARING = 0.2
"""Of the budget at most, what is looked at before it may take."""

IDLE_CPUS = 0.05
"""Less than that used by others is no reason for noise."""

LONG_S = 600.0
"""More than that is not advised: then the machine is to become quieter."""

Conclusion = Literal["change", "keep", "too_noisy", "nothing", "broke"]


class LoaderSweep(msgspec.Struct, frozen=True, kw_only=True):
    """Source: DataLoaders of the user's dataset in processes forked from the one that made it, and /proc of their workers."""

    conclusion: Conclusion
    why: str
    """Of the conclusion, in a sentence."""

    points: tuple[Point, ...]
    recommendation: Recommendation | None
    bottleneck: Bottleneck
    evidence: str
    """Of the bottleneck's name."""

    caveat: str = ""
    """Why hours may be slower than what was measured, or an epoch may hold samples several times: sentences, or nothing."""

    narrowest: str | None
    """The stage of a sample's way that is in the way."""

    stages: tuple[StageRate, ...]
    demand_samples_per_s: float | None
    """What the step takes, of one rank."""

    costs: Costs | None
    data_bytes: int | None = None
    """Of all samples, in files: an estimate, by what a sample takes; None where it is not known."""

    epochs_that_count: Epochs = "unknown"
    """Whether the data stays in memory when the first epoch has read it, by its size."""

    spread: float | None = None
    """Between repeats of the best setting, as a part of its rate; of what was measured once, of its interval."""

    current: int | None
    """Workers of the job as it is."""

    ranks: int
    """Loaders that ran at once; rates are those of one of them."""

    limited_by: str | None
    """What kept it from more workers, if something did."""

    tried: tuple[Trial, ...] = ()
    """Other features of the DataLoader, at the recommended number of workers."""

    budget_s: float
    took_s: float
    complete: bool
    """Whether it came to its end, within its budget and without being interrupted."""

    @property
    def recommended(self) -> int:
        """Workers; 0 where nothing is recommended too, so ask that first."""
        value = self.recommendation.num_workers.value if self.recommendation else 0
        return value if isinstance(value, int) else 0

    @property
    def line(self) -> str:
        return self.recommendation.line if self.recommendation else ""


async def collect(
    system: System,
    probes: Probes,
    settings: Settings,
    loader: Loader,
    readable: ReadableDataset | Unavailable,
    plan: LoaderPlan,
    methods: StartMethods,
    cpu: CpuBudget,
    memory: MemoryBudget | Unavailable,
    shm: SharedMemory | Unavailable,
    cgroups: Cgroups,
    credits_: BurstCredits | Unavailable,
) -> AsyncIterator[LoaderSweep | Unavailable]:
    """Gives what is known after each measurement: where it is interrupted, that is what the report has."""
    if missing := not_measured(loader, readable, plan):
        yield missing
        return
    if isinstance(memory, Unavailable):
        yield Unavailable.failed(f"how much memory may be taken is not known: {memory.detail}")
        return
    options = settings.sweep or SweepOptions()
    course = Course(options, loader, plan, methods.in_force(plan.start_method), cpu, memory, shm)
    begin_s = began_s(system.clock_s(), settings, probes.loaded_since_s, options.budget_s)
    books = throttle_books(cgroups)
    while (wanted := course.next(options.budget_s - (system.clock_s() - begin_s))) is not None:
        before, since_s = throttled_s(system, books), system.clock_s()
        deadline_s = wanted.most_s + STARTING_S
        answers = await probes.run_each(wanted.probe, wanted.arguments, deadline_s=deadline_s, place="loaded", title=wanted.title)
        after = throttled_s(system, books)
        stood = None if before is None or after is None else min(1.0, (after - before) / (system.clock_s() - since_s))
        course.take(wanted, answers, stood)
        yield told(course, system.clock_s() - begin_s, credits_)
    yield told(course, system.clock_s() - begin_s, credits_)


def began_s(now_s: float, settings: Settings, loaded_since_s: float | None, budget_s: float) -> float:
    """When its time began: where nothing else was asked for, the look at batches and at a worker's memory before it counts."""
    if settings.sweep is None or loaded_since_s is None:
        return now_s
    return max(loaded_since_s, now_s - PREPARING * budget_s)


def not_measured(loader: Loader, readable: ReadableDataset | Unavailable, plan: LoaderPlan) -> Unavailable | None:
    if loader.own_threads:
        return Unavailable.absent(f"num_workers does not apply: {loader.own_threads}")
    if isinstance(readable, Unavailable):
        return readable
    if loader.arguments is None and plan.batch_size is None:
        return Unavailable.not_asked("needs --loader, or --batch-size beside --dataset")
    if loader.arguments is not None and loader.arguments.batches == 0:
        why = ""
        if plan.batch_size is not None and loader.length is not None and loader.length < plan.batch_size:
            why = f": {count(loader.length, 'sample')} are fewer than batch_size={plan.batch_size}, and are dropped"
        return Unavailable.absent(f"an epoch has no batch{why}")
    return None


def throttle_books(cgroups: Cgroups) -> str | None:
    """The file in which the time stands that the own group was kept from its CPUs."""
    group = cgroups.groups.get("cpu")
    return f"{group.folders[0]}/cpu.stat" if group and group.own_visible and group.folders else None


def throttled_s(system: System, path: str | None) -> float | None:
    try:
        stat = key_values(system.read_text(path)) if path else {}
    except (OSError, Malformed):
        return None
    if "throttled_usec" in stat:
        return stat["throttled_usec"] / 1e6
    return stat["throttled_time"] / 1e9 if "throttled_time" in stat else None


def told(course: Course, took_s: float, credits_: BurstCredits | Unavailable | None = None) -> LoaderSweep:
    """What is known so far."""
    known = course.known
    points = points_of(course.judged, known, course.epoch_samples)
    choice = course.choice
    tried = tuple(course.trials.made) if course.trials else ()
    if course.undecided or course.unmeasurable:
        choice = msgspec.structs.replace(choice, conclusion="nothing", workers=None)
    conclusion: Conclusion = "broke" if course.broke else choice.conclusion
    recommendation = None
    if conclusion in ("change", "keep"):
        recommendation = recommendation_of(
            choice,
            points,
            course.plan,
            method=course.method,
            persistent=course.persistent,
            no_room=course.no_room_for_more,
            nothing_to_read=course.nothing_to_read if course.repeats or choice.workers == course.bounds.parts else None,
            trials=tried,
            in_order=course.in_order,
            read=how_it_was_read(course, choice),
        )
        if recommendation is not None and course.repeats and (course.bounds.current or 0) > 1:
            told_now = f"an epoch holds each sample once, and not {course.bounds.current} times"
            recommendation = msgspec.structs.replace(recommendation, gain=told_now)
        elif recommendation is not None and course.more_than_batches and course.bounds.listed is None:
            told_now = f"an epoch takes no longer with {count(choice.workers or 0, 'worker')} than with {course.bounds.current}"
            recommendation = msgspec.structs.replace(recommendation, gain=told_now)
    best = choice.workers if choice.workers is not None else max(choice.scores, key=choice.scores.__getitem__, default=None)
    if recommendation is not None and settings_beside(recommendation):
        conclusion = "change"
    bottleneck: Bottleneck = "unknown"
    evidence, narrowest = "", None
    if best is not None:
        bottleneck, evidence = narrowest_of(points, best, course.no_room_for_more)
        narrowest = narrowest_stage(points, best, bottleneck)
    main = next((one.evidence.main_cpus for one in reversed(course.measured) if one.workers == best), None)
    all_there_are = any(point.num_workers >= course.bounds.most for point in points)
    all_tried = course.complete or all_there_are or course.bounds.listed is not None
    caveat = ""
    if recommendation is not None:
        sharing = course.sharing if (choice.workers or 0) > 1 else ""
        hours = not_for_hours(credits_, bottleneck) if isinstance(credits_, BurstCredits) else ""
        caveat = f"{sharing} {hours}".strip()
        recommendation = msgspec.structs.replace(recommendation, reason=f"{recommendation.reason} {caveat}".strip())
    return LoaderSweep(
        caveat=caveat,
        conclusion=conclusion,
        why=why_of(course, choice, recommendation)
        + (unfinished(points, choice.workers, complete=all_tried) if recommendation else ""),
        points=points,
        recommendation=recommendation,
        bottleneck=bottleneck,
        evidence=evidence,
        narrowest=narrowest,
        stages=() if best is None else stages_of(points, best, narrowest, known, main, course.bounds.cpus),
        demand_samples_per_s=known.demand_per_s,
        costs=course.costs,
        data_bytes=course.data_bytes,
        epochs_that_count=course.epochs,
        spread=choice.spread,
        current=course.bounds.current,
        ranks=course.ranks,
        limited_by=course.limited_by or course.nothing_to_read,
        tried=tried,
        budget_s=course.options.budget_s,
        took_s=took_s,
        complete=course.complete,
    )


def not_for_hours(here: BurstCredits, bottleneck: Bottleneck) -> str:
    """Why hours may be slower than the minute that was measured, or nothing; storage counts where data is read from it."""
    if here.instance:
        return f"This is a {here.instance}: when its CPU credits are used up it is slower, and hours may be unlike this minute."
    if here.volumes and bottleneck in ("disk", "network"):
        lies = f"If the data lies on {' or '.join(here.volumes)}"
        return f"{lies}, hours may be slower than this minute: what bursts lives on credits."
    return ""


def how_it_was_read(course: Course, choice: Choice) -> str:
    """Whether settings were compared by the first epoch or by later ones, where a disk makes a difference."""
    if not course.reads_a_disk:
        return ""
    if choice.mixed:
        return "Some settings read data for the first time, others read it again: they do not compare well."
    compared = verified(course.tried) or course.tried
    return in_words(course.epochs, course.data_bytes, course.room.headroom_bytes, warm=all(one.warm for one in compared))


def why_of(course: Course, choice: Choice, told: Recommendation | None) -> str:
    """The conclusion in a sentence."""
    if course.broke:
        return f"the loader broke: {course.broke}"
    if choice.conclusion == "nothing":
        return nothing(course)
    if choice.conclusion == "too_noisy":
        return too_noisy(course, choice)
    workers = choice.workers or 0
    beside = settings_beside(told) if told else []
    if beside or choice.conclusion == "change":
        return f"set {' and '.join([f'num_workers={workers}', *beside])}"
    return f"no change needed: {count(workers, 'worker')}"


def settings_beside(told: Recommendation) -> list[str]:
    """What is to be set beside the number of workers, as in a line of Python."""
    named = ("prefetch_factor", "in_order", "worker_method", "persistent_workers")
    advised: list[tuple[str, Advised]] = [(name, getattr(told, name)) for name in named]
    return [f"{name}={one.value!r}" for name, one in advised if one.basis != "kept"]


def unfinished(points: Sequence[Point], chosen: int | None, *, complete: bool) -> str:
    """Behind a conclusion that was reached before the end; empty where the last rung brought nothing any more, and where fewer
    workers are better all the same, by the time of an epoch.
    """
    if complete or not still_gains(points) or chosen != points[-1].num_workers:
        return ""
    return (
        "; it still got faster with more workers when the time was over: `dl-doctor sweep` with a larger --budget may find more"
    )


def nothing(course: Course) -> str:
    """Why nothing can be recommended; where batches are slow, what would help."""
    if course.unmeasurable:
        return f"nothing {'can be told' if course.measured else 'was measured'}: {course.unmeasurable}"
    counts = sorted({one.workers for one in course.measured})
    said = f"only {series(counts)} workers were measured" if counts else "nothing was measured"
    if course.repeats and not counts:
        return f"{said}: {course.nothing_to_read}"
    if not course.batch_s or not course.out_of_time:
        return said if counts or not course.batch_s else f"{said} but one process, which reads and collates {alone(course)}"
    budget_s = course.options.budget_s
    needed_s = (RUNGS * TURNS + 3) * course.batch_s
    if needed_s <= budget_s:
        return f"{said} within {plain(budget_s)} s; --budget {math.ceil(2 * budget_s / 10) * 10} may be enough"
    helps = f"--budget {math.ceil(needed_s / 10) * 10} may be enough"
    smaller = math.floor((course.plan.batch_size or 1) * budget_s / needed_s)
    if smaller:
        helps += f", or --batch-size {smaller}: rates are told in samples"
    return f"{said} within {plain(budget_s)} s: a batch takes {plain(course.batch_s)} s; {helps}"


def alone(course: Course) -> str:
    """The rate of one process, by what a sample costs: `about 98 samples/s`, or batches where it is not known how many it has."""
    size = course.plan.batch_size
    return f"about {plain((size or 1) / course.batch_s)} {'samples' if size else 'batches'}/s"


def too_noisy(course: Course, choice: Choice) -> str:
    rates = [one.rate for one in course.measured if one.workers == max(choice.scores, key=choice.scores.__getitem__)]
    again = "measured again, the best setting differs by" if len(rates) > 1 else "the rate of the best setting is only known to"
    apart = f"{again} {plain(100 * (choice.spread or 0))} %"
    others = [one.evidence.others_cpus for one in course.measured if one.evidence.others_cpus is not None]
    used = sum(others) / len(others) if others else 0.0
    busy = f", and others used {plain(used)} CPUs meanwhile" if used >= IDLE_CPUS else ""
    needed = max((budget_needed_s(rate, course.options.budget_s) or 0 for rate in rates), default=0)
    more = f"; --budget {math.ceil(needed / 10) * 10} may be enough" if course.options.budget_s < needed <= LONG_S else ""
    return f"too noisy to tell: {apart}{busy}{more}"
