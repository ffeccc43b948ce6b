"""A sweep for a terminal: the table, the way of a sample with its rates, and what to set. Facts may be a stranger's."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dl_doctor.model import Pipeline, Report, Result
from dl_doctor.reports.look import printable
from dl_doctor.reports.picture import Sweep, mapping, number, picture_of, speed, sweep_of, words
from dl_doctor.units import binary_size, plain

COLUMNS = (
    ("workers", "workers"), ("samples/s", "samples"), ("19 of 20", "interval"), ("GPU fed", "fed"), ("epoch", "epoch"),
    ("start-up", "startup"), ("in the way", "bottleneck"),
)  # fmt: skip
"""Headings, and what of a point stands below them; a column without any value is left out."""

WORDS = 30
"""Of a stage's or setting's words, the most characters."""


def is_sweep(report: Report) -> bool:
    """Whether it was made by `dl-doctor sweep`."""
    return report.run.settings.get("sweep") is not None


SAID_BY_THE_SWEEP = "worker-count"
"""A check that warns of what the recommendation says."""


def judged(report: Report) -> tuple[Result, ...]:
    """The results to be shown: beside a sweep's own conclusion what keeps it from being measured, and what else it found."""
    if not is_sweep(report):
        return report.results
    told = ("warn", "fail", "error")
    return tuple(result for result in report.results if result.status in told and result.id != SAID_BY_THE_SWEEP)


def parts(report: Report) -> Iterator[Text | Table]:
    """Nothing where nothing was measured."""
    sweep, fact = sweep_of(report.facts), mapping(report.facts.get("loader_sweep"))
    if sweep is None:
        return
    yield table_of(sweep, fact)
    yield Text(caption(fact), style="dim")
    yield Text()
    yield way(report.pipeline)
    yield Text()
    if words(fact.get("evidence")):
        told = f"{printable(words(fact.get('bottleneck')))}: {printable(words(fact.get('evidence')))}."
        yield beside(Text("In the way  ", style="bold"), Text(told))
    if not is_sweep(report) and words(fact.get("why")):  # the verdict of a sweep says it
        yield beside(Text("Conclusion  ", style="bold"), Text(printable(words(fact.get("why")))))
    yield from advice(sweep, fact)
    yield Text()


def table_of(sweep: Sweep, fact: Mapping[str, Any]) -> Table:
    shown = [(heading, name) for heading, name in COLUMNS if any(getattr(point, name) for point in sweep.points)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading, name in shown:
        table.add_column(heading, justify="left" if name == "bottleneck" else "right", no_wrap=True)
    now = number(fact.get("current"))
    for point in sweep.points:
        mark = "→" if point.recommended else "now" if point.count == now else ""
        style = "bold" if point.recommended else ""
        table.add_row(mark, *(printable(getattr(point, name))[:WORDS] for _, name in shown), style=style)
    return table


def caption(fact: Mapping[str, Any]) -> str:
    ranks = number(fact.get("ranks")) or 1
    each = f" of each of {plain(ranks)} ranks that ran at once" if ranks > 1 else ""
    cut = "" if fact.get("complete") is True else "; there was no time for all"
    return f"Rates{each}, measured in {plain(number(fact.get('took_s')) or 0)} s{cut}."


def way(pipeline: Pipeline) -> Table:
    """`disk ? → workers 431 → ...`, the narrowest in brackets."""
    text = Text()
    for index, bar in enumerate(picture_of(pipeline).bars):
        text.append(" → " if index else "")
        stage = f"{printable(bar.name)[:WORDS]} {bar.rate or '?'}"
        text.append(f"[{stage}]" if bar.narrowest else stage, style="bold" if bar.narrowest else "")
    if pipeline.demand_samples_per_s is not None:
        text.append(f"; the step takes {speed(pipeline.demand_samples_per_s)}")
    return beside(Text("Samples/s   ", style="bold"), text)


def advice(sweep: Sweep, fact: Mapping[str, Any]) -> Iterator[Text | Table]:
    told = mapping(fact.get("recommendation"))
    if not told:
        return
    yield beside(Text("Reason      ", style="bold"), Text(printable(sweep.reason)))
    yield beside(Text("Gain        ", style="bold"), Text(printable(sweep.gain)))
    settings = [f"{one.name}={one.value} ({one.basis})" for one in sweep.advice if one.value]
    yield beside(Text("Settings    ", style="bold"), Text(printable(", ".join(settings)), style="dim"))
    yield beside(Text("Takes       ", style="bold"), Text(takes(told), style="dim"))
    if line := words(told.get("line")):
        yield Text(f"            {printable(line)}", no_wrap=True, overflow="ignore", style="cyan")


def takes(told: Mapping[str, Any]) -> str:
    memory, shared, files = (number(told.get(name)) for name in ("memory_bytes", "shared_memory_bytes", "descriptors"))
    said = [f"at least {binary_size(int(memory))} of memory"] if memory is not None else []
    said += [f"{binary_size(int(shared))} of it in /dev/shm"] if shared is not None else []
    said += [f"{plain(files)} descriptors"] if files is not None else []
    return ", ".join(said)


def beside(left: Text, right: Text) -> Table:
    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(left, right)
    return table
