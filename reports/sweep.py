"""A sweep for a terminal: the table, the way of a sample with its rates, and what to set. Facts may be a stranger's."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dl_doctor.model import Pipeline, Report
from dl_doctor.reports.look import printable
from dl_doctor.reports.picture import Sweep, mapping, sweep_of, words
from dl_doctor.reports.sweep_words import (
    WORDS,
    caption,
    columns_of,
    demand,
    in_the_way,
    is_sweep,
    mark_of,
    settings,
    stages,
    takes,
)

FIT_IN_LINE = 7
"""Columns in 80 characters: where there are more, some are left out here, which the page and the JSON have."""


def parts(report: Report) -> Iterator[Text | Table]:
    """Nothing where nothing was measured."""
    sweep, fact = sweep_of(report.facts), mapping(report.facts.get("loader_sweep"))
    if sweep is None:
        return
    yield table_of(sweep, fact)
    yield Text(caption(sweep, fact), style="dim")
    yield Text()
    yield way(report.pipeline)
    yield Text()
    if told := in_the_way(fact):
        yield beside(Text("In the way  ", style="bold"), Text(printable(told)))
    if not is_sweep(report) and words(fact.get("why")):  # the verdict of a sweep says it
        yield beside(Text("Conclusion  ", style="bold"), Text(printable(words(fact.get("why")))))
    yield from advice(sweep, fact)
    yield Text()


def table_of(sweep: Sweep, fact: Mapping[str, Any]) -> Table:
    shown = columns_of(sweep)
    for left_out in ("utilization", "interval"):
        if len(shown) > FIT_IN_LINE:
            shown = [(heading, name) for heading, name in shown if name != left_out]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading, name in shown:
        table.add_column(heading, justify="left" if name == "bottleneck" else "right", no_wrap=True)
    for index, point in enumerate(sweep.points):
        cells = (printable(getattr(point, name))[:WORDS] for _, name in shown)
        table.add_row(mark_of(sweep, index, fact), *cells, style="bold" if point.recommended else "")
    return table


def way(pipeline: Pipeline) -> Table:
    """`disk ? → workers 431 → ...`, the narrowest in brackets."""
    text = Text()
    for index, (bar, stage) in enumerate(stages(pipeline)):
        text.append(" → " if index else "")
        text.append(printable(stage), style="bold" if bar.narrowest else "")
    return beside(Text("Samples/s   ", style="bold"), text.append(demand(pipeline)))


def advice(sweep: Sweep, fact: Mapping[str, Any]) -> Iterator[Text | Table]:
    if not mapping(fact.get("recommendation")):
        return
    yield beside(Text("Reason      ", style="bold"), Text(printable(sweep.reason)))
    yield beside(Text("Gain        ", style="bold"), Text(printable(sweep.gain)))
    yield beside(Text("Settings    ", style="bold"), Text(printable(settings(sweep)), style="dim"))
    yield beside(Text("Takes       ", style="bold"), Text(takes(fact), style="dim"))
    if sweep.line:
        yield Text(f"            {printable(sweep.line)}", no_wrap=True, overflow="ignore", style="cyan")


def beside(left: Text, right: Text) -> Table:
    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(left, right)
    return table
