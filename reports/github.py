"""The report for GitHub Actions: workflow commands, which show findings as annotations of the run, and a readable rest."""

from collections.abc import Iterator

from dl_doctor.model import Finding, Report
from dl_doctor.reports.look import Look, as_lines, harmless
from dl_doctor.reports.words import verdict_in_words

COMMANDS = {"fail": "error", "warn": "warning", "note": "notice"}
"""GitHub's word for each level."""

ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""How a command's text and its properties are written; GitHub's toolkit (packages/core/src/command.ts) has the same."""


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (an annotation has no look)
    """A line for each finding that counts and each check that could not tell, worst first, and the verdict."""
    return "\n".join(lines(harmless(report))) + "\n"


def lines(report: Report) -> Iterator[str]:
    for level in ("fail", "warn"):
        for result in report.results:
            for finding in result.findings:
                if finding.level == level and finding.accepted is None:
                    yield command(COMMANDS[level], f"{result.id}: {finding.summary}", "\n".join(as_lines(finding)[1:]) or finding.summary)
        if level == "fail":
            for result in report.results:
                if result.status == "error" and result.reason:
                    yield command("warning", f"{result.id} could not tell", result.reason.detail)
    yield verdict_in_words(report)


def command(name: str, title: str, text: str) -> str:
    return f"::{name} title={title.translate(IN_PROPERTIES)}::{text.translate(ESCAPES)}"
