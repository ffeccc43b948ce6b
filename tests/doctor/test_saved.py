"""A report from a stranger is refused by its size, its depth or its sense before it costs anything."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dl_doctor.saved import BadReport, load_report, parse_report


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a JSON report"),
        (b"hello", "not a JSON report"),
        (b"{}", "format_version"),
        (b'{"format_version": "2.0"}', "has format 2.0, and this version reads 1.0"),
        (b'{"format_version": "1.0"}', "missing required field"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64 levels"),
        (b'{"format_version": "1.0", "x": "\xff"}', "not a JSON report"),
        (b" " * ((64 << 20) + 1), "larger than 64 MiB"),
        (b'{"a": 1' + b"0" * 400 + b"}", "number of more than 38 digits"),
        (b'{"a": "1' + b"0" * 400 + b'"}', "format_version"),  # in a string it is none
    ],
)
def test_what_is_refused_and_why(content: bytes, says: str) -> None:
    with pytest.raises(BadReport, match=says):
        parse_report(content, "report.json")


def test_brackets_within_strings_are_no_depth() -> None:
    with pytest.raises(BadReport, match="format_version"):
        parse_report(b'{"x": "' + b"[" * 1000 + b'\\"{"}', "report.json")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"a":"' + b'\\"' * 1_000_000, "not a JSON report"),  # a string that never ends
        (b'{"a":"' + b"x" * 20_000_000 + b'"}', "format_version"),
        (b'{"a":"' + b"\\\\" * 1_000_000 + b'", "b":' + b"[" * 64, "nested deeper"),
        (b'"' * 1_000_000, "not a JSON report"),
    ],
    ids=["escapes", "long", "backslashes", "quotes"],
)
def test_it_takes_no_longer_for_strings_that_are_made_to_hurt(content: bytes, says: str) -> None:
    begin_s = time.process_time()
    with pytest.raises(BadReport, match=says):
        parse_report(content, "report.json")

    assert time.process_time() - begin_s < 5


@pytest.mark.parametrize(
    "make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "folder", "device"]
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "report.json")

    with pytest.raises(BadReport, match="no regular file"):
        load_report(str(tmp_path / "report.json"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadReport, match="No such file"):
        load_report(str(tmp_path / "none.json"))
