"""The report for a terminal: worst first, the verdict in the last line, a word beside every symbol."""

from collections.abc import Iterable, Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dl_doctor.model import Finding, Fix, Machine, Report, Result, Status
from dl_doctor.reports.look import Look, amount, harmless, in_ascii, printable
from dl_doctor.units import binary_size, plain

SYMBOLS: dict[Status, tuple[str, str, str]] = {
    "pass": ("✓", "green", "passed"),
    "warn": ("!", "yellow", "warning"),
    "fail": ("✗", "red", "failed"),
    "error": ("?", "magenta", "could not tell"),
    "skip": ("–", "dim", "skipped"),
    "not_run": (" ", "dim", "not run"),
}
"""Symbol, style and word of each status."""

ORDER: tuple[Status, ...] = ("pass", "warn", "fail", "error", "skip")
"""Of the columns in the table of areas."""

VERDICTS = {
    "go": ("go", "bold green"),
    "stop": ("do not start here", "bold red"),
    "unknown": ("could not tell", "bold magenta"),
}

ID_WIDTH = 22


def render(report: Report, look: Look) -> str:
    """The report in lines of at most `look.width` columns; commands are never broken, so that they can be copied."""
    file = StringIO()
    console = Console(
        file=file,
        width=look.width,
        force_terminal=look.color,
        force_jupyter=False,  # which would show it, and give nothing
        color_system="standard" if look.color else None,
        no_color=not look.color,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for part in parts(harmless(report), look):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    text = "\n".join(line.rstrip(" ") for line in file.getvalue().split("\n"))
    return in_ascii(text) if look.ascii else text


def parts(report: Report, look: Look) -> Iterator[Text | Table]:
    quiet, full = look.detail == "quiet", look.detail == "full"
    if not quiet:
        yield head(report)
        yield Text()
        yield from areas(report.results)
        yield Text()
    yield from troubles(report.results, full=full)
    if look.detail == "normal":
        yield from notes(report.results)
    if full:
        yield from the_rest(report.results)
    if not quiet:
        yield from where_to_go(report.results)
    yield verdict(report)


def head(report: Report) -> Text:
    text = Text(f"{report.tool.name} {report.tool.version}", style="bold")
    words = [*machine_words(report.machine), *environment_words(report)]
    return text.append("   " + " · ".join(words), style="not bold")


def machine_words(machine: Machine) -> list[str]:
    """What people call the machine by, in a few words."""
    place = [word for word in (machine.runtime, machine.platform, machine.scheduler) if word]
    cgroup = [f"cgroup {machine.cgroup}"] if machine.cgroup else []
    words = [machine.hostname, machine.os, ", ".join([*place, *cgroup])]
    if machine.cpus is not None:
        words.append(f"{plain(machine.cpus)} CPU" + ("" if machine.cpus == 1 else "s"))
    if machine.memory_bytes is not None:
        words.append(binary_size(machine.memory_bytes))
    words += [f"{machine.gpus.count(name)} × {name}" for name in dict.fromkeys(machine.gpus)]
    return [word for word in words if word]


def environment_words(report: Report) -> list[str]:
    """Which torch is examined, and which interpreter's that is."""
    python, torch = report.run.python, report.machine.torch
    if python is None:
        return []
    return [f"torch {torch} ({python.why})" if torch else f"no torch ({python.why})"]


def areas(results: Iterable[Result]) -> Iterator[Text]:
    """A line for each area in which something was judged or should have been."""
    by_area: dict[str, list[Status]] = {}
    for result in results:
        if result.status != "not_run":
            by_area.setdefault(result.area, []).append(result.status)
    width = max(map(len, by_area), default=0)
    for area, statuses in by_area.items():
        line = Text(f"  {area:<{width}}")
        for status in ORDER:
            if number := statuses.count(status):
                line.append("  ").append(tally(status, number))
        yield line


def tally(status: Status, number: int) -> Text:
    symbol, style, word = SYMBOLS[status]
    plural = "s" if status == "warn" and number > 1 else ""
    return Text(f"{symbol} {number} {word}{plural}", style=style)


def troubles(results: Iterable[Result], *, full: bool) -> Iterator[Text | Table]:
    """Failures, what could not be told, warnings; what another finding explains comes below it."""
    results = tuple(results)
    causes = {result.id for result in results if any(map(stands_alone, result.findings))}
    for level in ("fail", "warn"):
        for result in results:
            shown = [
                finding
                for finding in result.findings
                if finding.level == level and finding.accepted is None and finding.explained_by not in causes
            ]
            for finding in shown:
                yield from block(result, finding)
            if level == worst_alone(result):
                yield from consequences(results, result)
        if level == "fail":
            yield from untold(results, full=full)
    for result in results:
        for finding in result.findings:
            if finding.accepted is not None:
                yield Text(f"  {result.id:<{ID_WIDTH}} accepted: {finding.accepted}", style="dim")


def stands_alone(finding: Finding) -> bool:
    """Whether it is shown by itself, and what it explains below it."""
    return finding.level != "note" and finding.accepted is None and finding.explained_by is None


def worst_alone(result: Result) -> str | None:
    """The worst level of its findings that stand alone: what they explain comes once, below those."""
    levels = {finding.level for finding in result.findings if stands_alone(finding)}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else None


def consequences(results: tuple[Result, ...], cause: Result) -> Iterator[Text | Table]:
    for result in results:
        for finding in result.findings:
            if finding.explained_by == cause.id and finding.level != "note":
                yield from block(result, finding)


def block(result: Result, finding: Finding) -> Iterator[Text | Table]:
    """A finding with its evidence, its reason and its remedies."""
    symbol, style, _ = SYMBOLS["fail" if finding.level == "fail" else "warn"]
    owner = "" if finding.owner == "you" else f"   fix by: {finding.owner}"
    title = Text(f"{symbol} {result.id:<{ID_WIDTH}}", style=f"bold {style}")
    yield hanging(title, Text(finding.summary).append(owner, style="dim"))
    if finding.measured or finding.expected:
        yield indented(evidence(finding))
    why = finding.why
    if finding.explained_by:
        why += f" {SYMBOLS['fail'][0]} {finding.explained_by} explains it."
    if why.strip():
        yield indented(Text(why.strip()))
    for fix in finding.fixes:
        yield from remedy(fix)
    yield Text()


def evidence(finding: Finding) -> Text:
    words = []
    if finding.measured:
        words.append(f"measured {amount(finding.measured)} ({finding.measured.source})")
    if finding.expected:
        words.append(f"expected {amount(finding.expected, finding.relation)}")
    return Text(", ".join(words), style="dim")


def remedy(fix: Fix) -> Iterator[Text | Table]:
    risk = "" if fix.risk == "safe" else f" [{fix.risk}]"
    note = f" {fix.note}" if fix.note else ""
    yield hanging(Text("    fix ", style="bold"), Text(f"{fix.title}{risk}.{note}"))
    for command in fix.commands:
        yield Text(f"           {command}", no_wrap=True, overflow="ignore", style="cyan")


def untold(results: Iterable[Result], *, full: bool) -> Iterator[Text | Table]:
    """What could not be told, with checks that lack the same thing in one entry."""
    lacking: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "error" and result.reason:
            lacking.setdefault(result.reason.detail, []).append(result)
    for detail, those in lacking.items():
        symbol, style, word = SYMBOLS["error"]
        yield Text(f"{symbol} {', '.join(result.id for result in those)}", style=f"bold {style}").append(
            f" {word}: {detail}", style="default"
        )
        if full:
            yield from (indented(Text(line, style="dim")) for result in those for line in traced(result))
        yield Text()


def traced(result: Result) -> list[str]:
    return [printable(line) for line in result.trace.splitlines()]


def the_rest(results: Iterable[Result]) -> Iterator[Text | Table]:
    """What was looked at where nothing is wrong, and what was not looked at and why."""
    for result in results:
        if result.status in ("fail", "warn", "error"):
            said = [Text(f"looked at  {result.seen}", style="dim")] if result.seen else []
        else:
            said = [Text(result.reason.detail if result.reason else result.seen)]
        symbol, style, word = SYMBOLS[result.status]
        took = Text(f"{word}   {result.duration_s * 1000:.1f} ms", style="dim")
        yield hanging(Text(f"{symbol} {result.id:<{ID_WIDTH}}", style=style), took)
        yield from map(indented, said)
        for finding in result.findings:
            if finding.level == "note":
                words = " ".join(filter(None, (finding.summary.rstrip(".") + ".", finding.why)))
                yield indented(Text(f"note  {words}", style="dim"))
                for fix in finding.fixes:
                    yield from remedy(fix)
    yield Text()


def notes(results: Iterable[Result]) -> Iterator[Text | Table]:
    """What is worth knowing, a line each, of checks that found nothing worse."""
    some = False
    for result in results:
        for finding in result.findings:
            if finding.level == "note" and result.status == "pass":
                some = True
                yield hanging(Text(f"· {result.id:<{ID_WIDTH}}", style="dim"), Text(finding.summary, style="dim"))
    if some:
        yield Text()


def where_to_go(results: Iterable[Result]) -> Iterator[Text]:
    of_checks = [result for result in results if result.id != result.area]  # a broken plugin has no page
    worst = next((r for status in ("fail", "error", "warn") for r in of_checks if r.status == status), None)
    if worst is not None:
        yield Text(f"More: dl-doctor explain {worst.id}", style="dim")


def verdict(report: Report) -> Text:
    """The last line: how many ended how, and what follows."""
    words, style = VERDICTS[report.verdict.status]
    line = Text(f"{counts(report)}, in {plain(report.run.duration_s)} s → ")
    line.append(words, style=style)
    detail = f": {report.verdict.reason}" if report.verdict.status == "unknown" else ""
    return line.append(f"{detail} (exit {report.verdict.exit_code})")


def counts(report: Report) -> str:
    summary = report.summary
    warnings = "warning" if summary.warn == 1 else "warnings"
    numbers = [
        (summary.fail, "failed"),
        (summary.error, "could not tell"),
        (summary.warn, warnings),
        (summary.passed, "passed"),
        (summary.skip, "skipped"),
        *not_run(report.results),
        (summary.accepted, "accepted"),
    ]
    return ", ".join(f"{number} {word}" for number, word in numbers if number) or "nothing judged"


def not_run(results: Iterable[Result]) -> list[tuple[int, str]]:
    """How many checks need what: `(12, "need --dataset")`."""
    details = [result.reason.detail for result in results if result.status == "not_run" and result.reason]
    words = [detail.replace("needs", "need", 1) if detail.startswith("needs ") else "not run" for detail in details]
    return [(words.count(word), word) for word in dict.fromkeys(words)]


def indented(text: Text) -> Table:
    return hanging(Text("   "), text)


def hanging(left: Text, right: Text) -> Table:
    """Two columns; when the right one is wrapped, it stays to the right of the left one."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(left, right)
    return table
