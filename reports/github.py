"""The report for GitHub Actions: workflow commands, which show findings as annotations of the run, and a readable rest."""

from collections.abc import Iterator

from dl_doctor.model import Level, Report
from dl_doctor.reports import order
from dl_doctor.reports.lines import of_finding, verdict
from dl_doctor.reports.look import Look, harmless

COMMANDS: dict[Level, str] = {"fail": "error", "warn": "warning", "note": "notice"}
"""GitHub's word for each level."""

ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""How a command's text and its properties are written; GitHub's toolkit (packages/core/src/command.ts) has the same."""


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (an annotation has no look)
    """A line for each finding that counts and each check that could not tell, worst first, and the verdict."""
    return "\n".join(lines(harmless(report))) + "\n"


def lines(report: Report) -> Iterator[str]:
    yield from annotations(report, "fail")
    for detail, results in order.by_reason(report.results, "error").items():
        yield command("warning", f"{', '.join(result.id for result in results)} could not tell", detail)
    yield from annotations(report, "warn")
    yield verdict(report)


def annotations(report: Report, level: Level) -> Iterator[str]:
    for result, finding in order.troubles(report.results, level):
        yield command(COMMANDS[finding.level], result.id, "\n".join(of_finding(finding)))


def command(name: str, title: str, text: str) -> str:
    return f"::{name} title={title.translate(IN_PROPERTIES)}::{text.translate(ESCAPES)}"
