"""The report as JSON: the document that machines and maintainers keep."""

import msgspec

from dl_doctor.model import Report
from dl_doctor.reports.look import Look


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (a document has no look)
    """The whole report, indented, ending in a newline. It is UTF-8, and the same whatever the terminal can carry."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
