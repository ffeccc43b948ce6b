"""`dl-doctor check`: collect, judge, report."""

from typing import Any

import click

from dl_doctor import output
from dl_doctor.catalogue import Catalogue, load
from dl_doctor.commands import progress
from dl_doctor.commands.configuration import config_options, expected_and_accepted, settle, warn_of_unknown_ids
from dl_doctor.commands.observed import TakesACommand, examined_in, give_way_to_the_command, wait_option
from dl_doctor.commands.options import (
    Seconds,
    Size,
    Spec,
    completed_ids,
    completed_names,
    known_names,
    look_of,
    look_options,
    split_names,
    taken,
)
from dl_doctor.commands.sharing import give
from dl_doctor.engine import examine, selected
from dl_doctor.model import PROFILES, Report
from dl_doctor.reports import renderer
from dl_doctor.saved import BadReport, load_report
from dl_doctor.settings import MOST_WORKERS, RUNTIMES, Settings
from dl_doctor.system import System

COUNT = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)

EXAMINED = ("dataset", "loader", "example")
"""Options that name what is examined; each excludes the others."""

DECIDED_BY_A_COMMAND = (*EXAMINED, "python", "facts", "root")


@click.command(cls=TakesACommand, context_settings={"auto_envvar_prefix": "DL_DOCTOR"})
@click.option("--dataset", type=Spec(), metavar="SPEC", help="Examine this one: pkg.module:name or file.py:name.")
@click.option("--loader", type=Spec(), metavar="SPEC", help="The same for a DataLoader.")
@click.option("--example", is_flag=True, default=None, help="Examine the small image dataset that comes with dl-doctor.")
@click.option("--batch-size", type=POSITIVE, help="Samples in a batch.")
@click.option("--num-workers", type=click.IntRange(0, MOST_WORKERS), help="Worker processes of the DataLoader, for each rank.")
@click.option("--prefetch-factor", type=POSITIVE, help="Batches that a worker loads ahead.  [PyTorch's default: 2]")
@click.option("--start-method", type=click.Choice(["fork", "spawn", "forkserver"]), help="How workers are started.")
@click.option("--pin-memory/--no-pin-memory", default=None, help="Whether the DataLoader pins its batches.")
@click.option("--batch-bytes", type=Size(), metavar="SIZE", help="What one collated batch takes, such as 24MiB.")
@click.option("--data", multiple=True, metavar="PATH", help="Where the training data lies.  [default: not known]")
@click.option("--runtime", type=click.Choice(RUNTIMES), help="What fixes are worded for, instead of what is detected.")
@click.option("--python", metavar="PATH", help="The interpreter whose environment is examined.")
@click.option("--expect-gpus", type=COUNT, metavar="N", help="Fewer GPUs than this are a failure.")
@click.option(
    "--require",
    multiple=True,
    metavar="ID",
    shell_complete=completed_ids,
    help="Not having been able to tell by this check is exit 3.",
)
@click.option(
    "-s", "--select", multiple=True, metavar="NAME", shell_complete=completed_names, help="Only these checks, by id or area."
)
@click.option(
    "-i", "--ignore", multiple=True, metavar="NAME", shell_complete=completed_names, help="Not these checks, by id or area."
)
@click.option("--scope", type=click.Choice(["node", "job", "all"]),
              help="What belongs to the machine, or to this job.  [default: all; in a prolog of Slurm's, node]")  # fmt: skip
@click.option("--profile", type=click.Choice(PROFILES), help="How far to look.  [default: default]")
@click.option("--fail-on", type=click.Choice(["fail", "warn", "never"]), help="What exits 1.  [default: fail]")
@click.option("--exit-codes", type=click.Choice(["gate", "prolog", "nagios"]),
              help="For whom: a job script, a Slurm prolog, a monitoring system.  [default: gate]")  # fmt: skip
@click.option("--timeout", "timeout_s", type=Seconds(min=0, min_open=True), metavar="SECONDS",
              help="What does not fit is not judged.  [default: 60, 5 for each GPU, 60 for a dataset, 55 if deep]")  # fmt: skip
@wait_option
@click.option("--facts", metavar="REPORT", type=click.Path(), help="Judge the facts of a saved report.")
@click.option("--root", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Read the host mounted here.")
@click.option("--no-plugins", is_flag=True, help="Only the checks that come with dl-doctor.")
@look_options
@config_options
@click.pass_context
def check(context: click.Context, /, **given: Any) -> None:
    """Say whether a training job would break or crawl here, why, and what mends it.

    A COMMAND, such as `-- python train.py`, is run until it iterates over a DataLoader, which is examined; then it is ended.

    Exits 0 to go, 1 not to start here, 3 when it could not tell; `dl-doctor explain 3` says more.
    """
    look = look_of(**taken(given, "quiet", "verbose", "color", "only_ascii"))
    format_, outputs, redacted = taken(given, "format_", "outputs", "redacted").values()
    report = examined(context, given, format_)
    give(report, format_, outputs, look, redacted=redacted)
    context.exit(report.verdict.exit_code)


def examined(context: click.Context, given: dict[str, Any], format_: str, also: tuple[type, ...] = ()) -> Report:
    """The report that these options ask for; a usage error where they make no sense.

    Args:
        context: of the command, which may have read settings files.
        given: the options, without those that say how a report is shown.
        format_: what it will be rendered in; it is made ready meanwhile.
        also: facts that are wanted whatever is checked.
    """
    command, wait_s = given.pop("command", None), given.pop("wait_s")
    give_way_to_the_command(context, given, DECIDED_BY_A_COMMAND)
    settle(context, given, "facts", *EXAMINED)
    if given["profile"] == "quick":
        settle(context, given, "profile", *EXAMINED)
    if command and given["profile"] == "quick":
        raise click.UsageError("a command needs --profile default: the quick one runs nothing of the job's.")
    facts, root, no_plugins = taken(given, "facts", "root", "no_plugins").values()
    if facts and root:
        raise click.UsageError("--facts and --root exclude each other: one judges a saved report, the other looks.")
    if sum(bool(given[name]) for name in EXAMINED) > 1:
        raise click.UsageError("--dataset, --loader and --example exclude each other; give one of them.")
    refuse_what_is_not_examined(given, facts)
    with output.reserved_for_the_report():
        catalogue = load(plugins=not no_plugins)
    try:
        saved = load_report(facts) if facts else None
    except BadReport as error:
        raise click.UsageError(str(error)) from None
    warn_of_unknown_ids(context, catalogue.checks)
    settings = settings_of({**given, **expected_and_accepted(context, saved)}, catalogue)
    with (
        output.reserved_for_the_report(),
        examined_in(command, wait_s, settings) as (settings, caller),
        progress.shown(lambda: renderer(format_)) as watcher,
    ):
        system = System(root or "/", caller.variables if caller else None)
        return examine(catalogue, settings, system, saved, watcher=watcher, also=also, caller=caller)


def refuse_what_is_not_examined(given: dict[str, Any], facts: str | None) -> None:
    """A usage error where a dataset is named that this run would not look at."""
    named = next((name for name in EXAMINED if given[name]), None)
    if named and facts:
        raise click.UsageError(f"--{named} and --facts exclude each other: a saved report's dataset is not here.")
    if named and given["profile"] == "quick":
        raise click.UsageError(f"--{named} needs --profile default: the quick one runs nothing of the job's.")


def settings_of(given: dict[str, Any], catalogue: Catalogue) -> Settings:
    """What was said on the command line; names of checks are known, or it is a usage error."""
    ids = set(catalogue.checks) | {broken.distribution for broken in catalogue.broken}
    data = given.pop("data")
    select, ignore, require = (split_names(given.pop(name)) for name in ("select", "ignore", "require"))
    settings = Settings(
        **given,
        data=data or None,
        select=known_names("--select", select, ids | set(catalogue.areas)),
        ignore=known_names("--ignore", ignore, ids | set(catalogue.areas)),
        require=known_names("--require", require, ids, areas=catalogue.areas),
    )
    run = {check.id for check in selected(catalogue, settings, settings.scope or "all")}
    left_out = sorted(set(require) - run - {broken.distribution for broken in catalogue.broken})
    if left_out:
        raise click.UsageError(f"--require {left_out[0]}: it is left out by --select, --ignore or --scope; drop one of them.")
    return settings
