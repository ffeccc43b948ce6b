"""Words that the formats of a difference share."""

from collections.abc import Iterable

from dl_doctor.comparison import Comparison, FactChange, Plain, ResultChange, Side
from dl_doctor.model import Status
from dl_doctor.reports.look import SYMBOLS, VERDICTS
from dl_doctor.units import binary_size, count, plain

LONGEST = 60
"""Characters of a value that are shown; the JSON has all."""

MOST_OF_ONE_FACT = 12
"""Values of one fact that are shown without -v: of mounts or packages there can be hundreds."""


def of_side(side: Side) -> str:
    """`node-17, 2026-11-30 12:00, dl-doctor 0.1.0: go (exit 0)`."""
    words = [side.hostname or "unknown host", side.started_at[:16].replace("T", " "), f"dl-doctor {side.version}"]
    return f"{', '.join(words)}: {VERDICTS[side.verdict.status]} (exit {side.verdict.exit_code})"


def of_statuses(change: ResultChange) -> str:
    """`passed → failed`."""
    return (
        f"{status(change.before)} → {status(change.after)}"
        if change.before != change.after
        else f"{status(change.after)} otherwise"
    )


def status(value: Status | None) -> str:
    return "not in the report" if value is None else SYMBOLS[value][1]


def of_fact(change: FactChange) -> str:
    """`2.8.0 → 2.9.1`; of an entry of a list only whether it is there."""
    if change.on_one_side:
        return "in A only" if change.before else "in B only"
    return " → ".join(sides(change))


def sides(change: FactChange) -> tuple[str, str]:
    """The value in A and in B."""
    if change.on_one_side:
        return ("yes", "–") if change.before else ("–", "yes")
    return value(change.path, change.before), value(change.path, change.after)


def value(path: str, known: Plain) -> str:
    if known is None:
        return "none"
    if isinstance(known, bool):
        return "yes" if known else "no"
    if isinstance(known, int | float):
        return binary_size(int(known)) if path.endswith("_bytes") and abs(known) < 1 << 62 else plain(known)
    return short(known)


def short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def fact_of(change: FactChange) -> str:
    """The name of the fact that it is a value of."""
    return change.path.partition(".")[0].partition("[")[0]


def the_first(changes: Iterable[FactChange], most: int | None) -> tuple[list[FactChange], int]:
    """At most so many of each fact, and how many are left out."""
    shown: list[FactChange] = []
    seen: dict[str, int] = {}
    left_out = 0
    for change in changes:
        fact = fact_of(change)
        seen[fact] = seen.get(fact, 0) + 1
        if most is None or seen[fact] <= most:
            shown.append(change)
        else:
            left_out += 1
    return shown, left_out


def verdict(comparison: Comparison) -> str:
    """The last line."""
    if comparison.same:
        return "Nothing differs but times (exit 0)"
    numbers = [(len(comparison.results), "check"), (len(comparison.settings), "setting"), (len(comparison.facts), "other fact")]
    told = [count(number, noun) for number, noun in numbers if number]
    one = sum(number for number, _ in numbers) == 1
    return f"{', '.join(told)} {'differs' if one else 'differ'} (exit 1)"
