"""The loader at several numbers of workers: how fast it is, what is in the way, and what to set."""

import math
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from dl_doctor.facts.bottleneck import Bottleneck, Costs
from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.facts.recommending import Choice, choose
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.sweep_advice import (
    Advised,
    Point,
    Recommendation,
    StageRate,
    half_widths,
    narrowest_of,
    narrowest_stage,
    points_of,
    recommendation_of,
    stages_of,
    still_gains,
)
from dl_doctor.facts.sweep_course import STARTING_S, Course
from dl_doctor.facts.sweep_rates import budget_needed_s
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import System
from dl_doctor.text import Malformed, key_values
from dl_doctor.units import count, plain

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

    narrowest: str | None
    """The stage of a sample's way that is in the way."""

    stages: tuple[StageRate, ...]
    demand_samples_per_s: float | None
    """What the step takes, of one rank."""

    costs: Costs | None
    current: int | None
    """Workers of the job as it is."""

    ranks: int
    """Loaders that ran at once; rates are those of one of them."""

    limited_by: str | None
    """What kept it from more workers, if something did."""

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
    begin_s = system.clock_s()
    books = throttle_books(cgroups)
    while (wanted := course.next(options.budget_s - (system.clock_s() - begin_s))) is not None:
        before, since_s = throttled_s(system, books), system.clock_s()
        deadline_s = wanted.most_s + STARTING_S
        answers = await probes.run_each(wanted.probe, wanted.arguments, deadline_s=deadline_s, place="loaded", title=wanted.title)
        after = throttled_s(system, books)
        stood = None if before is None or after is None else min(1.0, (after - before) / (system.clock_s() - since_s))
        course.take(wanted, answers, stood)
        yield told(course, system.clock_s() - begin_s)
    yield told(course, system.clock_s() - begin_s)


def not_measured(loader: Loader, readable: ReadableDataset | Unavailable, plan: LoaderPlan) -> Unavailable | None:
    if isinstance(readable, Unavailable):
        return readable
    if loader.arguments is None and plan.batch_size is None:
        return Unavailable.not_asked("needs --loader, or --batch-size beside --dataset")
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


def told(course: Course, took_s: float) -> LoaderSweep:
    """What is known so far."""
    known = course.known
    points = points_of(course.measured, known, course.epoch_samples)
    choice = choose(course.tried, course.bounds.current, half_widths(course.measured))
    conclusion: Conclusion = "broke" if course.broke else choice.conclusion
    recommendation = None
    if conclusion in ("change", "keep"):
        recommendation = recommendation_of(
            choice, points, course.plan, method=course.method, persistent=course.persistent, limited_by=course.limited_by
        )
    best = choice.workers if choice.workers is not None else max(choice.scores, key=choice.scores.__getitem__, default=None)
    if recommendation is not None and recommendation.persistent_workers == Advised(value=True, basis="rule"):
        conclusion = "change"
    bottleneck: Bottleneck = "unknown"
    evidence, narrowest = "", None
    if best is not None:
        bottleneck, evidence = narrowest_of(points, best, course.limited_by)
        narrowest = narrowest_stage(points, best, bottleneck)
    main = next((one.evidence.main_cpus for one in reversed(course.measured) if one.workers == best), None)
    return LoaderSweep(
        conclusion=conclusion,
        why=why_of(course, choice, recommendation) + (unfinished(points, complete=course.complete) if recommendation else ""),
        points=points,
        recommendation=recommendation,
        bottleneck=bottleneck,
        evidence=evidence,
        narrowest=narrowest,
        stages=() if best is None else stages_of(points, best, narrowest, known, main, course.bounds.cpus),
        demand_samples_per_s=known.demand_per_s,
        costs=course.costs,
        current=course.bounds.current,
        ranks=course.ranks,
        limited_by=course.limited_by,
        budget_s=course.options.budget_s,
        took_s=took_s,
        complete=course.complete,
    )


def why_of(course: Course, choice: Choice, told: Recommendation | None) -> str:
    """The conclusion in a sentence."""
    if course.broke:
        return f"the loader broke: {course.broke}"
    if choice.conclusion == "nothing":
        return nothing(course)
    if choice.conclusion == "too_noisy":
        return too_noisy(course, choice)
    workers = choice.workers or 0
    stays = told is not None and told.persistent_workers == Advised(value=True, basis="rule")
    also = " and persistent_workers=True" if stays else ""
    if stays or choice.conclusion == "change":
        return f"set num_workers={workers}{also}"
    return f"no change needed: {count(workers, 'worker')}"


def unfinished(points: Sequence[Point], *, complete: bool) -> str:
    """Behind a conclusion that was reached before the end; empty where the last rung brought nothing any more."""
    if complete or not still_gains(points):
        return ""
    return (
        "; it still got faster with more workers when the time was over: `dl-doctor sweep` with a larger --budget may find more"
    )


RUNGS = 8
"""Measurements that a sweep takes at least, for an estimate of its time."""

BATCHES_OF_A_RUNG = 6
"""Of each worker."""


def nothing(course: Course) -> str:
    said = "nothing was measured"
    if course.costs is None or course.plan.batch_size is None or not course.out_of_time:
        return said
    batch_s = course.plan.batch_size * (course.costs.read_s + course.costs.collate_s)
    needed_s = max(course.options.budget_s, RUNGS * BATCHES_OF_A_RUNG * batch_s)
    budget = f"--budget {math.ceil(needed_s / 10) * 10} may be enough"
    return f"{said} within {plain(course.options.budget_s)} s: a batch takes {plain(batch_s)} s; {budget}"


def too_noisy(course: Course, choice: Choice) -> str:
    apart = f"measured again, the best setting differs by {plain(100 * (choice.spread or 0))} %"
    others = [one.evidence.others_cpus for one in course.measured if one.evidence.others_cpus is not None]
    busy = f", and others used {plain(sum(others) / len(others))} CPUs meanwhile" if others else ""
    rates = [one.rate for one in course.measured if one.workers == max(choice.scores, key=choice.scores.__getitem__)]
    needed = max((budget_needed_s(rate, course.options.budget_s) or 0 for rate in rates), default=0)
    more = f"; --budget {math.ceil(needed / 10) * 10} may be enough" if course.options.budget_s < needed <= LONG_S else ""
    return f"too noisy to tell: {apart}{busy}{more}"
