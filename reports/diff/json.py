"""The difference as JSON."""

import msgspec

from dl_doctor.comparison import Comparison
from dl_doctor.reports.look import Look


def render(comparison: Comparison, look: Look) -> str:  # noqa: ARG001 (a document has no look)
    """The whole document, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2).decode() + "\n"
