"""`dl-doctor ticket`: a report to be posted, in Markdown and without names and secrets."""

import copy
from typing import Any

import click
from click.core import ParameterSource

from dl_doctor.commands.check import check, examined
from dl_doctor.commands.options import look_of, taken
from dl_doctor.commands.sharing import give
from dl_doctor.facts import CollectEnv
from dl_doctor.saved import BadReport, load_report

FORMAT = "markdown"

SHOWING = ("report", "format_", "redacted", "outputs", "quiet", "verbose", "color", "only_ascii")
"""Options that look at nothing, and go with a saved report too."""

TYPED = ParameterSource.COMMANDLINE

INTERRUPTED = 128
"""Exit codes above it are signals."""


def option_of(parameter: click.Parameter) -> click.Parameter:
    """An option of check's as it is here: what is decided already is not shown, and can still stand in a settings file."""
    option = copy.copy(parameter)
    if isinstance(option, click.Option) and option.name in ("format_", "redacted", "wait_s"):
        option.hidden = True
    return option


@click.command(params=list(map(option_of, check.params)))
@click.argument("report", metavar="[REPORT]", required=False, type=click.Path())
@click.pass_context
def ticket(context: click.Context, /, report: str | None, **given: Any) -> None:
    """Write a report for a ticket or an issue: Markdown, with names and secrets replaced.

    Of the saved REPORT, or of a check that is run now and takes the options of `dl-doctor check`. Exits 0 whatever the report
    says, and 2 when REPORT cannot be read.
    """
    said = [option for option in context.command.params if context.get_parameter_source(str(option.name)) is TYPED]
    if any(option.name == "format_" for option in said):
        raise click.UsageError("a ticket is Markdown; for another format say `check --redact -f`, or `render --redact -f`.")
    looking = [option.opts[0] for option in said if option.name not in SHOWING]
    if report and looking:
        raise click.UsageError(f"{looking[0]} is for a check, and REPORT was made by one: leave out one of them.")
    look = look_of(**taken(given, "quiet", "verbose", "color", "only_ascii"))
    _, outputs, _ = taken(given, "format_", "outputs", "redacted").values()
    try:
        found = load_report(report) if report else examined(context, given, FORMAT, also=(CollectEnv,))
    except BadReport as error:
        raise click.UsageError(str(error)) from None
    give(found, FORMAT, outputs, look, redacted=True)
    code = found.verdict.exit_code if not report else 0
    context.exit(code if code > INTERRUPTED else 0)
