"""What is drawn of a report, in numbers: the way of a sample, and the curve of a sweep. Templates draw it.

The facts that it is drawn from are plain values of anybody's making: what is no number there is left out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dl_doctor.model import Pipeline, Stage
from dl_doctor.units import plain

MOST_STAGES = 8
"""More cannot be read side by side."""

MOST_POINTS = 64

MOST = 1e15
"""A larger number is no rate and no time of this world."""

HEADROOM = 2.2
"""The picture ends at so many times the rate that matters: a disk that is 100 times faster would flatten all others."""


@dataclass(frozen=True)
class Bar:
    """A stage with its rate; `share` is its part of the picture's height, and `cut` says that it goes beyond."""

    name: str
    rate: str
    """In words; empty where it was not measured."""

    option: str
    """What measures it."""

    share: float
    cut: bool
    narrowest: bool


@dataclass(frozen=True)
class Gap:
    """Neighbouring stages, from `first` on, that one command would measure."""

    first: int
    length: int
    command: str
    names: str


@dataclass(frozen=True)
class Picture:
    bars: tuple[Bar, ...]
    gaps: tuple[Gap, ...]
    demand: str
    """What the step could take, in words; empty where it is not known."""

    demand_share: float
    about: str
    """The picture in words, for who cannot see it."""

    @property
    def measured(self) -> bool:
        return any(bar.rate for bar in self.bars)

    @property
    def narrowest(self) -> Bar | None:
        return next((bar for bar in self.bars if bar.narrowest), None)

    @property
    def cut(self) -> bool:
        return any(bar.cut for bar in self.bars)


def picture_of(pipeline: Pipeline) -> Picture:
    stages = pipeline.stages[:MOST_STAGES]
    rates = [number(stage.samples_per_s) for stage in stages]
    known = [rate for rate in rates if rate is not None]
    demand = number(pipeline.demand_samples_per_s)
    top = height(known, demand)
    bars = tuple(
        Bar(
            name=name_of(stage),
            rate="" if rate is None else speed(rate),
            option=stage.measured_by,
            share=share(rate, top),
            cut=(rate or 0) > top,
            narrowest=rate is not None and stage.name == pipeline.narrowest,
        )
        for stage, rate in zip(stages, rates, strict=True)
    )
    demand_words = "" if demand is None else speed(demand)
    about = [f"{bar.name}: {f'{bar.rate} samples per second' if bar.rate else 'not measured'}" for bar in bars]
    about += [f"narrowest: {bar.name}" for bar in bars if bar.narrowest]
    about += [f"the GPU could take {demand_words} samples per second"] if demand_words else []
    return Picture(bars, tuple(gaps(stages)), demand_words, share(demand, top), "; ".join(about) + ".")


def name_of(stage: Stage) -> str:
    return "GPU" if stage.name == "gpu" else stage.name


def height(rates: Sequence[float], demand: float | None) -> float:
    """The rate at the top: all of them where that is readable, else a little more than the demand and the narrowest."""
    matters = max([demand or 0, min(rates, default=0)])
    return max(min(max([*rates, demand or 0]), matters * HEADROOM), 1e-9)


def gaps(stages: Sequence[Stage]) -> Iterable[Gap]:
    numbered = [(index, stage) for index, stage in enumerate(stages) if number(stage.samples_per_s) is None]
    for (command, _), group in groupby(numbered, key=lambda item: (command_of(item[1].measured_by), run_of(item, numbered))):
        those = [*group]
        yield Gap(those[0][0], len(those), command, ", ".join(name_of(stage) for _, stage in those))


def run_of(item: tuple[int, Stage], numbered: list[tuple[int, Stage]]) -> int:
    """The same for stages that are neighbours."""
    return item[0] - numbered.index(item)


def command_of(option: str) -> str:
    if not option:
        return ""
    return f"dl-doctor check {option}" if option.startswith("-") else f"dl-doctor {option}"


@dataclass(frozen=True)
class Point:
    """What was measured at a number of workers, in the words of the table, and its place in the chart."""

    workers: str
    samples: str
    interval: str
    fed: str
    utilization: str
    epoch: str
    first_epoch: str
    """Only where it takes longer, or less, than the rate's interval explains."""

    startup: str
    bottleneck: str
    recommended: bool
    count: float
    rate: float
    low: float
    high: float
    disturbed: bool
    """Whether others used more of the CPUs meanwhile than at first: its rate then begins with a tilde."""


DISTURBED = "~: others used more of the CPUs meanwhile than at first; without them it may be faster."
"""Below a table in which a rate has a tilde."""


@dataclass(frozen=True)
class Advice:
    """One setting of the loader, and whether it was measured, kept, or is a rule."""

    name: str
    value: str
    basis: str


@dataclass(frozen=True)
class Sweep:
    points: tuple[Point, ...]
    advice: tuple[Advice, ...]
    bottleneck: str
    reason: str
    gain: str
    line: str
    """To be pasted."""

    @property
    def disturbed(self) -> bool:
        return any(point.disturbed for point in self.points)

    @property
    def first_epochs(self) -> bool:
        return any(point.first_epoch for point in self.points)

    @property
    def recommended(self) -> Point | None:
        return next((point for point in self.points if point.recommended), None)


ADVISED = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "start_method", "in_order", "worker_method")

SELDOM_SET = ("in_order", "worker_method")
"""Of these only what is to be changed is told."""


def sweep_of(facts: Mapping[str, Any]) -> Sweep | None:
    """Of `facts.loader_sweep`; None where there is none with a point."""
    fact = mapping(facts.get("loader_sweep"))
    told = mapping(fact.get("recommendation"))
    best = number(setting(told.get("num_workers"))[0])
    points = [point_of(mapping(point), best) for point in listed(fact.get("points"))[:MOST_POINTS]]
    found = sorted((point for point in points if point), key=lambda point: point.count)
    if not found:
        return None
    advice = [Advice(name, *map(words, setting(told[name]))) for name in ADVISED if told.get(name) is not None]
    advice = [one for one in advice if one.name not in SELDOM_SET or one.basis == "measured"]
    said = (words(told.get(name)) for name in ("bottleneck", "reason", "gain", "line"))
    return Sweep(tuple(found), tuple(advice), *said)


def point_of(point: Mapping[str, Any], best: float | None) -> Point | None:
    workers, rate = number(point.get("num_workers")), number(point.get("samples_per_s"))
    if workers is None or rate is None:
        return None
    low, high = (number(point.get(f"samples_per_s_{end}")) for end in ("low", "high"))
    if low is None or high is None:
        low = high = rate
        interval = ""
    else:
        interval = f"{speed(low)} – {speed(high)}"
    disturbed = point.get("disturbed") is True
    return Point(
        workers=plain(workers),
        samples=f"~{speed(rate)}" if disturbed else speed(rate),
        interval=interval,
        fed=percent(point.get("gpu_fed")),
        utilization=percent(point.get("gpu_utilization")),
        epoch=seconds(point.get("epoch_s")),
        first_epoch=first_epoch(number(point.get("first_epoch_s")), number(point.get("epoch_s")), (high - low) / max(rate, 1e-9)),
        startup=seconds(point.get("startup_s")),
        bottleneck=words(point.get("bottleneck")),
        recommended=workers == best,
        count=workers,
        rate=rate,
        low=low,
        high=high,
        disturbed=disturbed,
    )


FIRST_DIFFERS = 0.05
"""From the epochs after it: less is not worth a column."""


def first_epoch(first_s: float | None, later_s: float | None, noise: float) -> str:
    """`noise`: the width of the rate's interval, as a part of it."""
    if first_s is None or not later_s or abs(first_s / later_s - 1) <= max(FIRST_DIFFERS, noise):
        return ""
    return seconds(first_s)


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    low: float
    high: float
    label: str
    recommended: bool


@dataclass(frozen=True)
class Curve:
    """The sweep as lines of a drawing that is `width` by `height`, axes at `left` and `bottom`."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    demand_y: float | None
    demand: str

    @property
    def line(self) -> str:
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)

    @property
    def band(self) -> str:
        """Around the interval of every point."""
        there = [f"{mark.x:.1f},{mark.high:.1f}" for mark in self.marks]
        back = [f"{mark.x:.1f},{mark.low:.1f}" for mark in reversed(self.marks)]
        return " ".join([*there, *back])


LABEL_WIDTH = 26
"""Numbers of workers that are closer than this are not all written."""


def curve_of(sweep: Sweep, demand: float | None, width: int, size: int) -> Curve:
    """Throughput against workers, both axes linear and from 0, so that slopes can be compared."""
    left, right, top, bottom = 56, width - 16, 34, size - 40
    most = max(1e-9, *(point.high for point in sweep.points))
    demand = number(demand)
    shown = demand is not None and demand <= most * HEADROOM
    step = nice(max(most, demand if shown and demand else 0) / 4.5)
    ceiling = math.ceil(max(most, demand if shown and demand else 0) / step) * step
    first, last = sweep.points[0].count, max(sweep.points[-1].count, sweep.points[0].count + 1)

    def across(count: float) -> float:
        return left + 14 + (count - first) / (last - first) * (right - left - 28)

    def up(rate: float) -> float:
        return bottom - min(max(rate / ceiling, 0), 1) * (bottom - top)

    marks: list[Mark] = []
    labelled = -math.inf
    for point in sweep.points:
        x = across(point.count)
        label = point.workers if x - labelled >= LABEL_WIDTH or point.recommended else ""
        labelled = x if label else labelled
        marks.append(Mark(x, up(point.rate), up(point.low), up(point.high), label, point.recommended))
    ticks = tuple((up(step * index), speed(step * index)) for index in range(round(ceiling / step) + 1))
    return Curve(
        width, size, left, right, top, bottom, tuple(marks), ticks,
        up(demand) if shown and demand is not None else None, "" if demand is None else speed(demand),
    )  # fmt: skip


def nice(step: float) -> float:
    """1, 2 or 5 times a power of ten, at least `step`."""
    power: float = 10.0 ** math.floor(math.log10(max(step, 1e-9)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)


def number(value: Any) -> float | None:
    """A number that can be drawn; None for anything else, such as what is negative or not finite."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST
    return float(value) if good else None


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def setting(value: Any) -> tuple[Any, Any]:
    """A recommended value and what it is based on."""
    told = mapping(value)
    return (told.get("value"), told.get("basis")) if told else (value, None)


def words(value: Any) -> str:
    """A plain value as people read it; nothing for what is not known or not plain."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if (known := number(value)) is not None:
        return short(known)
    return value if isinstance(value, str) else ""


def share(part: float | None, whole: float) -> float:
    return 0.0 if part is None else min(part / whole, 1.0)


def speed(rate: float) -> str:
    """`412`, `1,900`, `0.5`: three figures are as many as were measured."""
    if 1000 <= rate < 1e9:
        return f"{float(f'{rate:.3g}'):,.0f}"
    return short(rate)


def short(value: float) -> str:
    return plain(value) if value < 1e9 else f"{value:.3g}"


def percent(value: Any) -> str:
    """Of a share between 0 and 1."""
    part = number(value)
    return "" if part is None else f"{short(part * 100)} %"


def seconds(value: Any) -> str:
    """`4.2 s`, `12 min`, `1.5 h`."""
    time_s = number(value)
    if time_s is None:
        return ""
    return f"{short(time_s)} s" if time_s < 120 else f"{short(time_s / 60)} min" if time_s < 7200 else f"{short(time_s / 3600)} h"
