"""`dl-doctor diff`: what differs between two reports."""

from typing import Any

import click

from dl_doctor import output
from dl_doctor.catalogue import load
from dl_doctor.commands.options import look_of
from dl_doctor.comparison import compare
from dl_doctor.reports import readable
from dl_doctor.reports.diff import FORMATS, renderer
from dl_doctor.saved import BadReport, load_report


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("-f", "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="All values that differ, also of long facts.")
@click.option("--ascii", "only_ascii", is_flag=True, help="No symbols beyond ASCII.")
@click.pass_context
def diff(context: click.Context, /, a: str, b: str, format_: str, **given: Any) -> None:
    """Tell what differs between two JSON reports: it works on A, and fails on B.

    Exits 0 where nothing does but times, 1 where something does.
    """
    try:
        before, after = readable(load_report(a)), readable(load_report(b))
    except BadReport as error:
        raise click.UsageError(str(error)) from None
    with output.reserved_for_the_report():
        catalogue = load(plugins=True)
    needs = {check.id: [catalogue.names[need.fact] for need in check.needs.values()] for check in catalogue.checks.values()}
    comparison = compare(before, after, (a, b), needs)
    look = look_of(quiet=False, color="never", **given)
    text = renderer(format_)(comparison, look)
    (output.print_json if format_ == "json" else output.print_text)(text)
    context.exit(0 if comparison.same else 1)
