"""What standard output can carry: colour, symbols, columns."""

import os
import shutil
from collections.abc import Mapping
from typing import Literal, TextIO

SYMBOLS = "✓✗–·×≥→…"
"""What the text report is made of, beyond ASCII."""

WIDEST = 120
"""Columns beyond which lines are hard to read."""


def use_color(choice: Literal["auto", "always", "never"], stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """--color, then NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM=dumb, CLICOLOR=0, then whether it is a terminal.

    See no-color.org and bixense.com/clicolors; click honours none of them.
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") != "0" or environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return environ.get("TERM") != "dumb" and environ.get("CLICOLOR") != "0" and is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it was closed
        return False


def carries_symbols(stream: TextIO | None) -> bool:
    try:
        SYMBOLS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def columns(stream: TextIO | None) -> int:
    """The terminal's width up to WIDEST; 80 where there is no terminal."""
    if not is_terminal(stream) and "COLUMNS" not in os.environ:
        return 80
    return max(40, min(shutil.get_terminal_size().columns, WIDEST))
