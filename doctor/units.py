"""Sizes and counts, as people write and read them."""

import re

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-z]*)", re.ASCII | re.IGNORECASE)

MULTIPLES: dict[str, int] = {
    "": 1,
    "b": 1,
    **{
        unit: factor
        for letter, factor in (("k", KIB), ("m", MIB), ("g", GIB), ("t", TIB), ("p", 1024 * TIB))
        for unit in (letter, f"{letter}ib")
    },
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)},
}
"""What a size may end in. A lone letter is binary, as docker reads it."""


def parse_size(text: str) -> int:
    """Bytes in `24MiB`, `1.5GiB`, `64m` (binary, as docker reads it), `24MB` (decimal) or `4096`; ValueError otherwise."""
    match = SIZE.fullmatch(text.strip())
    factor = MULTIPLES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size; write it like 24MiB, 1.5GiB or 25165824")
    return round(float(match[1]) * factor)


DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(us|ms|s)", re.ASCII | re.IGNORECASE)
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_duration(text: str) -> float:
    """Seconds in `35ms`, `0.2s` or `150us`; ValueError otherwise, and of 0. Without a unit, 35 would be anybody's guess."""
    match = DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * SECONDS[match[2].lower()] if match else 0.0
    if seconds <= 0:
        raise ValueError(f"{text!r} is no time; write it like 35ms, 0.2s or 150us")
    return seconds


def binary_size(size: int, *, short: bool = False) -> str:
    """`64 MiB`, `34.2 MiB`, `1.5 GiB`; short, as docker takes it and only for whole numbers of a unit: `64m`, `1g`."""
    if short:
        return next(f"{size // factor}{letter}" for letter, factor in SHORT if size % factor == 0)
    if abs(size) < KIB:
        return f"{size} bytes"
    name, factor = next((name, factor) for name, factor in LONG if abs(size) >= factor)
    return f"{plain(size / factor)} {name}"


SHORT = (("g", GIB), ("m", MIB), ("k", KIB), ("b", 1))
LONG = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))


def plain(number: float) -> str:
    """A number as people write it: `8`, `0.5`, `5.33`, `34.2`; two decimals below ten, one above."""
    rounded = round(number, 2 if abs(number) < 10 else 1)
    return f"{rounded:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """`45 %`, of a share between 0 and 1."""
    return f"{100 * share:.0f} %"


def count(number: float, noun: str) -> str:
    """`1 worker`, `8 workers`, `0.5 CPUs`."""
    return f"{plain(number)} {noun}" if number == 1 else f"{plain(number)} {noun}s"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`, `38th`."""
    teens = 10 <= number % 100 < 20
    return f"{number:,}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def round_up(size: int) -> int:
    """A size that people would write, at least `size` bytes: a power of two up to 1 GiB, whole GiB beyond."""
    if size > GIB:
        return -(-size // GIB) * GIB
    return 1 << max(size - 1, 0).bit_length()
