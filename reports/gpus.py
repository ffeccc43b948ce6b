"""What the probe of the GPUs measured, in words: a row for each GPU, or for neighbours of which all is equal.

Facts may be a stranger's: what is no number is left out, and every text is printable and short.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dl_doctor.reports.look import printable
from dl_doctor.reports.picture import listed, mapping, number, share, words
from dl_doctor.units import plain

MOST_GPUS = 64
MOST_COLUMNS = 10
MOST_RATES = MOST_GPUS * MOST_COLUMNS
MOST_REASONS = 20

MOST_TIMES = 99
"""As fast as possible is told no more than so many times: a figure above it is somebody's mistake."""

SHORT, LONG = 30, 300
"""Characters of a name, and of a reason."""

MEMORY = "copy"
LINK = ("host to device", "device to host")

KINDS = ("bf16", "fp16", "tf32", "fp32", "fp8", MEMORY, *LINK)
"""What is measured, in the order in which it is told; what else there is comes last."""

PRODUCTS = "products"
"""What ran on a GPU while its clock, heat and power were looked at."""

HELD_BY = {
    "overheated": "heat",
    "hot": "heat",
    "power brake": "power brake",
    "hardware slowdown": "hardware slowdown",
    "locked clocks": "locked clocks",
    "held below limit": "power below its limit",
}
"""Words for the reasons of `gpu_yardsticks`. A power limit at its default is none: under full load it is normal."""

NUMBERED = re.compile("gpu:([0-9]{1,4})")


class Column(NamedTuple):
    """A kind of rate, with its unit."""

    what: str
    unit: str


@dataclass(frozen=True)
class Reach:
    """What was achieved of what is possible, in words and in the unit of its column."""

    achieved: str
    possible: str
    """Empty where there is nothing to compare with, and then so are the others."""

    percent: str
    basis: str
    """Where that comes from: `datasheet`, `formula`, or `link` for lanes and generation."""

    share: float = field(compare=False)
    """At most 1, for a drawing."""

    @property
    def in_words(self) -> str:
        return f"{self.achieved} of {self.possible}" if self.possible else self.achieved


@dataclass(frozen=True)
class Row:
    """A GPU, or neighbours that differ in nothing but their numbers."""

    gpu: str
    """`gpu:0`, or `gpu:0–7`."""

    name: str
    reaches: tuple[Reach | None, ...]
    """One for each column."""

    clock: str
    """MHz while products ran."""

    heat: str
    """°C, the highest."""

    power: str
    """W; `690 of 700` where the limit is known."""

    held: tuple[str, ...]
    """What kept it below what it could do: `heat`, `link x8 of x16`."""

    more: tuple[str, ...]
    """What only the long probe measures."""

    skipped: str
    """Why it was not measured; empty where it was."""

    count: int = field(default=1, compare=False)
    """GPUs in this row."""

    @property
    def meanwhile(self) -> tuple[str, ...]:
        """Its clock, heat and power while it was measured, with their units."""
        told = ((self.clock, "MHz"), (self.heat, "°C"), (self.power, "W"))
        return tuple(f"{value} {unit}" for value, unit in told if value)


@dataclass(frozen=True)
class Gpus:
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    raised: tuple[tuple[str, str], ...]
    """What could not be measured (`fp8 on gpu:0–7`) and why."""

    brief: bool
    """Whether it was the short probe, in which heat may not show."""

    @property
    def by_name(self) -> list[tuple[str, tuple[Row, ...]]]:
        """The rows of each model, as its first GPU comes."""
        names = dict.fromkeys(row.name for row in self.rows)
        return [(name, tuple(row for row in self.rows if row.name == name)) for name in names]

    @property
    def models(self) -> list[str]:
        """`8 × NVIDIA H100 80GB HBM3`, of each model with a name."""
        return [counted(name, rows) for name, rows in self.by_name if name]

    def basis(self, place: int) -> str:
        """Where all possible rates of a column come from, such as `datasheet`; empty where not all come from the same."""
        found = bases(reach for row in self.rows if (reach := row.reaches[place]))
        return found[0] if len(found) == 1 else ""


def counted(name: str, rows: Iterable[Row]) -> str:
    return f"{sum(row.count for row in rows)} × {name or 'GPU'}"


def bases(reaches: Iterable[Reach]) -> list[str]:
    return sorted({reach.basis for reach in reaches if reach.basis})


class Rate(NamedTuple):
    """An entry of `gpu_probe.rates` that is one."""

    gpu: str
    column: Column
    achieved: float
    possible: float | None
    basis: str


def gpus_of(facts: Mapping[str, Any]) -> Gpus | None:
    """Of `facts.gpu_probe`, with the limits that stand in `facts.gpu_yardsticks`; None where no GPU was to be measured."""
    probe = mapping(facts.get("gpu_probe"))
    rates = [rate for entry in listed(probe.get("rates"))[:MOST_RATES] if (rate := rate_of(mapping(entry)))]
    probed = by_gpu(probe)
    names = [*dict.fromkeys(name for name in (*probed, *(rate.gpu for rate in rates)) if name)][:MOST_GPUS]
    if not names:
        return None
    columns = columns_of(rates)
    scales = {column: scale_of(column, rates) for column in columns}
    limits = by_gpu(facts.get("gpu_yardsticks"))
    rows = [row_of(name, probed.get(name, {}), of_gpu(name, rates), scales, limits.get(name, {})) for name in names]
    rows = [row for row in rows if row.skipped or any(row.reaches)]
    if not rows:
        return None
    shown = tuple(scale.column for scale in scales.values())
    raised = raised_of({name: gpu for name, gpu in probed.items() if of_gpu(name, rates)})
    return Gpus(shown, tuple(folded(rows)), raised, probe.get("length") != "long")


def by_gpu(fact: Any) -> dict[str, Mapping[str, Any]]:
    """What a fact says of each GPU, by its name."""
    return {short(entry.get("gpu")): entry for entry in map(mapping, listed(mapping(fact).get("gpus"))[:MOST_GPUS])}


def rate_of(entry: Mapping[str, Any]) -> Rate | None:
    achieved, possible = number(entry.get("achieved")), number(entry.get("possible"))
    gpu, what, unit, basis = (short(entry.get(name)) for name in ("gpu", "what", "unit", "basis"))
    if achieved is None or not gpu or not what:
        return None
    return Rate(gpu, Column(what, unit), achieved, possible or None, basis if possible else "")


def of_gpu(name: str, rates: Iterable[Rate]) -> dict[Column, Rate]:
    return {rate.column: rate for rate in rates if rate.gpu == name}


def columns_of(rates: Iterable[Rate]) -> list[Column]:
    found = dict.fromkeys(rate.column for rate in rates)
    return sorted(found, key=lambda column: KINDS.index(column.what) if column.what in KINDS else len(KINDS))[:MOST_COLUMNS]


class Scale(NamedTuple):
    """How a column is shown: by its name, with what it is divided by."""

    column: Column
    divisor: float


def scale_of(column: Column, rates: Iterable[Rate]) -> Scale:
    """Thousands of GB/s are told in TB/s."""
    most = max(max(rate.achieved, rate.possible or 0) for rate in rates if rate.column == column)
    large = column.unit == "GB/s" and most >= 1000
    return Scale(Column(column.what, "TB/s"), 1000) if large else Scale(column, 1)


def row_of(
    gpu: str,
    entry: Mapping[str, Any],
    rates: Mapping[Column, Rate],
    scales: Mapping[Column, Scale],
    limits: Mapping[str, Any],
) -> Row:
    load = load_of(entry)
    power, limit = number(load.get("power_w")), number(limits.get("power_limit_w"))
    return Row(
        gpu=gpu,
        name=printable(words(entry.get("name")))[: 2 * SHORT],
        reaches=tuple(reach_of(rates[column], scale) if column in rates else None for column, scale in scales.items()),
        clock=whole(number(load.get("sm_mhz"))),
        heat=whole(number(load.get("temperature_c"))),
        power=f"{whole(power)} of {whole(limit)}" if power is not None and limit else whole(power),
        held=tuple(dict.fromkeys([*held_by(limits), *narrowed(limits)])),
        more=tuple(more_of(entry)),
        skipped=why_not(entry, measured=bool(rates)),
    )


def why_not(entry: Mapping[str, Any], *, measured: bool) -> str:
    """Why it was left alone, or what it raised before anything could be measured."""
    raised = () if measured else mapping(entry.get("raised")).values()
    return next((printable(told)[:LONG] for told in map(words, (entry.get("skipped"), *raised)) if told), "")


def reach_of(rate: Rate, scale: Scale) -> Reach:
    achieved = figures(rate.achieved / scale.divisor)
    if rate.possible is None:
        return Reach(achieved, "", "", "", 0.0)
    percent = f"{whole(100 * min(rate.achieved / rate.possible, MOST_TIMES))} %"
    return Reach(achieved, figures(rate.possible / scale.divisor), percent, rate.basis, share(rate.achieved, rate.possible))


def load_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    loads = map(mapping, listed(entry.get("loads"))[:MOST_COLUMNS])
    return next((load for load in loads if load.get("phase") == PRODUCTS), {})


def held_by(limits: Mapping[str, Any]) -> Iterator[str]:
    """What kept its clock down."""
    for brake in map(mapping, listed(limits.get("brakes"))[:MOST_COLUMNS]):
        reason = short(brake.get("reason"))
        if reason == "lowered limit":
            limit, default = (number(limits.get(f"power_limit{which}_w")) for which in ("", "_default"))
            yield f"power limit {whole(limit)} W, by default {whole(default)} W"
        elif reason in HELD_BY:
            yield HELD_BY[reason]


def narrowed(limits: Mapping[str, Any]) -> Iterator[str]:
    """A link to the host below what both the card and its slot can, where that can be known."""
    link = mapping(limits.get("link"))
    for name, word in (("width", "x"), ("gen", "generation ")):
        seen, card, slot = (number(link.get(f"{whose}{name}")) for whose in ("", "card_", "slot_"))
        best = min((end for end in (card, slot) if end), default=0.0)
        if seen and seen < best and not limits.get("no_link"):
            yield f"link {word}{plain(seen)} of {word if name == 'width' else ''}{plain(best)}"


def more_of(entry: Mapping[str, Any]) -> Iterator[str]:
    """What the long probe adds."""
    for name, before, after in (("launch_us", "launch ", " µs"), ("wait_us", "launch and wait ", " µs")):
        if (time_us := number(entry.get(name))) is not None:
            yield f"{before}{figures(time_us)}{after}"
    if (overlap := number(entry.get("overlap"))) is not None:
        yield f"copies are hidden to {whole(overlap * 100)} %"
    if (sustained := number(entry.get("sustained"))) is not None:
        yield f"{whole(sustained * 100)} % of the speed left at the end"


def raised_of(probed: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """What raised on GPUs that have other rates; those for which it is the same are told together."""
    found: dict[tuple[str, str], list[str]] = {}
    for gpu, entry in probed.items():
        for what, error in [*mapping(entry.get("raised")).items()][:MOST_COLUMNS]:
            if told := printable(words(error))[:LONG]:
                found.setdefault((short(what), told), []).append(gpu)
    return tuple((f"{what} on {span(gpus)}", why) for (what, why), gpus in [*found.items()][:MOST_REASONS])


def folded(rows: Iterable[Row]) -> Iterator[Row]:
    """Neighbours of which all is equal in one row."""
    runs: list[list[Row]] = []
    for row in rows:
        if runs and neighbours(runs[-1][-1].gpu, row.gpu) and replace(row, gpu="") == replace(runs[-1][-1], gpu=""):
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        yield replace(run[0], gpu=span([row.gpu for row in run]), count=len(run))


def span(gpus: Iterable[str]) -> str:
    """`gpu:0–3, gpu:5`."""
    runs: list[list[str]] = []
    for gpu in gpus:
        if runs and neighbours(runs[-1][-1], gpu):
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}–{run[-1].removeprefix('gpu:')}" for run in runs)


def neighbours(one: str, next_: str) -> bool:
    """Whether their numbers follow each other."""
    first, second = NUMBERED.fullmatch(one), NUMBERED.fullmatch(next_)
    return first is not None and second is not None and int(first[1]) + 1 == int(second[1])


def short(value: Any) -> str:
    return printable(words(value))[:SHORT]


def figures(value: float) -> str:
    """`742`, `2.91`, `1,760`: three figures are as many as a rate that repeats to a percent has."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 100 <= rounded < 1e9 else plain(rounded) if rounded < 1e9 else f"{rounded:.3g}"


def whole(value: float | None) -> str:
    """`1,755`; nothing for what is not known."""
    return "" if value is None else f"{value:,.0f}" if value < 1e9 else f"{value:.3g}"
