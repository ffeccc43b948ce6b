"""Colour: the option, then the variables in their agreed order, then whether it is a terminal."""

import io
from typing import Any

import pytest

from dl_doctor.terminal import carries_symbols, use_color


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "terminal", "environ", "color"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),  # an empty value is none
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"CLICOLOR": "0"}, False),
    ],
)
def test_color(choice: Any, terminal: bool, environ: dict[str, str], color: bool) -> None:
    stream = Terminal() if terminal else io.StringIO()

    assert use_color(choice, stream, environ) is color


def test_a_closed_or_missing_stream_is_no_terminal() -> None:
    closed = Terminal()
    closed.close()

    assert not use_color("auto", None, {})
    assert not carries_symbols(None)
    assert use_color("auto", closed, {"FORCE_COLOR": "1"})
