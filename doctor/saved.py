"""Reading a report that somebody sends: without trust in its size, its depth or its sense."""

import re
import stat
import sys
from pathlib import Path

import msgspec

from dl_doctor.model import FORMAT_VERSION, Identity, Report
from dl_doctor.settings import Settings

LARGEST_BYTES = 64 << 20
DEEPEST = 64

MOST_VALUES = 1_000_000
"""Numbers, texts, lists and objects together; a report of a large node has 20,000. A list takes 20 times as much of memory as of
the file."""

MOST_SHOWN_BYTES = 2 << 20
"""Of what is shown, as JSON: all but the facts and the names. A report has 100 KiB of it; so much takes seconds to lay out."""

MOST_DIGITS = 38
"""Beyond that there is nothing to count, and numbers do not fit into a float."""

WORTH_A_LOOK = re.compile(rb'"[^"]*"?|[\[\]{}]|[0-9]{%d}' % (MOST_DIGITS + 1))
"""Strings, so that what they hold is passed over, brackets, and digits that are too many."""

STEPS = {ord('"'): 0, ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class BadReport(ValueError):
    """A file that is no report we can read; the message says why."""


def load_report(path: str) -> Report:
    """The report in a JSON file, or in standard input for `-`; BadReport for anything else.

    A pipe or a device is not opened: nobody knows whether it would ever end.
    """
    try:
        if path != "-" and not stat.S_ISREG(Path(path).stat().st_mode):
            raise BadReport(f"{path} is no regular file; what comes from a pipe is read from standard input, with -")
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise BadReport(f"{path}: {error.strerror}") from None
    return parse_report(content, path)


def parse_report(content: bytes, name: str) -> Report:
    if len(content) > LARGEST_BYTES:
        raise BadReport(f"{name} is larger than {LARGEST_BYTES >> 20} MiB; a report has a few hundred KiB")
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise BadReport(f"{name} holds more than a million values; a report has a few thousand")
    if wrong := monstrous(content):
        raise BadReport(f"{name} {wrong}")
    try:
        head = msgspec.json.decode(content, type=Head)
        if head.format_version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
            raise BadReport(f"{name} has format {head.format_version}, and this version reads {FORMAT_VERSION}")
        report = msgspec.json.decode(content, type=Report)
        settings_of(report)
        shown = len(msgspec.json.encode(msgspec.structs.replace(report, facts={}, unavailable={}, identity=Identity())))
        if shown > MOST_SHOWN_BYTES:
            raise BadReport(f"{name} tells {shown >> 20} MiB of results; a report tells about 100 KiB")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadReport(f"{name} is not a JSON report of dl-doctor: {error}") from None
    return report


def settings_of(report: Report) -> Settings:
    """What the report was made with; msgspec.ValidationError, with the name of the field, where it makes no sense."""
    return msgspec.convert({"settings": report.run.settings}, Run, strict=False).settings


class Run(msgspec.Struct):
    """Around the settings, so that an error names their place."""

    settings: Settings


class Head(msgspec.Struct):
    """What is read first: whether the rest can be understood."""

    format_version: str


def monstrous(content: bytes) -> str:
    """What makes it too much for a reader, in words: its depth, or a number. Linear, whatever its strings hold."""
    bare = content.replace(rb"\\", b"").replace(rb"\"", b"")  # so that each quote begins or ends a string
    depth = 0
    for found in WORTH_A_LOOK.finditer(bare):
        step = STEPS.get(bare[found.start()])
        if step is None:
            return f"holds a number of more than {MOST_DIGITS} digits"
        depth += step
        if depth > DEEPEST:
            return f"is nested deeper than {DEEPEST} levels; a report has about ten"
    return ""
