"""`--config` and `--no-config`: settings files give options their defaults, which click checks as if they were typed.

The command line comes first, then variables such as DL_DOCTOR_BATCH_SIZE, then the files.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from dl_doctor import output
from dl_doctor.catalogue import load
from dl_doctor.collecting import Collection
from dl_doctor.commands.options import Numbers
from dl_doctor.facts import Runtime
from dl_doctor.model import Report
from dl_doctor.settings import Settings
from dl_doctor.settings_files import OF_A_SITE, BadSettings, SettingsFile, merged, read_files, unknown
from dl_doctor.system import System

Command = TypeVar("Command", bound=Callable[..., Any])

OF_ONE_CALL = ("config", "no-config", "help", "facts", "root")
"""Options that cannot stand in a file."""

PREFIX = "DL_DOCTOR_"

NEAREST_FIRST = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP)
"""Who may have said what an option is; the last one is a file."""

GIVEN, FILES = "dl_doctor.config_options", "dl_doctor.settings_files"
"""Where click's context keeps the two options, and what was read."""


def config_options(command: Command) -> Command:
    """The two options. They are eager: click takes them before all others, in whatever order they stand."""
    for option in (
        click.option("--no-config", is_flag=True, is_eager=True, expose_value=False, callback=taken,
                     help="Read no settings file."),
        click.option("--config", metavar="FILE", type=click.Path(), is_eager=True, expose_value=False, callback=taken,
                     help="Read settings from this file.  [default: dl-doctor.toml, or pyproject.toml, here]"),
    ):  # fmt: skip
        command = option(command)
    return command


def taken(context: click.Context, option: click.Parameter, value: object) -> None:
    """Read the files when both options are known."""
    known = context.meta.setdefault(GIVEN, {})
    known[option.name] = value
    if len(known) == 2:
        read(context, **known)


def read(context: click.Context, config: str | None, *, no_config: bool) -> None:
    """Make what the files say of options their default; the rest waits for `expected_and_accepted`.

    One file is for all commands that read it: what only another one has is understood, and does nothing here.
    """
    own, of_all = options_of(context.command), options_of_all(context)
    warn_of_variables(of_all, os.environ)
    if no_config:
        if config:
            raise click.UsageError("--config and --no-config exclude each other; give one of them.")
        return
    known = {name: option for name, option in of_all.items() if name not in OF_ONE_CALL}
    try:
        files = list(read_files(config, in_a_container, output.warn))
        defaults = {
            (name, known[name].name): value_for(known_option(name, known, file), value, context, file)
            for file in files
            for name, value in file.options.items()
            if known_option(name, known, file)
        }
    except BadSettings as error:
        raise click.UsageError(str(error)) from None
    context.default_map = {called: value for (name, called), value in defaults.items() if name in own}
    context.meta[FILES] = files


def settle(context: click.Context, given: dict[str, Any], *names: str) -> None:
    """Of options that exclude each other take away what was said less near: a file's loader stands in no typed one's way.

    Args:
        context: of the command.
        given: its options, which are changed.
        names: of those that exclude each other.
    """
    said = {name: NEAREST_FIRST.index(source) for name in names if given[name] and (source := source_of(context, name))}
    for name, place in said.items():
        if place > min(said.values()):
            given[name] = None


def source_of(context: click.Context, name: str) -> ParameterSource | None:
    source = context.get_parameter_source(name)
    return source if source in NEAREST_FIRST else None


def expected_and_accepted(context: click.Context, saved: Report | None) -> dict[str, Any]:
    """What the files say that no option does, for Settings: of this node, or of the one that a saved report is about."""
    hostname = System().hostname() if saved is None else saved.machine.hostname or ""
    variables = os.environ if saved is None else output.variables_of(saved)
    return merged(context.meta.get(FILES, ()), hostname, variables.get("SLURM_JOB_PARTITION"))


def warn_of_unknown_ids(context: click.Context, ids: Iterable[str]) -> None:
    """What is accepted and is no check of this version, or of a plugin that is here, is a slip more often than not."""
    known = set(ids)
    for file in context.meta.get(FILES, ()):
        for accepted in file.accept:
            if accepted.id not in known:
                output.warn(f"{file.path}: accept: {unknown(accepted.id, known)} It accepts nothing.")


def options_of(command: click.Command) -> dict[str, click.Option]:
    """By their long names, without dashes."""
    return {parameter.opts[-1].lstrip("-"): parameter for parameter in command.params if isinstance(parameter, click.Option)}


def options_of_all(context: click.Context) -> dict[str, click.Option]:
    """Of all commands that read settings; of those that several have, this command's."""
    commands = getattr(context.find_root().command, "commands", {}).values()
    readers = [options for options in map(options_of, commands) if "config" in options]
    return {name: option for options in (*readers, options_of(context.command)) for name, option in options.items()}


def known_option(name: str, known: Mapping[str, click.Option], file: SettingsFile) -> click.Option:
    if name not in known:
        raise BadSettings(f"{file.path}: {unknown(name, [*known, *OF_A_SITE])}")
    return known[name]


def value_for(option: click.Option, value: Any, context: click.Context, file: SettingsFile) -> Any:
    """A value of the file as click's default for an option; BadSettings where the option would not take it."""
    name = option.opts[-1].lstrip("-")
    if isinstance(option.type, Numbers) and isinstance(value, list):
        value = ",".join(map(str, value))
    values = value if isinstance(value, list) and option.multiple else [value]
    if not all(isinstance(one, str | int | float) and isinstance(one, bool) == option.is_flag for one in values):
        wanted = "true or false" if option.is_flag else "a list" if option.multiple else "one value"
        raise BadSettings(f"{file.path}: {name} takes {wanted}, not {value!r}")
    if isinstance(value, float) and isinstance(option.type, click.types.IntParamType):
        raise BadSettings(f"{file.path}: {name} is a whole number, not {value!r}")
    default = values if option.multiple else value
    try:
        option.type_cast_value(context, default)
    except click.ClickException as error:
        raise BadSettings(f"{file.path}: {name}: {error.message}") from None
    return default


def warn_of_variables(known: Mapping[str, click.Option], environment: Mapping[str, str]) -> None:
    """A variable that begins as ours do and is none is a slip, or another program's: told, and nothing else."""
    names = {PREFIX + name.replace("-", "_").upper() for name in known}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in names:
            output.warn(f"{name} is set and means nothing: {unknown(name, names)}")


def in_a_container() -> bool:
    """As the report's head would say."""
    collection = Collection(load(plugins=False), Settings(), System())
    asyncio.run(collection.gather([Runtime]))
    runtime = collection.known.get(Runtime)
    return isinstance(runtime, Runtime) and runtime.view == "container"
