"""`-- COMMAND...`: a training script is run until it iterates over a DataLoader, and that one is examined."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from dl_doctor import observing
from dl_doctor.commands.options import Seconds
from dl_doctor.guards import Begun
from dl_doctor.outcome import UNKNOWN
from dl_doctor.settings import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SEPARATOR = "--"


class TakesACommand(click.Command):
    """What stands behind `--` is a command of the user's, and goes to the parameter `command`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        command = args[at + 1 :]
        if at < len(args) and not command:
            raise click.UsageError("no command stands behind --: write it like `-- python train.py`.", ctx)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["command"] = tuple(command) or None
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), f"[{SEPARATOR} COMMAND...]"]


class CouldNotTell(click.ClickException):
    """There is nothing to examine, and so no report."""

    exit_code = UNKNOWN


def wait_option(function: Decorated) -> Decorated:
    return click.option(
        "--wait", "wait_s", type=Seconds(min=0, min_open=True), default=600.0, show_default=True, metavar="SECONDS",
        help="How long a command may take until it iterates over a DataLoader.",
    )(function)  # fmt: skip


def give_way_to_the_command(context: click.Context, given: dict[str, Any], names: Sequence[str]) -> None:
    """Options that say what a command decides: a usage error where one was typed; what files or variables say counts less."""
    for name in names if context.params.get("command") else ():
        if given.get(name) and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            said = name.upper() if name == "spec" else f"--{name}"
            raise click.UsageError(f"{said} and a command exclude each other: its loader, in its Python, is what is examined.")
        given[name] = None


@contextmanager
def examined_in(command: Sequence[str] | None, wait_s: float, settings: Settings) -> Iterator[tuple[Settings, Begun | None]]:
    """The settings, and a fork of the process that has the loader, while the command stands still. Without one, as they are."""
    if command is None:
        yield settings, None
        return
    try:
        with observing.running(command, pass_on) as started:
            told, caller = started.first_loader(wait_s)
            try:
                yield msgspec.structs.replace(settings, loader=told.place, command=tuple(command)), caller
            finally:
                caller.close()
    except observing.NotStarted as error:
        raise click.UsageError(str(error)) from None
    except observing.NoLoader as error:
        raise CouldNotTell(str(error)) from None


def pass_on(printed: bytes) -> None:
    """What the command prints, on both streams, goes to standard error."""
    with suppress(OSError):
        os.write(2, printed)
