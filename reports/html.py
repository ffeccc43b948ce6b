"""The report as one HTML file that needs no script and no network: what a manager opens, prints and sends on."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dl_doctor.model import Finding, Report, Result, Unavailable
from dl_doctor.reports import order
from dl_doctor.reports.look import (
    RISKS,
    SYMBOLS,
    VERDICTS,
    Look,
    amount,
    asked,
    environment_words,
    machine_facts,
    machine_words,
    printable,
)
from dl_doctor.reports.picture import Curve, Sweep, curve_of, picture_of, reaches_of, sweep_of
from dl_doctor.units import plain

LONGEST_TEXT = 2_000
LONGEST_NAME = 200
"""Characters; what is longer is no text for people, and the JSON report has it."""

LONGEST_TRACE = 20_000
"""Characters from its end, which says what happened."""

FOLDED_FROM = 9
"""Lists that are longer are folded."""


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (a page looks the same everywhere)
    """The page. Every text that it shows is escaped and printable: any may be a stranger's."""
    environment = Environment(
        loader=PackageLoader("dl_doctor.reports", "templates"),
        autoescape=True,  # always: jinja2's own choice goes by the file's ending
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {filter_.__name__: filter_ for filter_ in FILTERS}
    style = environment.get_template("style.css").render().strip()
    anchors = Anchors()
    return environment.get_template("page.html.j2").render(
        report=report,
        style=Markup(style),  # noqa: S704 (ours)
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        symbols=SYMBOLS,
        risks=RISKS,
        verdict=VERDICTS[report.verdict.status],
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
        reaches=reaches_of(report.facts),
    )


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
    if report.redaction:
        rows.append(("Redacted", f"{report.redaction.replacements} replacements"))
    return rows


def lacking(unavailable: Mapping[str, Unavailable]) -> dict[tuple[str, str], list[str]]:
    """Names of the facts that could not be had, by the reason and its kind."""
    facts: dict[tuple[str, str], list[str]] = {}
    for fact, lack in unavailable.items():
        facts.setdefault((lack.detail, lack.kind), []).append(fact)
    return facts


def shown(value: Any) -> Any:
    """What a template's expression becomes before it is escaped: printable, and of a length that people read."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) or not isinstance(value, str) else shortened(value, LONGEST_TEXT)


def name(text: str | None) -> str:
    """A name in a place that is too small for a text."""
    return shortened(text or "", LONGEST_NAME)


def shortened(text: str, most: int) -> str:
    rest = len(text) - most
    return printable(text) if rest <= 0 else f"{printable(text[:most])}… ({rest} more characters)"


def fitted(text: str, most: float) -> str:
    """A name where there is room for `most` characters."""
    text = printable(text[:LONGEST_NAME])
    return text if len(text) <= most else text[: max(int(most) - 1, 1)] + "…"


def sentence(text: str) -> str:
    """With a full stop."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def opening(text: str) -> str:
    """A sentence with a capital letter, where it begins with a word and not with a name such as shm-size or torch.cuda."""
    word = text.partition(" ")[0]
    return sentence(text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text)


def lines(texts: Iterable[str]) -> Markup:
    """Several lines, for a <pre>."""
    return Markup("\n").join(map(shown, texts))


def moment(text: str) -> str:
    """`2026-01-01 12:30 UTC` of an RFC 3339 time; what is none stays as it is."""
    found = re.match(r"([0-9-]{10})T([0-9:]{5})[0-9:.]*Z$", text)
    return f"{found[1]} {found[2]} UTC" if found else name(text)


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


FILTERS = (amount, plain, name, fitted, lines, sentence, opening, moment)
"""What templates call by name."""


def curves(sweep: Sweep, demand: float | None) -> tuple[tuple[str, Curve], ...]:
    """The sweep for a wide window and for a telephone."""
    return ("wide", curve_of(sweep, demand, 1040, 340)), ("narrow", curve_of(sweep, demand, 360, 300))
