"""What becomes of a finished report: files, standard output, and before that, asked for, redaction."""

from collections.abc import Iterable

import click

from dl_doctor import output
from dl_doctor.model import Report
from dl_doctor.reports.look import Look


def give(report: Report, format_: str, outputs: Iterable[str], look: Look, *, redacted: bool) -> None:
    """Write a report to files and to standard output.

    Where it is `redacted`, names and secrets are replaced before anything is rendered, and standard error says how many were.
    """
    if redacted:
        report = shareable(report)
    output.save_each(report, outputs, look)
    output.print_report(report, format_, look)
    if redacted and report.redaction is not None:
        count = report.redaction.replacements
        output.warn(
            f"names and secrets replaced: {count}. Read the report before you post it: no program knows all that is private."
        )


def shareable(report: Report) -> Report:
    """The redacted report; a usage error where that cannot be done."""
    from dl_doctor.redact import redact  # noqa: PLC0415 (20 ms of patterns that other runs do not need)

    try:
        return redact(report)
    except ValueError as error:
        raise click.UsageError(f"the report cannot be redacted: {error}") from None
