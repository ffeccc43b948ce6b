"""The renderings: one file per format, each a pure function of a Report and a Look."""

from collections.abc import Callable
from importlib import import_module

from msgspec.structs import replace

from dl_doctor.model import Report, Result
from dl_doctor.reports.look import Look
from dl_doctor.text import shortened

FORMATS = {"text": ".txt", "json": ".json", "html": ".html", "markdown": ".md", "junit": ".xml", "github": None}
"""Formats by name, and the ending of a file in that format. Each is rendered by the module of its name."""

BY_NAME = {"termination-log": "termination"}
"""Names of files that say what they want: where Kubernetes looks for a container's last words."""


def renderer(name: str) -> Callable[[Report, Look], str]:
    """The `render` of a format; what it needs is imported only now. People are not shown long texts whole."""
    render: Callable[[Report, Look], str] = import_module(f"dl_doctor.reports.{name}").render
    return render if name == "json" else lambda report, look: render(readable(report), look)


def readable(report: Report) -> Report:
    """With long texts shortened, such as those of exceptions. A report is redacted before: a piece of a secret is not known."""
    return replace(report, results=tuple(map(readable_result, report.results)))


def readable_result(result: Result) -> Result:
    findings = tuple(replace(one, summary=shortened(one.summary), why=shortened(one.why)) for one in result.findings)
    reason = result.reason and replace(result.reason, detail=shortened(result.reason.detail))
    return replace(result, seen=shortened(result.seen), reason=reason, findings=findings)
