"""The report as one HTML file that needs no script and no network: what a manager opens, prints and sends on."""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from dl_doctor.model import Finding, Report, Result, Unavailable
from dl_doctor.reports import order, sweep_words
from dl_doctor.reports.gpus import gpus_of
from dl_doctor.reports.look import (
    RISKS,
    SYMBOLS,
    VERDICTS,
    Look,
    asked,
    environment_words,
    machine_facts,
    machine_words,
)
from dl_doctor.reports.page import moment, page
from dl_doctor.reports.picture import DISTURBED, Curve, Sweep, curve_of, mapping, picture_of, sweep_of
from dl_doctor.units import plain

LONGEST_TRACE = 20_000
"""Characters from its end, which says what happened."""

LONGEST_HEADLINE = 80
"""Characters."""

FOLDED_FROM = 9
"""Lists that are longer are folded."""


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (a page looks the same everywhere)
    """The page. Every text that it shows is escaped and printable: any may be a stranger's."""
    anchors = Anchors()
    return page(
        "report.html.j2",
        report=report,
        symbols=SYMBOLS,
        risks=RISKS,
        headline=headline(report),
        of_a_sweep=sweep_words.is_sweep(report),
        counts=order.counts(report),
        machine=" · ".join([*machine_words(report.machine), *environment_words(report)]),
        machine_facts=machine_facts(report),
        areas=order.by_area(report.results),
        failures=[anchors.card(*trouble) for trouble in order.troubles(report.results, "fail")],
        untold=[anchors.group(*group) for group in order.by_reason(report.results, "error").items()],
        warnings=[anchors.card(*trouble) for trouble in order.troubles(report.results, "warn")],
        accepted=[anchors.card(*finding) for finding in order.accepted(report.results)],
        skipped=[anchors.group(*group) for group in order.by_reason(report.results, "skip").items()],
        not_run=[anchors.group(*group) for group in order.by_reason(report.results, "not_run").items()],
        notes=order.all_notes(report.results),
        made=made(report),
        lacking=lacking(report.unavailable),
        asked=asked(report.run.settings),
        passes=[anchors.line(result) for result in report.results if result.status == "pass"],
        folded_from=FOLDED_FROM,
        longest_trace=LONGEST_TRACE,
        picture=picture_of(report.pipeline),
        sweep=sweep_of(report.facts),
        curves=curves,
        disturbed=DISTURBED,
        in_the_way=sweep_words.in_the_way(mapping(report.facts.get("loader_sweep"))),
        gpus=gpus_of(report.facts),
    )


def headline(report: Report) -> str:
    """The verdict; of a sweep what it concludes, up to its reasons: `set num_workers=8`."""
    concluded = report.verdict.reason.partition(":")[0] if sweep_words.is_sweep(report) else ""
    return concluded if 0 < len(concluded) <= LONGEST_HEADLINE else VERDICTS[report.verdict.status]


def made(report: Report) -> list[tuple[str, str]]:
    """How the report came about."""
    run = report.run
    rows = [
        ("Tool", f"{report.tool.name} {report.tool.version}"),
        ("Started", moment(run.started_at)),
        ("Took", f"{plain(run.duration_s)} s"),
        ("Profile", run.profile),
        ("Exit code", f"{report.verdict.exit_code}"),
        ("Report", run.id),
    ]
    if run.collected_s:
        longest = nlargest(3, run.collected_s.items(), key=itemgetter(1))
        rows.append(("Facts that took longest", ", ".join(f"{fact} {plain(took_s)} s" for fact, took_s in longest)))
    if report.redaction:
        rows.append(("Redacted", f"{report.redaction.replacements} replacements"))
    return rows


def lacking(unavailable: Mapping[str, Unavailable]) -> dict[tuple[str, str], list[str]]:
    """Names of the facts that could not be had, by the reason and its kind."""
    facts: dict[tuple[str, str], list[str]] = {}
    for fact, lack in unavailable.items():
        facts.setdefault((lack.detail, lack.kind), []).append(fact)
    return facts


class Card(NamedTuple):
    """A finding on the page; `anchor` is the check's, at its first place only."""

    anchor: str
    result: Result
    finding: Finding
    cause: str
    """Anchor of what explains it, where that is on the page above."""


class Line(NamedTuple):
    anchor: str
    result: Result


class Group(NamedTuple):
    """Checks that lack the same thing."""

    reason: str
    lines: list[Line]


class Anchors:
    """Gives every check an id of the page, once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def at(self, result: Result) -> str:
        """The check's id where it is shown first and is fit for one; else nothing."""
        fit = result.id.isascii() and result.id.replace("-", "").isalnum() and result.id not in PLACES | self._given
        self._given |= {result.id} if fit else set()
        return result.id if fit else ""

    def card(self, result: Result, finding: Finding) -> Card:
        cause = finding.explained_by if finding.explained_by in self._given else None
        return Card(self.at(result), result, finding, cause or "")

    def line(self, result: Result) -> Line:
        return Line(self.at(result), result)

    def group(self, reason: str, results: Iterable[Result]) -> Group:
        return Group(reason, [self.line(result) for result in results])


PLACES = frozenset(
    {
        "verdict", "summary", "pipeline", "failures", "could-not-tell", "warnings", "accepted", "skipped", "passed",
        "machine", "how-it-was-made",
    }
)  # fmt: skip
"""Anchors of the page's own sections."""


def curves(sweep: Sweep, demand: float | None) -> tuple[tuple[str, Curve], ...]:
    """The sweep for a wide window and for a telephone."""
    return ("wide", curve_of(sweep, demand, 1040, 340)), ("narrow", curve_of(sweep, demand, 360, 300))
