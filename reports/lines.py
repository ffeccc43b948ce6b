"""What formats without a layout of their own share: a finding in lines of plain text, and the verdict in one."""

from dl_doctor.model import Finding, Report
from dl_doctor.reports.look import VERDICTS, amount
from dl_doctor.reports.order import counts
from dl_doctor.reports.sweep_words import is_sweep
from dl_doctor.units import plain

FOR_NAGIOS = {0: "OK", 1: "WARNING", 2: "CRITICAL"}
"""The words of a monitoring plugin for its exit codes; all others are UNKNOWN."""


def of_finding(finding: Finding) -> list[str]:
    """Its summary, its evidence, why it matters, and each remedy with its commands; a line each."""
    lines = [finding.summary, evidence(finding), finding.why]
    for fix in finding.fixes:
        lines += [f"fix: {fix.title}." + (f" {fix.note}" if fix.note else ""), *(f"  {command}" for command in fix.commands)]
    return [line for line in lines if line]


def evidence(finding: Finding) -> str:
    words = []
    if finding.measured:
        words.append(f"measured {amount(finding.measured)} ({finding.measured.source})")
    if finding.expected:
        words.append(f"expected {amount(finding.expected, finding.relation)}")
    return ", ".join(words)


def verdict(report: Report) -> str:
    """`1 failed, 5 passed, in 0.2 s → do not start here (exit 1)`; of a sweep with its conclusion."""
    told = report.verdict.status == "unknown" or is_sweep(report)
    detail = f": {report.verdict.reason}" if told else ""
    took = plain(report.run.duration_s)
    return f"{counts(report)}, in {took} s → {VERDICTS[report.verdict.status]}{detail} (exit {report.verdict.exit_code})"


def for_nagios(report: Report) -> str:
    """The line that a monitoring system reads first; what stands behind its bar are numbers for graphs."""
    word = FOR_NAGIOS.get(report.verdict.exit_code, "UNKNOWN")
    said = [
        f"{result.id}: {f.summary}" for result in report.results for f in result.findings if f.level == "fail" and not f.accepted
    ]
    what = said[0] + (f" and {len(said) - 1} more" if len(said) > 1 else "") if said else counts(report)
    summary = report.summary
    numbers = f"failed={summary.fail} warnings={summary.warn} passed={summary.passed} untold={summary.error}"
    return f"DL-DOCTOR {word} - {what.replace('|', '/')} | {numbers}"
