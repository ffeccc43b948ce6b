"""Reading what the kernel and the scheduler print. Parsers take text and give a value or raise Malformed, nothing else."""

import re
from collections.abc import Iterable

from dl_doctor.probes.shortening import beginning

ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")
"""Spaces, tabs, newlines and backslashes in a path of the mount table."""

DIGITS = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class Malformed(ValueError):
    """A text that is not what its source promises. The message quotes it."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{what}: {beginning(text, 200)!r}")


def integer(text: str) -> int:
    """A whole decimal number, spaces around it allowed (int() alone also takes `1_000` and other scripts' digits)."""
    stripped = text.strip()
    if not DIGITS.fullmatch(stripped):
        raise Malformed("not a whole number", text)
    return int(stripped)


def key_values(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in memory.stat and cpu.stat. Lines of another form are passed over."""
    values = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if DIGITS.fullmatch(number.strip()):
            values[name] = int(number)
    return values


def parse_cpu_list(text: str) -> frozenset[int]:
    """CPU numbers in the kernel's list format: `0-3,8`; an empty text is an empty set."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = integer(first), integer(last or first)
        if not 0 <= low <= high < MOST_CPUS:
            raise Malformed("not a list of CPUs", text)
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def mount_points(mountinfo: bytes) -> frozenset[bytes]:
    """The paths of a mount table, as bytes: a name on a disk may be anything."""
    fields = (line.split(b" ") for line in mountinfo.splitlines())
    return frozenset(ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), parts[4]) for parts in fields if len(parts) > 4)


MOST_CPUS = 1 << 16
"""Linux' own limit is 8192 (NR_CPUS); a list beyond this one is damaged, and not worth the memory."""

FRAME = re.compile(r'File "(.+?)", line (\d+)')
"""A line of a traceback."""

NOT_OF_THE_JOB = re.compile(r"site-packages|dist-packages|/lib/python3|/dl_doctor/|/doctor/probes/|^<")
"""In the path of a frame's file: packages, the standard library, our probes."""


def place_in(trace: str) -> str | None:
    """`/job/train.py:30`, the innermost line of a traceback that is of the job's own code; else the innermost one."""
    places = [f"{match[1]}:{match[2]}" for match in FRAME.finditer(trace)]
    return own_place_in(trace) or (places[-1] if places else None)


def own_place_in(trace: str) -> str | None:
    """The same, and None where no line is of the job's own code."""
    own = [f"{match[1]}:{match[2]}" for match in FRAME.finditer(trace) if not NOT_OF_THE_JOB.search(match[1])]
    return own[-1] if own else None


LONGEST, KEPT_AT_THE_END = 400, 150
"""Characters of a text that is shown, and how many of them are its last where it is longer: what an exception says ends there."""

LONGEST_KEPT = 10_000
"""Of a text that is kept beside its fact. More is not shown anyway."""


def shortened(text: str) -> str:
    """The beginning and the end of a text that nobody would read whole, and how much is left out between them.

    Only for showing: what is redacted later is not to be cut, see `bounded`.
    """
    if len(text) <= LONGEST:
        return text
    begin = text[: LONGEST - KEPT_AT_THE_END]
    return f"{begin} [... {len(text) - LONGEST:,} characters ...] {text[-KEPT_AT_THE_END:]}"


def bounded(text: str) -> str:
    """A text whose end may be lost, without any piece of a secret."""
    if len(text) <= LONGEST_KEPT:
        return text
    begin = beginning(text, LONGEST_KEPT)
    return f"{begin} [... {len(text) - len(begin):,} characters ...]".strip()


def series(items: Iterable[object]) -> str:
    """`1`, `1 and 2`, `1, 2 and 4`."""
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last
