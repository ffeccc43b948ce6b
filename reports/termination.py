"""The message that Kubernetes keeps of a container that ended, and `kubectl describe pod` shows: the verdict and what to mend."""

from collections.abc import Iterator

from dl_doctor.model import Report
from dl_doctor.reports import order
from dl_doctor.reports.lines import of_finding, verdict
from dl_doctor.reports.look import Look, harmless

MOST_BYTES = 4096
"""The kubelet keeps no more of a message (kubernetes.io: Determine the Reason for Pod Failure)."""

CUT = "\n[...]\n"


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (nothing is laid out)
    """The verdict first, then failures and what could not be told; at most 4 KiB of UTF-8, cut at the end of a line."""
    text = "\n".join(lines(harmless(report))) + "\n"
    if len(text.encode()) <= MOST_BYTES:
        return text
    kept = text.encode()[: MOST_BYTES - len(CUT)].decode(errors="ignore")
    return kept.rpartition("\n")[0] + CUT


def lines(report: Report) -> Iterator[str]:
    yield f"dl-doctor: {verdict(report)}"
    for result, finding in order.troubles(report.results, "fail"):
        first, *rest = of_finding(finding)
        yield f"{result.id}: {first}"
        yield from (f"  {line}" for line in rest)
    for detail, results in order.by_reason(report.results, "error").items():
        yield f"{', '.join(result.id for result in results)} could not tell: {detail}"
