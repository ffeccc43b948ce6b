"""The doctor as it is called in these machines, and what is read from its report."""

import subprocess
import sysconfig
from collections.abc import Mapping

import msgspec

from dl_doctor.model import Level, Quantity, Report, Result
from tests.lab import container
from tests.lab.container import Recipe

Plan = Mapping[str, str]
"""Options of `dl-doctor check`, by their names without the dashes."""

Number = tuple[float, str] | None
"""A value and its unit."""

Numbers = dict[str, list[tuple[Level, Number, Number]]]
"""Of every finding its level, what was measured and what was expected, by check."""


def command(plan: Plan) -> list[str]:
    options = [f"--{name}={value}" for name, value in plan.items()]
    return [f"{sysconfig.get_path('scripts')}/dl-doctor", "check", "--format=json", *options]


def examine(recipe: Recipe, plan: Plan) -> Report:
    """The report of a doctor who is called in a container of this recipe."""
    return report_of(container.run(command(plan), recipe))


def report_of(ended: subprocess.CompletedProcess[str]) -> Report:
    """The report on standard output; it comes with a silent standard error, without a crash and with its verdict's exit code."""
    assert ended.stderr == ""
    report = msgspec.json.decode(ended.stdout, type=Report)
    assert [result.trace for result in report.results if result.trace] == []
    assert ended.returncode == report.verdict.exit_code
    return report


def table(report: Report) -> dict[str, str]:
    """How all checks ended that somebody asked for."""
    return {result.id: result.status for result in asked_for(report)}


def numbers(report: Report) -> Numbers:
    return {
        result.id: [(finding.level, number(finding.measured), number(finding.expected)) for finding in result.findings]
        for result in asked_for(report)
    }


def asked_for(report: Report) -> list[Result]:
    return [result for result in report.results if result.status != "not_run"]


def number(quantity: Quantity | None) -> Number:
    return (quantity.value, quantity.unit) if quantity else None


def fixes(report: Report, check: str) -> list[str]:
    """What a check tells to do, but for lines of a compose file: they say once more what is said for docker."""
    findings = [finding for result in report.results if result.id == check for finding in result.findings]
    told = [fix for finding in findings for fix in finding.fixes if fix.runtimes != ("compose",)]
    return [command for fix in told for command in fix.commands]
