"""The command line: the commands assembled, and what becomes of an exception."""

import itertools
import os
import platform
import signal
import traceback
from types import FrameType

import click

from dl_doctor import __version__, output, settings_files
from dl_doctor.commands.check import check
from dl_doctor.commands.completion import completion
from dl_doctor.commands.diff import diff
from dl_doctor.commands.explain import explain
from dl_doctor.commands.list import list_
from dl_doctor.commands.render import render
from dl_doctor.commands.schema import schema
from dl_doctor.commands.snapshot import snapshot
from dl_doctor.commands.sweep import sweep
from dl_doctor.commands.ticket import ticket
from dl_doctor.identity import identity_of
from dl_doctor.model import Report
from dl_doctor.outcome import BUG, GO, INTERRUPTED, TERMINATED, of_a_run_without_report
from dl_doctor.system import System

OF_THE_GROUP = ("-h", "--help", "--version")


class ToCheck(click.Group):
    """`dl-doctor` alone, or with options only, is `dl-doctor check`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in OF_THE_GROUP):
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ToCheck, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dl-doctor")
def cli() -> None:
    """The doctor for the machine where a deep-learning job is about to start.

    `dl-doctor` alone is `dl-doctor check`.
    """


for command in (check, sweep, list_, explain, render, ticket, diff, snapshot, schema, completion):
    cli.add_command(command)


class Terminated(BaseException):
    """SIGTERM came."""


def run(arguments: list[str]) -> int:
    """Run the command line; gives the exit code and never raises."""
    signal.signal(signal.SIGTERM, raise_terminated)
    try:
        code = cli.main(arguments, prog_name="dl-doctor", standalone_mode=False)
    except click.ClickException as error:
        output.warn(usage(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.warn("interrupted")
        code = INTERRUPTED
    except Terminated:
        output.warn("terminated")
        code = TERMINATED
    except SystemExit as error:  # of click's completion
        return error.code if isinstance(error.code, int) else GO
    except Exception as error:  # noqa: BLE001 (whatever it is, it is our bug, and there is a log of it)
        report_bug(shareable_trace(error))
        code = BUG
    else:
        return code if isinstance(code, int) else GO
    return of_a_run_without_report(code, exit_codes_in(arguments))


def exit_codes_in(arguments: list[str]) -> str | None:
    """What `--exit-codes` says, where the command line may not even be one; or its variable; or the settings file."""
    if "--no-config" in arguments:
        return said("--exit-codes", arguments)
    return said("--exit-codes", arguments) or settings_files.exit_codes_in(said("--config", arguments))


def said(option: str, arguments: list[str]) -> str | None:
    values = [value for name, value in itertools.pairwise(arguments) if name == option]
    values += [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{option}=")]
    return values[-1] if values else os.environ.get("DL_DOCTOR_" + option.strip("-").replace("-", "_").upper())


def raise_terminated(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def usage(error: click.ClickException) -> str:
    """The message, and where help is to be had."""
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"\nSee `{error.ctx.command_path} --help`."
    return error.format_message() + hint


def shareable_trace(error: Exception) -> str:
    """The traceback, to be attached to an issue that all the world reads: without names and secrets of this machine, nor of the
    reports that were at hand where it broke.
    """
    from dl_doctor.redact import redact_text  # noqa: PLC0415 (20 ms of patterns that a run without a bug does not need)

    trace = "".join(traceback.format_exception(error))
    try:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        at_hand = [value.identity for frame in frames for value in frame.f_locals.values() if isinstance(value, Report)]
        return redact_text(trace, [identity_of(System(), {}), *at_hand])
    except Exception as another:  # noqa: BLE001 (then what broke is told without what it said)
        places = "".join(traceback.format_tb(another.__traceback__)[-1:])
        return f"{type(error).__name__}, whose text could not be redacted: {type(another).__name__}\n{places}"


def report_bug(trace: str) -> None:
    """Write what a maintainer needs to a file of its own, or where there is no place for one, to standard error."""
    import tempfile  # noqa: PLC0415 (5 ms that a run without a bug does not need)

    log = f"dl-doctor {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n{trace}"
    try:
        descriptor, path = tempfile.mkstemp(prefix="dl-doctor-bug-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(log)
    except OSError:
        output.warn(f"this is a bug in dl-doctor. Please report it with this log:\n{log}")
    else:
        last = trace.strip().splitlines()[-1]
        output.warn(f"this is a bug in dl-doctor ({last}). Please report it with the log in {path}")
