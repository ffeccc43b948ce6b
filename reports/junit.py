"""The report as JUnit's XML, which build servers show: a test case for each check, in a suite for each area."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from dl_doctor.model import Finding, Report, Result
from dl_doctor.reports.lines import of_finding
from dl_doctor.reports.look import Look, harmless


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (a document has no look)
    """One document, ending in a newline. A warning passes, and says in its output what it warns of."""
    report = harmless(report)
    root = ET.Element("testsuites", name=report.tool.name, time=f"{report.run.duration_s:.3f}")
    areas = list(dict.fromkeys(result.area for result in report.results))
    for area in areas:
        results = [result for result in report.results if result.area == area]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=f"dl-doctor.{area}",
            hostname=report.machine.hostname or "",
            timestamp=report.run.started_at.removesuffix("Z"),
            tests=str(len(results)),
            failures=str(sum(result.status == "fail" for result in results)),
            errors=str(sum(result.status == "error" for result in results)),
            skipped=str(sum(result.status in ("skip", "not_run") for result in results)),
        )
        for result in results:
            suite.append(case(result))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def case(result: Result) -> ET.Element:
    element = ET.Element("testcase", classname=f"dl-doctor.{result.area}", name=result.id, time=f"{result.duration_s:.3f}")
    reason = result.reason.detail if result.reason else ""
    if result.status == "fail":
        failed = [finding for finding in result.findings if finding.level == "fail" and finding.accepted is None]
        inner = ET.SubElement(element, "failure", type=result.id, message="; ".join(f.summary for f in failed))
        inner.text = "\n\n".join("\n".join(of_finding(finding)) for finding in failed)
    elif result.status == "error":
        ET.SubElement(element, "error", type="could not tell", message=reason)
    elif result.status in ("skip", "not_run"):
        ET.SubElement(element, "skipped", message=reason)
    said = "\n\n".join(told(result))
    if said:
        ET.SubElement(element, "system-out").text = said
    return element


def told(result: Result) -> Iterator[str]:
    """What was looked at, and findings that fail nothing."""
    if result.seen:
        yield result.seen
    for finding in result.findings:
        if finding.level != "fail" or finding.accepted is not None:
            yield "\n".join((f"{word(finding)}:", *of_finding(finding)))


def word(finding: Finding) -> str:
    if finding.accepted is not None:
        return f"accepted ({finding.accepted})"
    return "warning" if finding.level == "warn" else "note"
