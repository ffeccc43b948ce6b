"""What a sweep found, in words that the terminal and tickets share. The facts may be a stranger's."""

from collections.abc import Mapping
from typing import Any

from dl_doctor.model import Pipeline, Report, Result
from dl_doctor.reports.picture import DISTURBED, Bar, Sweep, mapping, number, picture_of, speed, words
from dl_doctor.units import binary_size, plain

COLUMNS = (
    ("workers", "workers"), ("samples/s", "samples"), ("19 of 20", "interval"), ("GPU fed", "fed"),
    ("GPU busy", "utilization"), ("epoch", "epoch"), ("first one", "first_epoch"), ("start-up", "startup"),
    ("in the way", "bottleneck"),
)  # fmt: skip
"""Headings, and what of a point stands below them; a column without any value is left out."""

WORDS = 30
"""Of a stage's or setting's words, the most characters."""

SAID_BY_THE_SWEEP = "worker-count"
"""A check that warns of what the recommendation says."""


def is_sweep(report: Report) -> bool:
    """Whether it was made by `dl-doctor sweep`."""
    return report.run.settings.get("sweep") is not None


def judged(report: Report) -> tuple[Result, ...]:
    """The results to be shown: beside a sweep's own conclusion what keeps it from being measured, and what else it found."""
    if not is_sweep(report):
        return report.results
    told = ("warn", "fail", "error")
    return tuple(result for result in report.results if result.status in told and result.id != SAID_BY_THE_SWEEP)


def columns_of(sweep: Sweep) -> list[tuple[str, str]]:
    """Those that have a value."""
    return [(heading, name) for heading, name in COLUMNS if any(getattr(point, name) for point in sweep.points)]


def mark_of(sweep: Sweep, index: int, fact: Mapping[str, Any]) -> str:
    """Beside a row: what is recommended, and what the job has now."""
    point = sweep.points[index]
    return "→" if point.recommended else "now" if point.count == number(fact.get("current")) else ""


def caption(sweep: Sweep, fact: Mapping[str, Any]) -> str:
    ranks = number(fact.get("ranks")) or 1
    each = f" of each of {plain(ranks)} ranks that ran at once" if ranks > 1 else ""
    cut = "" if fact.get("complete") is True else "; there was no time for all"
    marked = f" {DISTURBED}" if sweep.disturbed else ""
    return f"Rates{each}, measured in {plain(number(fact.get('took_s')) or 0)} s{cut}.{marked}"


def stages(pipeline: Pipeline) -> list[tuple[Bar, str]]:
    """Each stage with its rate, the narrowest in brackets: `disk ?`, `[workers 431]`."""
    told = [(bar, f"{bar.name[:WORDS]} {bar.rate or '?'}") for bar in picture_of(pipeline).bars]
    return [(bar, f"[{text}]" if bar.narrowest else text) for bar, text in told]


def demand(pipeline: Pipeline) -> str:
    """Behind the stages; empty where it is not known."""
    known = number(pipeline.demand_samples_per_s)
    return "" if known is None else f"; the step takes {speed(known)}"


def in_the_way(fact: Mapping[str, Any]) -> str:
    evidence = words(fact.get("evidence"))
    return f"{words(fact.get('bottleneck'))}: {evidence}." if evidence else ""


def settings(sweep: Sweep) -> str:
    """What is recommended, each with its basis."""
    return ", ".join(f"{one.name}={one.value} ({one.basis})" for one in sweep.advice if one.value)


def takes(fact: Mapping[str, Any]) -> str:
    """What the recommended setting takes of the machine."""
    told = mapping(fact.get("recommendation"))
    memory, shared, files = (number(told.get(name)) for name in ("memory_bytes", "shared_memory_bytes", "descriptors"))
    said = [f"at least {binary_size(int(memory))} of memory"] if memory is not None else []
    said += [f"{binary_size(int(shared))} of it in /dev/shm"] if shared is not None else []
    said += [f"{plain(files)} descriptors"] if files is not None else []
    return ", ".join(said)
