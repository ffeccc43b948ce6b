"""The report as Markdown for a ticket: what matters first, details folded, and short enough to be posted."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dl_doctor.model import Finding, Fix, Level, Report, Result, Status
from dl_doctor.reports import order, sweep_words
from dl_doctor.reports.gpus import SHORT, Reach, Row, gpus_of
from dl_doctor.reports.look import RISKS, SYMBOLS, VERDICTS, Look, amount, asked, machine_facts, printable, said
from dl_doctor.reports.picture import Sweep, sweep_of
from dl_doctor.units import plain

LONGEST = 60_000
"""Characters. A comment on GitHub may have 65,536."""

LONGEST_TEXT = 2_000
SHORTER_TEXTS = (400, 150, 60)
"""Characters of each text, the second line where findings alone would be too long."""

SHORTEST_FINDING = 60
"""Characters that a finding takes, even where there are thousands."""

LONGEST_CELL = 200

LONGEST_OUTPUT = 20_000
"""Of collect_env; a usual one has 3,000."""

UNSEEN = "&#8203;"
"""A zero-width space: it keeps an @ or a # from becoming a mention or a link, which no backslash does."""

MEANINGFUL = re.compile(
    r"""
    (?P<reference> [@#!%~](?=\w) | GH-(?=\d) | www(?=\.) | :(?=//|[a-z+-][\w+-]*:|100:) ) |
    (?P<mark> [\\`*_\[\]#|~] ) |
    (?P<html> [&<>$] )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Mentions, issues and merge requests, addresses, emoji; marks; what HTML takes for its own."""

HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "<span>$</span>"}
"""The last one is how GitHub wants a dollar sign that begins no formula."""

BEGINS_A_BLOCK = re.compile(r"(?P<number>[0-9]+)(?=[.)](\s|$))|[-+](?=\s|$)|[-=]+$")
"""A list, a line across, or the line below a heading."""


def render(report: Report, look: Look) -> str:  # noqa: ARG001 (tickets look the same everywhere)
    """The ticket, of at most LONGEST characters. Passes are left out first; findings never, only their texts get shorter."""
    folded = {
        "what was skipped": skipped(report.results),
        "what collect_env says": collect_env(report.facts),
        "what passed": passed(report.results),
    }
    if sum(len(result.findings) for result in report.results) > LONGEST // SHORTEST_FINDING:
        return headlines(report)
    for kept in range(len(folded), -1, -1):
        text = ticket(report, [*folded.values()][:kept], [*folded][kept:])
        if len(text) <= LONGEST:
            return text
    for longest in SHORTER_TEXTS:
        text = ticket(report, [], [*folded, f"all but the first {longest} characters of each text"], longest)
        if len(text) <= LONGEST:
            return text
    return headlines(report)


def ticket(report: Report, folded: Iterable[str], left_out: list[str], longest: int = LONGEST_TEXT) -> str:
    blocks = [
        *head(report),
        *measured(report, longest),
        *reached(report.facts),
        *findings(report.results, longest),
        *made(report),
        *folded,
    ]
    if left_out:
        blocks.append(f"Left out, so that this fits into a ticket: {', '.join(left_out)}. The JSON report has all of it.")
    return "\n\n".join(filter(None, blocks)) + "\n"


def headlines(report: Report) -> str:
    """Thousands of findings: a line for each, as many as there is room for."""
    every = [(result, finding) for result in report.results for finding in result.findings]
    found = [pair for level in ("fail", "warn", "note") for pair in every if pair[1].level == level]
    text = "\n\n".join([*head(report), "### Findings", ""])
    end = "- … and {} more, which the JSON report has.\n"
    for index, (result, finding) in enumerate(found):
        line = f"- {escaped(result.id, 60)}: {escaped(finding.summary, 60)}\n"
        if len(text) + len(line) + len(end) + 10 > LONGEST:
            return text + end.format(len(found) - index)
        text += line
    return text


def head(report: Report) -> Iterator[str]:
    """One line that says it all, and the machine."""
    verdict = report.verdict
    symbol = {"go": "✓", "stop": "✗", "unknown": "?"}[verdict.status]
    tool = f"{escaped(report.tool.name, 60)} {escaped(report.tool.version, 60)}"
    reason, counts = escaped(verdict.reason, 400), escaped(order.counts(report), 400)
    yield f"**{symbol} {tool}: {VERDICTS[verdict.status]}** (exit {verdict.exit_code}): {counts}; {reason}."
    yield table("Machine", "", machine_facts(report))


def measured(report: Report, longest: int) -> Iterator[str]:
    """What a sweep measured: the table, the way of a sample, what is in the way and what to set."""
    sweep, fact = sweep_of(report.facts), mapping(report.facts.get("loader_sweep"))
    if sweep is None:
        return
    yield "### How many workers"
    yield rates(sweep, fact)
    yield sweep_words.caption(sweep, fact)
    way = " → ".join(stage for _, stage in sweep_words.stages(report.pipeline)) + sweep_words.demand(report.pipeline)
    told = [
        ("Samples/s", way),
        ("In the way", sweep_words.in_the_way(fact)),
        ("Conclusion", said("why", fact.get("why") or "")),
        ("Reason", sweep.reason),
        ("Gain", sweep.gain),
        ("Settings", sweep_words.settings(sweep)),
        ("Takes", sweep_words.takes(fact)),
    ]
    yield bullets(f"{name}: {escaped(words, longest)}" for name, words in told if words)
    if sweep.line:
        yield fence(shortened(printable(sweep.line), longest))


def rates(sweep: Sweep, fact: Mapping[str, Any]) -> str:
    """A row for each number of workers."""
    shown = sweep_words.columns_of(sweep)
    lines = [f"|  | {' | '.join(heading for heading, _ in shown)} |", f"|---|{'---|' * len(shown)}"]
    for index, point in enumerate(sweep.points):
        cells = (escaped(getattr(point, name), sweep_words.WORDS) for _, name in shown)
        lines.append(f"| {sweep_words.mark_of(sweep, index, fact)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def reached(facts: Mapping[str, Any]) -> Iterator[str]:
    """What the probe of the GPUs measured: a row for each, or for several that are alike."""
    gpus = gpus_of(facts)
    if gpus is None:
        return
    yield "### What the GPUs reach"
    headings = [f"{column.what} {column.unit}" for column in gpus.columns]
    lines = [f"| GPU | {' | '.join(escaped(heading, SHORT) for heading in (*headings, 'Meanwhile'))} |"]
    lines.append(f"|---|{'---|' * (len(headings) + 1)}")
    lines += (f"| {escaped(name(row, gpus.models), 2 * SHORT)} | {' | '.join(cells(row))} |" for row in gpus.rows)
    yield "\n".join(lines)
    if gpus.columns:
        yield "Achieved of what is possible." + (" In so short a time heat may not show." if gpus.brief else "")
    yield bullets(escaped(f"{what} was not measured: {why}", LONGEST_CELL) for what, why in gpus.raised)


def name(row: Row, models: list[str]) -> str:
    return f"{row.gpu} {row.name}" if len(models) > 1 else row.gpu


def cells(row: Row) -> list[str]:
    """Its rates, and what was seen meanwhile."""
    held = f"**{escaped(', '.join(row.held), LONGEST_CELL)}**; " if row.held else ""
    skipped = f"not measured: {row.skipped}" if row.skipped else ""
    meanwhile = escaped(skipped or ", ".join((*row.meanwhile, *row.more)), LONGEST_CELL)
    rates = (escaped(with_percent(reach), 2 * SHORT) for reach in row.reaches)
    return [*rates, (held + meanwhile).removesuffix("; ")]


def with_percent(reach: Reach | None) -> str:
    if reach is None:
        return ""
    return f"{reach.in_words} ({reach.percent})" if reach.percent else reach.in_words


def findings(results: tuple[Result, ...], longest: int) -> Iterator[str]:
    """Failures, what could not be told, warnings, what is accepted, and what is worth knowing."""
    yield from troubles(results, "fail", "Failures", longest)
    if lacking := order.by_reason(results, "error"):
        yield "### Could not tell"
        for reason, those in lacking.items():
            yield f"{SYMBOLS['error'][0]} **{ids(those)}**: {escaped(reason, longest)}"
            for one in those:
                yield fold(f"What happened in {escaped(one.id, 60)}", fence(one.trace[-longest:])) if one.trace else ""
    yield from troubles(results, "warn", "Warnings", longest)
    if accepted := order.accepted(results):
        yield "### Accepted"
        yield bullets(
            f"{escaped(result.id, 60)}: {escaped(finding.summary, longest)}. Accepted: {escaped(finding.accepted or '', longest)}"
            for result, finding in accepted
        )
    if notes := order.all_notes(results):
        yield "### Worth knowing"
        yield bullets(f"{escaped(result.id, 60)}: {escaped(finding.summary, longest)}" for result, finding in notes)


def troubles(results: Iterable[Result], level: Level, title: str, longest: int) -> Iterator[str]:
    found = [*order.troubles(results, level)]
    if found:
        yield f"### {title}"
    for result, finding in found:
        yield from block(result, finding, longest)


def block(result: Result, finding: Finding, longest: int) -> Iterator[str]:
    """A finding with its evidence, its reason and its remedies."""
    status: Status = "fail" if finding.level == "fail" else "warn"
    owner = "" if finding.owner == "you" else f" (fix by: {escaped(finding.owner, 60)})"
    yield f"#### {SYMBOLS[status][0]} {escaped(result.id, 60)}: {escaped(finding.summary, longest)}{owner}"
    if finding.measured or finding.expected:
        yield evidence(finding)
    cause = f"Explained by {escaped(finding.explained_by, 60)}." if finding.explained_by else ""
    yield " ".join(filter(None, (escaped(finding.why, longest), cause)))
    for fix in finding.fixes:
        yield from remedy(fix, longest)


def evidence(finding: Finding) -> str:
    words = []
    if finding.measured:
        words.append(f"measured **{escaped(amount(finding.measured), 100)}** ({escaped(finding.measured.source, 200)})")
    if finding.expected:
        words.append(f"expected **{escaped(amount(finding.expected, finding.relation), 100)}**")
    return ", ".join(words)


def remedy(fix: Fix, longest: int) -> Iterator[str]:
    risk = RISKS.get(fix.risk, fix.risk)
    title = escaped(fix.title, longest) + (f" ({escaped(risk, 60)})" if risk else "")
    yield f"**Fix**: {title}. {escaped(fix.note, longest)}".rstrip()
    if fix.commands:
        yield fence("\n".join(shortened(printable(command), longest) for command in fix.commands))


def made(report: Report) -> Iterator[str]:
    """The loader's arguments and the command line, folded."""
    arguments = arguments_of(report.facts)
    if arguments:
        yield fold("The loader's arguments", table("Argument", "Value", arguments))
    if report.run.settings:
        yield fold("What was asked for", table("Option", "Value", asked(report.run.settings)))
    run = report.run
    yield fold(
        "How this was made",
        table(
            "Run",
            "",
            [
                ("Started", run.started_at),
                ("Took", f"{plain(run.duration_s)} s"),
                ("Profile", run.profile),
                ("Report", f"{run.id}, format {report.format_version}"),
            ],
        ),
    )


PLANNED = ("num_workers", "prefetch_factor", "batch_size", "batch_bytes", "start_method", "pin_memory", "ranks")


def arguments_of(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those of the loader that was examined, else what the plan takes for them; facts may hold anything."""
    arguments = mapping(mapping(facts.get("loader")).get("arguments"))
    plan = mapping(facts.get("loader_plan"))
    known = arguments or {name: plan[name] for name in PLANNED if name in plan}
    return [(name, said(name, value)) for name, value in known.items() if value is not None][:100]


def skipped(results: Iterable[Result]) -> str:
    results = tuple(results)
    groups = {status: order.by_reason(results, status) for status in ("skip", "not_run")}
    lines = [f"{escaped(reason, 400)}: {ids(those)}" for group in groups.values() for reason, those in group.items()]
    return fold("Skipped and not run", bullets(lines)) if lines else ""


def passed(results: Iterable[Result]) -> str:
    lines = [f"{escaped(result.id, 60)}: {escaped(result.seen, 400)}" for result in results if result.status == "pass"]
    return fold(f"{len(lines)} passed", bullets(lines)) if lines else ""


def collect_env(facts: Mapping[str, Any]) -> str:
    """PyTorch's own description of its environment, where the report has it."""
    fact = facts.get("collect_env")
    text = fact if isinstance(fact, str) else mapping(fact).get("text")
    return fold("collect_env", fence(shortened(text, LONGEST_OUTPUT))) if isinstance(text, str) and text.strip() else ""


def escaped(text: str, longest: int) -> str:
    """The text as a reader sees it, whatever it means in Markdown: no markup, no link, no mention, in a line of its own."""
    line = MEANINGFUL.sub(meant_literally, shortened(printable(text), longest).strip())
    begins = BEGINS_A_BLOCK.match(line)
    if not begins:
        return line
    end = begins.end("number") if begins["number"] else 0
    return f"{line[:end]}\\{line[end:]}"


def meant_literally(found: re.Match[str]) -> str:
    if found["html"]:
        return HTML[found[0]]
    marked = f"\\{found[0]}" if found[0] in "#~" or found["mark"] else found[0]
    return marked + UNSEEN if found["reference"] else marked


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def ids(results: Iterable[Result]) -> str:
    return ", ".join(escaped(result.id, 60) for result in results)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def table(left: str, right: str, rows: Iterable[tuple[str, str]]) -> str:
    cells = [f"| {escaped(name, 60)} | {escaped(value, 500)} |" for name, value in rows]
    return "\n".join([f"| {left} | {right} |", "|---|---|", *cells])


def fold(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def fence(text: str) -> str:
    """A block of lines as they are; its fence is longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return "\n".join([marks, *map(printable, text.splitlines()), marks])


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
