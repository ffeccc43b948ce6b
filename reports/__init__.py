"""The renderings: one file per format, each a pure function of a Report and a Look."""

from collections.abc import Callable
from importlib import import_module

from dl_doctor.model import Report
from dl_doctor.reports.look import Look

FORMATS = {"text": ".txt", "json": ".json", "html": ".html", "markdown": ".md", "junit": ".xml", "github": None}
"""Formats by name, and the ending of a file in that format. Each is rendered by the module of its name."""

BY_NAME = {"termination-log": "termination"}
"""Names of files that say what they want: where Kubernetes looks for a container's last words."""


def renderer(name: str) -> Callable[[Report, Look], str]:
    """The `render` of a format; what it needs is imported only now."""
    render: Callable[[Report, Look], str] = import_module(f"dl_doctor.reports.{name}").render
    return render
