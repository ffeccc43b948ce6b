"""`dl-doctor sweep`: measure the input path, and say what to set."""

from typing import Any

import click

from dl_doctor import output
from dl_doctor.catalogue import load
from dl_doctor.commands import progress
from dl_doctor.commands.check import EXAMINED, POSITIVE
from dl_doctor.commands.configuration import config_options, expected_and_accepted, settle
from dl_doctor.commands.observed import TakesACommand, examined_in, give_way_to_the_command, wait_option
from dl_doctor.commands.options import Duration, Numbers, Seconds, Spec, look_of, look_options, taken
from dl_doctor.commands.sharing import give
from dl_doctor.engine import examine
from dl_doctor.reports import renderer
from dl_doctor.settings import MOST_WORKERS, RUNTIMES, Settings, SweepOptions
from dl_doctor.system import System

DECIDED_BY_A_COMMAND = ("spec", *EXAMINED, "python")

CHECKS = ("dataset-loads", "dataset-sample", "disk-rate", "worker-count")
"""Judged along with it: the first two say why there is nothing to measure, the others need the measurement."""


@click.command(cls=TakesACommand, context_settings={"auto_envvar_prefix": "DL_DOCTOR"})
@click.argument("spec", required=False, type=Spec())
@click.option("--dataset", type=Spec(), metavar="SPEC", help="Measure this dataset: pkg.module:name or file.py:name.")
@click.option("--loader", type=Spec(), metavar="SPEC", help="The same for a DataLoader; as SPEC alone.")
@click.option("--example", is_flag=True, default=None, help="Measure the small image dataset that comes with dl-doctor.")
@click.option("--budget", "budget_s", type=Seconds(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
              help="For all measurements.")  # fmt: skip
@click.option("--step-time", "step_time_s", type=Duration(), metavar="TIME",
              help="What the job computes on each batch, such as 35ms: so long is waited.")  # fmt: skip
@click.option("--step", type=Spec(), metavar="SPEC", help="A function that is called with each batch instead.")
@click.option("--ranks", type=POSITIVE, metavar="R", help="Loaders to run at once.  [default: the ranks of the job here]")
@click.option("--workers", type=Numbers(MOST_WORKERS), metavar="LIST", help="The only numbers to try, such as 0,2,4,8.")
@click.option("--batch-size", type=POSITIVE, help="Samples in a batch, where there is no loader that says so.")
@click.option("--num-workers", type=click.IntRange(0, MOST_WORKERS), help="Of the job as it is, if the loader does not say so.")
@click.option("--prefetch-factor", type=POSITIVE, help="Batches that a worker loads ahead.")
@click.option("--start-method", type=click.Choice(["fork", "spawn", "forkserver"]), help="How workers are started.")
@click.option("--pin-memory/--no-pin-memory", default=None, help="Whether the DataLoader pins its batches.")
@click.option("--data", multiple=True, metavar="PATH", help="Where the training data lies.  [default: not known]")
@click.option("--runtime", type=click.Choice(RUNTIMES), help="What fixes are worded for, instead of what is detected.")
@click.option("--python", metavar="PATH", help="The interpreter whose environment is used.")
@click.option("--timeout", "timeout_s", type=Seconds(min=0, min_open=True), metavar="SECONDS",
              help="Total, with making the dataset.  [default: 150 more than the budget]")  # fmt: skip
@wait_option
@look_options
@config_options
@click.pass_context
def sweep(context: click.Context, /, **given: Any) -> None:
    """Measure a loader at several numbers of workers; say what is in its way, and what to set.

    SPEC names a DataLoader or a function that makes one: pkg.module:name or path/file.py:name.
    A COMMAND, such as `-- python train.py`, is run until it iterates over a DataLoader, which is measured; then it is ended.

    Exits 0 with a recommendation, 1 where the loader broke, 3 where it was too noisy to tell or nothing could be measured.
    """
    give_way_to_the_command(context, given, DECIDED_BY_A_COMMAND)
    settle(context, given, "spec", *EXAMINED)
    settle(context, given, "step", "step_time_s")
    look = look_of(**taken(given, "quiet", "verbose", "color", "only_ascii"))
    format_, outputs, redacted, spec = taken(given, "format_", "outputs", "redacted", "spec").values()
    command, wait_s = taken(given, "command", "wait_s").values()
    named = [name for name in EXAMINED if given[name]] + (["SPEC"] if spec else [])
    if len(named) != 1 and not command:
        said = f"{' and '.join(named)} exclude each other" if named else "name the loader to measure"
        raise click.UsageError(f"{said}: give SPEC, --loader, --dataset, --example or `-- COMMAND...`.")
    if given["step"] and given["step_time_s"]:
        raise click.UsageError("--step and --step-time exclude each other; give one of them.")
    if given["dataset"] and given["batch_size"] is None:
        raise click.UsageError("--dataset needs --batch-size: a dataset alone does not say what a batch is.")
    options = SweepOptions(**taken(given, "budget_s", "step_time_s", "step", "ranks", "workers"))
    known = {**given, "loader": spec or given["loader"], "data": given["data"] or None, **expected_and_accepted(context, None)}
    settings = Settings(**known, profile="deep", select=CHECKS, sweep=options)
    with output.reserved_for_the_report():
        catalogue = load(plugins=False)
    waiting = progress.shown(lambda: renderer(format_), options.budget_s)
    with (
        output.reserved_for_the_report(),
        examined_in(command, wait_s, settings) as (settings, caller),
        waiting as watcher,
    ):
        system = System(variables=caller.variables if caller else None)
        report = examine(catalogue, settings, system, watcher=watcher, caller=caller)
    give(report, format_, outputs, look, redacted=redacted)
    context.exit(report.verdict.exit_code)
