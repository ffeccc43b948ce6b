"""In which order results are told, in every format: worst first, and what another finding explains right after it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dl_doctor.model import Finding, Level, Report, Result, Status


def troubles(results: Iterable[Result], level: Level) -> Iterator[tuple[Result, Finding]]:
    """Findings of a level that stand alone, each followed by those that its check explains, whatever their level.

    A check's consequences come once, below the worst of its findings. A cause that is not shown itself hides nothing.
    """
    results = tuple(results)
    causes = {result.id for result in results if any(map(stands_alone, result.findings))}
    roots = roots_of(results)
    consequences = by_cause(results, roots)
    for result in results:
        for finding in result.findings:
            cause = roots.get(finding.explained_by or "", finding.explained_by)
            if finding.level == level and finding.accepted is None and cause not in causes:
                yield result, finding
        if level == worst_alone(result):
            yield from consequences.pop(result.id, ())


def stands_alone(finding: Finding) -> bool:
    """Whether it is shown by itself, and what it explains below it."""
    return finding.level != "note" and finding.accepted is None and finding.explained_by is None


def worst_alone(result: Result) -> Level | None:
    """The worst level of its findings that stand alone: what they explain comes once, below those."""
    levels = {finding.level for finding in result.findings if stands_alone(finding)}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else None


def is_explained(finding: Finding) -> bool:
    return finding.level != "note" and finding.accepted is None and finding.explained_by is not None


def roots_of(results: Iterable[Result]) -> dict[str, str]:
    """What is behind each check that has nothing but what another explains: that other, or what explains that in its turn."""
    parents = {
        result.id: finding.explained_by
        for result in results
        if not any(map(stands_alone, result.findings))
        for finding in result.findings
        if is_explained(finding) and finding.explained_by
    }
    roots = {}
    for check in parents:
        root, passed = check, set[str]()
        while root in parents and root not in passed:
            passed.add(root)
            root = parents[root]
        roots[check] = root
    return roots


def by_cause(results: Iterable[Result], roots: Mapping[str, str]) -> dict[str, list[tuple[Result, Finding]]]:
    """Findings by the id of the check that explains them in the end."""
    explained: dict[str, list[tuple[Result, Finding]]] = {}
    for result in results:
        for finding in filter(is_explained, result.findings):
            cause = finding.explained_by or ""
            explained.setdefault(roots.get(cause, cause), []).append((result, finding))
    return explained


def accepted(results: Iterable[Result]) -> list[tuple[Result, Finding]]:
    return [(result, finding) for result in results for finding in result.findings if finding.accepted is not None]


def notes(results: Iterable[Result]) -> list[tuple[Result, Finding]]:
    """What is worth knowing, of checks that found nothing worse."""
    return [
        (result, finding)
        for result in results
        for finding in result.findings
        if finding.level == "note" and result.status == "pass"
    ]


def all_notes(results: Iterable[Result]) -> list[tuple[Result, Finding]]:
    """What is worth knowing, of every check, where there is room for it."""
    return [
        (result, finding)
        for result in results
        for finding in result.findings
        if finding.level == "note" and finding.accepted is None
    ]


def by_reason(results: Iterable[Result], status: Status) -> dict[str, list[Result]]:
    """Results of a status that did not judge, by what they lack; those that lack the same thing are told together."""
    lacking: dict[str, list[Result]] = {}
    for result in results:
        if result.status == status and result.reason:
            lacking.setdefault(result.reason.detail, []).append(result)
    return lacking


def by_area(results: Iterable[Result]) -> dict[str, list[Status]]:
    """How the checks ended in each area in which something was judged or should have been."""
    areas: dict[str, list[Status]] = {}
    for result in results:
        if result.status != "not_run":
            areas.setdefault(result.area, []).append(result.status)
    return areas


def not_run(results: Iterable[Result]) -> list[tuple[int, str]]:
    """How many checks need which option: `(12, "need --dataset")`. What a site expects, or not, is no news."""
    details = [result.reason.detail for result in results if result.status == "not_run" and result.reason]
    needs = Counter(detail for detail in details if detail.startswith("needs --"))
    told = [(number, words if number == 1 else words.replace("needs", "need", 1)) for words, number in needs.items()]
    others = sum(not detail.startswith("needs ") for detail in details)
    return [*told, *([(others, "not run")] if others else [])]


def counts(report: Report) -> str:
    """`1 failed, 2 warnings, 5 passed`, of what there is."""
    summary = report.summary
    numbers = [
        (summary.fail, "failed"),
        (summary.error, "could not tell"),
        (summary.warn, "warning" if summary.warn == 1 else "warnings"),
        (summary.passed, "passed"),
        (summary.skip, "skipped"),
        *not_run(report.results),
        (summary.accepted, "accepted"),
    ]
    return ", ".join(f"{number} {word}" for number, word in numbers if number) or "nothing judged"


def worst(results: Iterable[Result]) -> Result | None:
    """The check whose page to read first; a broken plugin has no page."""
    of_checks = [result for result in results if result.id != result.area]
    return next((result for status in ("fail", "error", "warn") for result in of_checks if result.status == status), None)
