"""Reading a report that somebody sends: without trust in its size, its depth or its sense."""

import re
import stat
import sys
from pathlib import Path

import msgspec

from dl_doctor.model import FORMAT_VERSION, Report

LARGEST_BYTES = 64 << 20
DEEPEST = 64

STRING_OR_BRACKET = re.compile(rb'"[^"]*"?|[\[\]{}]')
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


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
    if too_deep(content):
        raise BadReport(f"{name} is nested deeper than {DEEPEST} levels; a report has about ten")
    try:
        head = msgspec.json.decode(content, type=Head)
        if head.format_version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
            raise BadReport(f"{name} has format {head.format_version}, and this version reads {FORMAT_VERSION}")
        return msgspec.json.decode(content, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadReport(f"{name} is not a JSON report of dl-doctor: {error}") from None


class Head(msgspec.Struct):
    """What is read first: whether the rest can be understood."""

    format_version: str


def too_deep(content: bytes) -> bool:
    """Whether brackets lie too deep in each other; those in strings do not count. Linear, whatever the content."""
    bare = content.replace(rb"\\", b"").replace(rb"\"", b"")  # so that each quote begins or ends a string
    depth = 0
    for found in STRING_OR_BRACKET.finditer(bare):
        depth += STEPS.get(bare[found.start()], 0)
        if depth > DEEPEST:
            return True
    return False
