"""`dl-doctor render`: any format from a JSON report."""

from typing import Any

import click

from dl_doctor import output
from dl_doctor.commands.options import look_of, look_options
from dl_doctor.saved import BadReport, load_report


@click.command()
@click.argument("report", metavar="REPORT", type=click.Path())
@look_options
def render(report: str, format_: str, outputs: tuple[str, ...], **given: Any) -> None:
    """Show a saved JSON report in any format. Exits 0, or 2 when it cannot be read."""
    look = look_of(**given)
    try:
        saved = load_report(report)
    except BadReport as error:
        raise click.UsageError(str(error)) from None
    output.save_each(saved, outputs, look)
    output.print_report(saved, format_, look)
