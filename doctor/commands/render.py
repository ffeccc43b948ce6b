"""`dl-doctor render`: any format from a JSON report."""

from typing import Any

import click

from dl_doctor.commands.options import look_of, look_options
from dl_doctor.commands.sharing import give
from dl_doctor.saved import BadReport, load_report


@click.command()
@click.argument("report", metavar="REPORT", type=click.Path())
@look_options
def render(report: str, format_: str, outputs: tuple[str, ...], *, redacted: bool, **given: Any) -> None:
    """Show a saved JSON report in any format. Exits 0, or 2 when it cannot be read."""
    look = look_of(**given)
    try:
        saved = load_report(report)
    except BadReport as error:
        raise click.UsageError(str(error)) from None
    give(saved, format_, outputs, look, redacted=redacted)
