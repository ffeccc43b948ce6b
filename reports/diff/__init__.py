"""What differs between two reports: one file per format, each a pure function of a Comparison and a Look."""

from collections.abc import Callable
from importlib import import_module

from dl_doctor.comparison import Comparison
from dl_doctor.reports.look import Look

FORMATS = ("text", "json", "html")


def renderer(name: str) -> Callable[[Comparison, Look], str]:
    """The `render` of a format; what it needs is imported only now."""
    render: Callable[[Comparison, Look], str] = import_module(f"dl_doctor.reports.diff.{name}").render
    return render
