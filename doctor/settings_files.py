"""Settings files: which ones count, and what they say.

/etc/dl-doctor.toml says what a site expects and accepts. The job's own file comes on top: the one that is named, else
dl-doctor.toml, else [tool.dl-doctor] in pyproject.toml, both in the working directory.
"""

import difflib
import fnmatch
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from dl_doctor.settings import Accepted, Expect
from dl_doctor.units import parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SITE = "/etc/dl-doctor.toml"
OWN = "dl-doctor.toml"
PROJECT = "pyproject.toml"

LARGEST_BYTES = 1 << 20
"""Of a file that somebody has written by hand."""

OF_A_SITE = ("expect", "accept")
"""The tables that are no options; /etc may hold nothing else, because options are the job's."""


class BadSettings(ValueError):
    """A file that cannot be used; the message names it, what is wrong and what to write instead."""


class ExpectOn(Expect, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is expected of some nodes: all that is named has to fit. It comes before what is said for all."""

    host: str | None = None
    """A pattern of names, such as `gpu-*`; of a full or a short name."""

    partition: str | None = None
    """A pattern, too, of a partition of Slurm's."""

    def is_meant(self, hostname: str, partition: str | None) -> bool:
        names = (hostname, hostname.partition(".")[0])
        by_host = self.host is None or any(fnmatch.fnmatchcase(name, self.host) for name in names)
        by_partition = self.partition is None or fnmatch.fnmatchcase(partition or "", self.partition)
        return by_host and by_partition


class Expectations(Expect, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[expect] as it stands in a file, with [[expect.on]] for some nodes."""

    on: tuple[ExpectOn, ...] = ()


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one file says."""

    path: str
    options: dict[str, Any]
    """By the option's long name, without its dashes."""

    expect: Expectations | None
    accept: tuple[Accepted, ...]


def read_files(named: str | None, in_a_container: Callable[[], bool], warn: Callable[[str], None]) -> Iterator[SettingsFile]:
    """The site's file and the job's, as far as they are there.

    Args:
        named: the job's file, where it was named; BadSettings if it is not there.
        in_a_container: whether root here is nobody's root outside; asked only where that decides.
        warn: is told of a file that does not count, and why.
    """
    if os.path.lexists(SITE):
        site = understood(SITE, table_of(SITE))
        if site.options:
            raise BadSettings(
                f"{SITE}: {next(iter(site.options))}: only [expect] and [[accept]] can be there; options are the job's"
            )
        yield site
    if named is not None:
        yield understood(named, own_table(named) or {})
        return
    here = working_directory()
    for name in (OWN, PROJECT) if here else ():
        path = os.path.join(here, name)  # noqa: PTH118
        if not os.path.isfile(path):  # noqa: PTH113
            continue
        doubt = distrust(path)
        if doubt and not in_a_container():
            if name == OWN or b"dl-doctor" in content_of(path):
                warn(f"{path} is ignored: {doubt}. Name it with --config, if it is to count.")
            continue
        if name == PROJECT and b"dl-doctor" not in content_of(path):
            continue  # whatever it says, and however it is written
        table = own_table(path)
        if table is not None:
            yield understood(path, table)
            return


def exit_codes_in(named: str | None) -> str | None:
    """What the job's file says of `exit-codes`, where the run has failed before all of it was understood."""
    here = working_directory()
    for path in (named,) if named else (os.path.join(here, OWN), os.path.join(here, PROJECT)):  # noqa: PTH118
        try:
            said = (own_table(path) or {}).get("exit-codes") if named or not distrust(path) else None
        except (BadSettings, OSError):
            continue
        if isinstance(said, str):
            return said
    return None


def working_directory() -> str:
    """Empty where it was deleted, or nobody may know it."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""


def distrust(path: str) -> str:
    """Why a file of the working directory is none that root should obey, in words; empty for others than root."""
    if os.geteuid() != 0:
        return ""
    for place in (path, os.path.dirname(path)):  # noqa: PTH120
        found = Path(place).stat()
        if found.st_uid != 0:
            return f"this is root, and {place} belongs to another user (uid {found.st_uid})"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
            return f"this is root, and others may write to {place}"
    return ""


def own_table(path: str) -> dict[str, Any] | None:
    """What a job's file says of us; None for a pyproject.toml that says nothing."""
    table = table_of(path)
    if PurePosixPath(path).name != PROJECT:
        return table
    tool = table.get("tool")
    ours: dict[str, Any] | None = tool.get("dl-doctor") if isinstance(tool, dict) else None
    return ours


def table_of(path: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(content_of(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSettings(f"{path} is no TOML: {error}") from None
    return table


def content_of(path: str) -> bytes:
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise BadSettings(f"{path} is no regular file")
        content = Path(path).read_bytes()
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}") from None
    if len(content) > LARGEST_BYTES:
        raise BadSettings(f"{path} is larger than {LARGEST_BYTES >> 20} MiB: that is no settings file")
    return content


def understood(path: str, table: Any) -> SettingsFile:
    if not isinstance(table, dict):
        raise BadSettings(f"{path}: tool.dl-doctor is no table")
    try:
        return SettingsFile(
            path=path,
            options={name: value for name, value in table.items() if name not in OF_A_SITE},
            expect=expectations(table["expect"]) if "expect" in table else None,
            accept=tuple(map(acceptance, listed(table.get("accept", []), "accept"))),
        )
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from None


def expectations(table: Any) -> Expectations:
    table = renamed(table, "expect", Expectations)
    table["on"] = [renamed(one, "expect.on", ExpectOn) for one in listed(table.get("on", []), "expect.on")]
    expect: Expectations = converted(table, Expectations, "expect")
    for one in (expect, *expect.on):
        for place, size in (one.free_space or {}).items():
            if not place.startswith("/"):
                raise BadSettings(f"expect.free-space: {place!r} is no absolute path")
            try:
                parse_size(str(size))
            except ValueError as error:
                raise BadSettings(f"expect.free-space: {place}: {error}") from None
    return expect


def acceptance(entry: Any) -> Accepted:
    table = renamed(entry, "accept", Accepted)
    if not isinstance(table.get("reason"), str) or not table["reason"].strip():
        raise BadSettings(f'accept: {table.get("id", "an entry")} needs a reason: write reason = "..."')
    if "until" in table:
        table["until"] = day(table["until"])
    accepted: Accepted = converted(table, Accepted, "accept")
    return accepted


def day(value: Any) -> str:
    """A date as TOML has it, or in quotes."""
    try:
        if date.fromisoformat(str(value)).isoformat() != str(value):
            raise ValueError
    except ValueError:
        raise BadSettings(f"accept: until: {value!r} is no date; write it like 2027-01-31") from None
    return str(value)


def listed(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadSettings(f"{place} is a list of tables: write [[{place}]]")
    return value


def renamed(table: Any, place: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """With the names of `kind`, which are written with dashes in a file."""
    if not isinstance(table, dict):
        raise BadSettings(f"{place} is a table: write [{place}]")
    known = {name.replace("_", "-"): name for name in kind.__struct_fields__}
    for name in table:
        if name not in known:
            raise BadSettings(f"{place}: {unknown(name, known)}")
    return {known[name]: value for name, value in table.items()}


def converted(table: dict[str, Any], kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{place}: {error}".replace("_", "-")) from None


def unknown(name: str, known: Iterable[str]) -> str:
    """What to write instead of a key that there is not."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"there is no {name!r}. " + (f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(known)}.")


def merged(files: Iterable[SettingsFile], hostname: str, partition: str | None) -> dict[str, Any]:
    """What all files expect of this node and accept, as Settings has it. Of two that say the same, the one that comes last."""
    files = tuple(files)
    said: list[Expect] = []
    for file in files:
        if file.expect is not None:
            said += [file.expect, *(on for on in file.expect.on if on.is_meant(hostname, partition))]
    accept = tuple(one for file in files for one in file.accept)
    return {"expect": functools.reduce(over, said, Expect()) if said else None, "accept": accept or None}


def over(far: Expect, near: Expect) -> Expect:
    """The nearer one where it says something; of paths, each."""
    said = {name: value for name in Expect.__struct_fields__ if (value := getattr(near, name)) is not None}
    if near.free_space is not None:
        said["free_space"] = {**(far.free_space or {}), **near.free_space}
    return msgspec.structs.replace(far, **said)
