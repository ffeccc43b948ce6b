"""Options that several commands share, and values that click has no type for."""

import difflib
import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

import click

from dl_doctor.catalogue import load
from dl_doctor.output import BadOutput, format_of
from dl_doctor.reports import FORMATS
from dl_doctor.reports.look import Look
from dl_doctor.terminal import carries_symbols, columns, use_color
from dl_doctor.units import parse_duration, parse_size

Command = TypeVar("Command", bound=Callable[..., Any])


class Size(click.ParamType[int]):
    """Bytes, written like 24MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType[float]):
    """Seconds, written like 35ms."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them."""

    name = "list"

    def __init__(self, most: int) -> None:
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdecimal() and int(part) <= self.most for part in parts):
            self.fail(f"{value!r} is no list of numbers up to {self.most}; write it like 0,2,4,8", param, ctx)
        return tuple(dict.fromkeys(map(int, parts)))


class Spec(click.ParamType[str]):
    """What names an object in a module or a file."""

    name = "spec"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        place, colon, attribute = str(value).rpartition(":")
        if not (colon and place and all(map(str.isidentifier, attribute.split(".")))):
            self.fail(f"{value!r} names no object; write it like package.module:name or path/train.py:make_loader", param, ctx)
        return str(value)


class Seconds(click.FloatRange):
    """A finite number of seconds."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is no number of seconds; write it like 30 or 2.5", param, ctx)
        return seconds


class Output(click.ParamType[str]):
    """A file whose ending names its format, or a folder; refused before anything runs."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            format_of(str(value))
        except BadOutput as error:
            self.fail(str(error), param, ctx)
        return str(value)


def look_options(command: Command) -> Command:
    """How a report is shown, and where it is written."""
    for option in reversed(
        [
            click.option("-f", "--format", "format_", type=click.Choice(list(FORMATS)), default="text", show_default=True,
                         help="What standard output gets."),
            click.option("-o", "--output", "outputs", type=Output(), multiple=True, metavar="PATH",
                         help="Also write a file; its ending names the format. In a folder: one JSON for each rank."),
            click.option("-q", "--quiet", is_flag=True, help="Findings and verdict only; one line when all is well."),
            click.option("-v", "--verbose", is_flag=True, help="Everything, with evidence, timings and traces."),
            click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
                         help="NO_COLOR, FORCE_COLOR, CLICOLOR and TERM=dumb are honoured."),
            click.option("--ascii", "only_ascii", is_flag=True, help="No symbols beyond ASCII."),
            click.option("--redact", "redacted", is_flag=True, help="Replace names and secrets, so that it can be shared."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def look_of(*, quiet: bool, verbose: bool, color: Literal["auto", "always", "never"], only_ascii: bool) -> Look:
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other; give one of them.")
    return Look(
        color=use_color(color, sys.stdout, os.environ),
        ascii=only_ascii or not carries_symbols(sys.stdout),
        width=columns(sys.stdout),
        detail="quiet" if quiet else "full" if verbose else "normal",
    )


def completed_ids(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Ids of checks, for a shell that completes."""
    return [name for name in load(plugins=True).checks if name.startswith(begun)]


def completed_names(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Ids and areas."""
    catalogue = load(plugins=True)
    return [name for name in (*catalogue.areas, *catalogue.checks) if name.startswith(begun)]


def taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Take these out of the options."""
    return {name: given.pop(name) for name in names}


def split_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one or with commas between them."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def known_names(option: str, names: tuple[str, ...], known: Iterable[str], areas: Iterable[str] = ()) -> tuple[str, ...] | None:
    """The names, or None where none was given; a usage error with a suggestion for one that is unknown.

    Args:
        option: what they were given to.
        names: as they were given.
        known: those that there are.
        areas: names of areas, where only single checks are meant.
    """
    known = sorted(known)
    for name in names:
        if name in areas and name not in known:
            raise click.UsageError(f"{option}: {name!r} is an area; name a check of it. `dl-doctor list` shows them.")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]!r}?" if close else "`dl-doctor list` shows what there is."
            raise click.UsageError(f"{option}: there is no {name!r}. {hint}")
    return names or None
