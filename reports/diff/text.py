"""What differs, for a terminal: checks that end otherwise first, the count in the last line."""

from collections.abc import Iterable, Iterator

from dl_doctor.comparison import Comparison, FactChange, ResultChange
from dl_doctor.reports.diff import words
from dl_doctor.reports.look import SYMBOLS, Look, harmless, in_ascii

ID_WIDTH = 22


def render(comparison: Comparison, look: Look) -> str:
    """Lines of text, as wide as what they tell."""
    text = "\n".join(lines(harmless(comparison), None if look.detail == "full" else words.MOST_OF_ONE_FACT)) + "\n"
    return in_ascii(text) if look.ascii else text


def lines(comparison: Comparison, most: int | None) -> Iterator[str]:
    yield f"A  {comparison.a.name}: {words.of_side(comparison.a)}"
    yield f"B  {comparison.b.name}: {words.of_side(comparison.b)}"
    yield ""
    told: set[str] = set()
    for change in comparison.results:
        yield from of_result(change, told, most)
        told |= {fact.path for fact in change.facts}
    for title, changes in (("settings", comparison.settings), ("other facts", comparison.facts)):
        if changes:
            yield title
            yield from of_facts(changes, most)
            yield ""
    yield words.verdict(comparison)


def of_result(change: ResultChange, told: set[str], most: int | None) -> Iterator[str]:
    symbol = SYMBOLS[change.after][0] if change.after else " "
    yield f"{symbol} {change.id:<{ID_WIDTH}} {words.of_statuses(change)}"
    if change.reason:
        yield f"    {change.reason}"
    for side, findings in (("B", change.gained), ("A", change.lost)):
        for finding in findings:
            yield f"    in {side}: {finding.summary}"
    yield from of_facts((fact for fact in change.facts if fact.path not in told), most)
    again = dict.fromkeys(words.fact_of(fact) for fact in change.facts if fact.path in told)
    if again:
        yield f"    {', '.join(again)} as above"
    yield ""


def of_facts(changes: Iterable[FactChange], most: int | None) -> Iterator[str]:
    shown, left_out = words.the_first(changes, most)
    paths = [words.short(change.path) for change in shown]
    width = max(map(len, paths), default=0)
    for path, change in zip(paths, shown, strict=True):
        yield f"    {path:<{width}}  {words.of_fact(change)}"
    if left_out:
        yield f"    and {left_out} more; -v shows all"
