"""Getting a report out: to standard output whatever state that is in, and to files without harm to what is there."""

import errno
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dl_doctor.model import Report
from dl_doctor.reports import BY_NAME, FORMATS, renderer
from dl_doctor.reports.look import Look
from dl_doctor.text import mount_points

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables that number the ranks of a job; the launcher that is closest to the rank first."""

PATIENCE_S = 10.0
"""What a pipe that is full waits for its reader, where it is one that does not wait by itself (O_NONBLOCK)."""


class BadOutput(ValueError):
    """An output that cannot be written in any format; the message says what to write instead."""


def format_of(path: str) -> str:
    """The format that a file's ending stands for, `json` for a folder; BadOutput for another ending."""
    if is_folder(path):
        return "json"
    if wanted := BY_NAME.get(Path(path).name):
        return wanted
    for name, ending in FORMATS.items():
        if ending and path.lower().endswith(ending):
            return name
    known = ", ".join(filter(None, FORMATS.values()))
    raise BadOutput(f"{path!r} ends in none of {known}, and is no folder")


def is_folder(path: str) -> bool:
    """Whether it is one, or is to become one; what cannot be looked at is none."""
    return path.endswith("/") or os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises where one may not look)


@contextmanager
def reserved_for_the_report() -> Iterator[None]:
    """Standard output gets the report and nothing else: what plugins, or children of theirs, print goes to standard error."""
    try:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError, AttributeError):  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def print_text(text: str) -> None:
    """Write to standard output. Where that is closed or full, the run's verdict is still its exit code."""
    write_to(sys.stdout, text)


def print_json(text: str) -> None:
    """Write to standard output, which is UTF-8 for JSON, and for pages that say so, whatever it is for text."""
    write_to(sys.stdout, text, encoding="utf-8")


def print_report(report: Report, name: str, look: Look) -> None:
    """Write a report to standard output in the format of this name."""
    (print_text if name == "text" else print_json)(renderer(name)(report, look))


def warn(text: str) -> None:
    """Write a line to standard error, where messages go."""
    write_to(sys.stderr, f"dl-doctor: {text}\n")


def write_to(stream: Any, text: str, encoding: str | None = None) -> None:
    descriptor = 2 if stream is sys.stderr else 1
    try:
        buffer = getattr(stream, "buffer", None)
        if buffer is None:  # replaced by a test or a notebook
            stream.write(text)
            return
        stream.flush()
        write_all(buffer.fileno(), text.encode(encoding or stream.encoding or "utf-8", "backslashreplace"))
    except (OSError, ValueError, AttributeError) as error:  # closed, full, or not there at all
        silence(descriptor)
        if descriptor == 1 and not isinstance(error, BrokenPipeError):  # `| head` has seen what it wanted
            warn(f"standard output took no report: {error}")


def silence(descriptor: int) -> None:
    """Let what is still buffered go nowhere, so that Python does not complain at its end and change the exit code."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except OSError:
        pass


def save(report: Report, path: str, look: Look) -> None:
    """Write a report to a file in the format of its ending; OSError when that cannot be done.

    A regular file, or one that is not there yet, is written beside and renamed, so that there is never half a report; it is
    readable by its owner only, without a terminal's colours, and a link is replaced, not followed. Anything else (a
    bind-mounted file, a pipe, a device), and the log that Kubernetes reads last words from, is written in place.
    """
    name = format_of(path)
    text = renderer(name)(report, replace(look, color=False))
    if is_folder(path):
        Path(path).mkdir(exist_ok=True)
        path = str(Path(path) / f"{file_name(report)}.json")
    write_file(path, text.encode("utf-8", "backslashreplace"), in_place=name in BY_NAME.values())


def save_each(report: Report, paths: Iterable[str], look: Look) -> None:
    """Write a report to each of these files; one that cannot be written is told and changes nothing else."""
    for path in paths:
        try:
            save(report, path, look)
        except OSError as error:
            warn(f"could not write {path}: {error.strerror or error}")


def file_name(report: Report) -> str:
    """One name for each rank and node; of a redacted report, in which every host is host-1, by what tells machines apart."""
    node = report.machine.hostname or "unknown"
    if report.redaction is not None:
        node = f"machine-{(report.redaction.machine or report.run.id)[:12]}"
    rank = next(filter(None, map(variables_of(report).get, RANKS)), "0")
    parts = ["dl-doctor", node, f"rank{rank}"]
    return "-".join("".join(c if c.isalnum() or c in "._" else "_" for c in part) for part in parts)


def variables_of(report: Report) -> dict[str, Any]:
    """The environment of a report, which may be anybody's and hold anything."""
    environment = report.facts.get("environment")
    variables = environment.get("variables") if isinstance(environment, dict) else None
    return variables if isinstance(variables, dict) else {}


def write_file(path: str, content: bytes, *, in_place: bool = False) -> None:
    if replaceable(path) and not (in_place and os.path.isfile(path) and not os.path.islink(path)):  # noqa: PTH113, PTH114
        write_beside(path, content)
    else:
        write_and_close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY | os.O_NONBLOCK), content)


def replaceable(path: str) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    return (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)) and not os.path.ismount(path) and not bound(path)


def bound(path: str) -> bool:
    """Whether a single file is mounted there: it cannot be renamed over. (ismount compares with the folder's device only.)"""
    try:
        table = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return False
    return os.fsencode(os.path.realpath(path)) in mount_points(table)


def write_beside(path: str, content: bytes) -> None:
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        write_and_close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), content)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_and_close(descriptor: int, content: bytes) -> None:
    try:
        write_all(descriptor, content)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write until all is written: one write may take a part, or with O_NONBLOCK nothing until somebody reads."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], PATIENCE_S)[1]:
                raise TimeoutError(errno.ETIMEDOUT, f"nobody read for {PATIENCE_S:g} s") from None
