"""The report for a terminal: worst first, the verdict in the last line, a word beside every symbol."""

from collections.abc import Iterable, Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dl_doctor.model import Finding, Fix, Report, Result, Status
from dl_doctor.reports import gpu_lines, lines, order, sweep, sweep_words
from dl_doctor.reports.look import (
    SYMBOLS,
    VERDICTS,
    Look,
    environment_words,
    harmless,
    in_ascii,
    machine_words,
    printable,
)
from dl_doctor.units import plain

STYLES: dict[Status, str] = {
    "pass": "green",
    "warn": "yellow",
    "fail": "red",
    "error": "magenta",
    "skip": "dim",
    "not_run": "dim",
}

ORDER: tuple[Status, ...] = ("pass", "warn", "fail", "error", "skip")
"""Of the columns in the table of areas."""

VERDICT_STYLES = {"go": "bold green", "stop": "bold red", "unknown": "bold magenta"}

ID_WIDTH = 22

LEAST_TOLD_S = 0.05
"""What is quicker than that is not told with -v."""


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
    if report.run.settings.get("exit_codes") == "nagios":
        yield Text(lines.for_nagios(report), no_wrap=True, overflow="ignore")
    if not quiet:
        yield head(report)
        yield Text()
        if not sweep_words.is_sweep(report):
            yield from areas(report.results)
            yield Text()
        yield from sweep.parts(report)
        yield from gpu_lines.parts(report, look)
    yield from findings(sweep_words.judged(report), full=full)
    if look.detail == "normal" and not sweep_words.is_sweep(report):
        yield from notes(report.results)
    if full:
        yield from the_rest(report.results)
        yield from timings(report.run.collected_s)
    if not quiet:
        yield from where_to_go(sweep_words.judged(report))
    yield verdict(report)


def head(report: Report) -> Text:
    text = Text(f"{report.tool.name} {report.tool.version}", style="bold")
    words = [*machine_words(report.machine), *environment_words(report)]
    return text.append("   " + " · ".join(words), style="not bold")


def areas(results: Iterable[Result]) -> Iterator[Text]:
    """A line for each area."""
    found = order.by_area(results)
    width = max(map(len, found), default=0)
    for area, statuses in found.items():
        line = Text(f"  {area:<{width}}")
        for status in ORDER:
            if number := statuses.count(status):
                line.append("  ").append(tally(status, number))
        yield line


def tally(status: Status, number: int) -> Text:
    symbol, word = SYMBOLS[status]
    plural = "s" if status == "warn" and number > 1 else ""
    return Text(f"{symbol} {number} {word}{plural}", style=STYLES[status])


def findings(results: Iterable[Result], *, full: bool) -> Iterator[Text | Table]:
    """Failures, what could not be told, warnings, and what the user accepts."""
    results = tuple(results)
    for result, finding in order.troubles(results, "fail"):
        yield from block(result, finding)
    yield from untold(results, full=full)
    for result, finding in order.troubles(results, "warn"):
        yield from block(result, finding)
    for result, finding in order.accepted(results):
        yield Text(f"  {result.id:<{ID_WIDTH}} accepted: {finding.accepted}", style="dim")


def block(result: Result, finding: Finding) -> Iterator[Text | Table]:
    """A finding with its evidence, its reason and its remedies."""
    level: Status = "fail" if finding.level == "fail" else "warn"
    owner = "" if finding.owner == "you" else f"   fix by: {finding.owner}"
    title = Text(f"{SYMBOLS[level][0]} {result.id:<{ID_WIDTH}}", style=f"bold {STYLES[level]}")
    yield hanging(title, Text(finding.summary).append(owner, style="dim"))
    if finding.measured or finding.expected:
        yield indented(Text(lines.evidence(finding), style="dim"))
    why = finding.why
    if finding.explained_by:
        why += f" {SYMBOLS['fail'][0]} {finding.explained_by} explains it."
    if why.strip():
        yield indented(Text(why.strip()))
    for fix in finding.fixes:
        yield from remedy(fix)
    yield Text()


def remedy(fix: Fix) -> Iterator[Text | Table]:
    risk = "" if fix.risk == "safe" else f" [{fix.risk}]"
    note = f" {fix.note}" if fix.note else ""
    yield hanging(Text("    fix ", style="bold"), Text(f"{fix.title}{risk}.{note}"))
    for command in fix.commands:
        yield Text(f"           {command}", no_wrap=True, overflow="ignore", style="cyan")


def untold(results: Iterable[Result], *, full: bool) -> Iterator[Text | Table]:
    """What could not be told, with checks that lack the same thing in one entry."""
    for detail, those in order.by_reason(results, "error").items():
        symbol, word = SYMBOLS["error"]
        yield Text(f"{symbol} {', '.join(result.id for result in those)}", style=f"bold {STYLES['error']}").append(
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
        symbol, word = SYMBOLS[result.status]
        took = Text(f"{word}   {result.duration_s * 1000:.1f} ms", style="dim")
        yield hanging(Text(f"{symbol} {result.id:<{ID_WIDTH}}", style=STYLES[result.status]), took)
        yield from map(indented, said)
        if result.status != "error":  # its trace stands where it is told
            yield from (indented(Text(line, style="dim")) for line in traced(result))
        for finding in result.findings:
            if finding.level == "note":
                words = " ".join(filter(None, (finding.summary.rstrip(".") + ".", finding.why)))
                yield indented(Text(f"note  {words}", style="dim"))
                for fix in finding.fixes:
                    yield from remedy(fix)
    yield Text()


def timings(collected_s: dict[str, float]) -> Iterator[Text | Table]:
    """What was waited for, the longest first."""
    longest = sorted(collected_s.items(), key=lambda pair: -pair[1])
    words = ", ".join(f"{name} {plain(seconds)} s" for name, seconds in longest if seconds >= LEAST_TOLD_S)
    if words:
        yield hanging(Text(f"  {'facts took':<{ID_WIDTH}}"), Text(words, style="dim"))
        yield Text()


def notes(results: Iterable[Result]) -> Iterator[Text | Table]:
    """A line each."""
    found = order.notes(results)
    for result, finding in found:
        yield hanging(Text(f"· {result.id:<{ID_WIDTH}}", style="dim"), Text(finding.summary, style="dim"))
    if found:
        yield Text()


def where_to_go(results: Iterable[Result]) -> Iterator[Text]:
    if (result := order.worst(results)) is not None:
        yield Text(f"More: dl-doctor explain {result.id}", style="dim")


def verdict(report: Report) -> Text:
    """The last line: how many ended how, and what follows."""
    if sweep_words.is_sweep(report):
        line = Text(f"In {plain(report.run.duration_s)} s → ")
        line.append(report.verdict.reason, style=VERDICT_STYLES[report.verdict.status])
        return line.append(f" (exit {report.verdict.exit_code})")
    line = Text(f"{order.counts(report)}, in {plain(report.run.duration_s)} s → ")
    line.append(VERDICTS[report.verdict.status], style=VERDICT_STYLES[report.verdict.status])
    detail = f": {report.verdict.reason}" if report.verdict.status == "unknown" else ""
    return line.append(f"{detail} (exit {report.verdict.exit_code})")


def indented(text: Text) -> Table:
    return hanging(Text("   "), text)


def hanging(left: Text, right: Text) -> Table:
    """Two columns; when the right one is wrapped, it stays to the right of the left one."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(left, right)
    return table
