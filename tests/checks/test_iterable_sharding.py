"""Everything in each worker warns; what is shared out, random or made up does not. Real workers' items."""

from collections import Counter
from typing import Any

import pytest

from dl_doctor.checks.dataset.iterable_sharding import CHECK
from dl_doctor.facts import worker_draws
from dl_doctor.facts.worker_draws import Draws, WorkerDraws, draws_of
from dl_doctor.model import Ended
from dl_doctor.probing import Probed
from tests.examined import examined
from tests.facts import ANSWERED, dataset_samples, loader, loader_plan, trouble

ITEMS = tuple(map(str, range(64)))


@pytest.mark.parametrize(
    ("name", "status", "subject"),
    [
        ("all_in_each", "warn", "dataset.__iter__"),
        ("all_of_few", "warn", "dataset.__iter__"),  # and there are no more
        ("shared_out", "pass", None),
        ("shuffled_in_each", "warn", "dataset.__iter__"),  # by the seed of each
        ("noisy", "warn", "dataset.__iter__"),
        ("constant", "skip", None),
        ("noise", "pass", None),
        ("one_worker", "pass", None),
        ("two_shards", "warn", "dataset.num_shards"),
        ("images", "skip", None),
    ],
)
def test_real_items(torch_python: str, name: str, status: str, subject: str | None) -> None:
    made, draws = examined(torch_python, name, worker_draws.collect)
    verdict = CHECK.judge(draws, made, loader_plan(loader=made), dataset_samples())

    assert verdict.status == status
    assert [finding.subject for finding in verdict.findings] == ([subject] if subject else [])


def items(*first: str, exhausted: bool = False) -> Draws:
    return Draws(ended=ANSWERED, first=first, exhausted=exhausted, taken=len(first), distinct=len(set(first)))


@pytest.mark.parametrize(
    ("one", "other", "plan", "status"),
    [
        (items(*ITEMS), items(*ITEMS), {"num_workers": 4}, "warn"),
        (items(*ITEMS), items(*ITEMS), {}, "warn"),
        (items(*ITEMS), items(*ITEMS), {"num_workers": 1}, "pass"),
        (items(*ITEMS), items(*ITEMS[::-1]), {"num_workers": 4}, "pass"),  # shuffled in each, and there are more: noted
        (items(*ITEMS, exhausted=True), items(*ITEMS[::-1], exhausted=True), {"num_workers": 4}, "warn"),
        (items(*ITEMS, exhausted=True), items(*ITEMS[1:], exhausted=True), {"num_workers": 4}, "warn"),  # shares that overlap
        (items(*ITEMS, exhausted=True), items(*ITEMS[1:], exhausted=True), {"num_workers": 1}, "pass"),
        (items(*"aabbcc", exhausted=True), items(*"abddee", exhausted=True), {"num_workers": 4}, "pass"),  # labels
        (items(*"x" * 64), items(*"x" * 64), {"num_workers": 4}, "skip"),
        (items(*ITEMS[:40]), items(*ITEMS[:38]), {"num_workers": 4}, "warn"),  # one was slower
        (items(*ITEMS[:15]), items(*ITEMS[:15]), {"num_workers": 4}, "pass"),  # too few to say, and there are more
        (items(*ITEMS[:15], exhausted=True), items(*ITEMS[:15], exhausted=True), {"num_workers": 4}, "warn"),
        (items(exhausted=True), items(exhausted=True), {"num_workers": 4}, "pass"),  # others may have them: noted
        (items(*ITEMS), items(exhausted=True), {"num_workers": 4}, "pass"),
    ],
)
def test_what_is_made_of_items(one: Draws, other: Draws, plan: dict[str, Any], status: str) -> None:
    draws = WorkerDraws(workers=(one, other), in_both=(Counter(one.first) & Counter(other.first)).total())

    assert CHECK.judge(draws, loader(kind="iterable"), loader_plan(**plan), dataset_samples()).status == status


NUMBERS, OTHERS = list(map(str, range(40))), list(map(str, range(40, 80)))
CLASSES = [str(number % 7) for number in range(40)]


@pytest.mark.parametrize(
    ("one", "other", "seeded", "level", "said"),
    [
        (NUMBERS, NUMBERS, True, "warn", "Two workers give the same 40 values of item['y']: every sample comes 4 times"),
        (NUMBERS, NUMBERS[:30], True, "warn", "Two workers give the same 30 values of item['y']: every sample comes 4 times"),
        (NUMBERS, OTHERS, True, None, None),  # everything is random
        (NUMBERS, OTHERS, False, None, None),  # shares
        (NUMBERS, NUMBERS, False, "note", "Of item['y'], two workers gave 40 of the same values among 40"),  # own counts
        (NUMBERS, NUMBERS[::-1], True, "note", "Of item['y'], two workers gave 40 of the same values among 40"),  # and more
        (NUMBERS, NUMBERS[::-1], False, None, None),  # shares, and a number of each that is no key
        (CLASSES, CLASSES, False, None, None),  # sorted shares
        (CLASSES, CLASSES, True, "note", "Of item['y'], two workers gave 40 of the same values among 40"),
        (["0"] * 40, ["0"] * 40, True, None, None),
        (NUMBERS[:15], NUMBERS[:15], True, None, None),  # too few to say
    ],
)
def test_parts_of_items_that_are_changed_at_random(
    one: list[str], other: list[str], seeded: bool, level: str | None, said: str | None
) -> None:
    first, second = [f"x{number}" for number in range(len(one))], [f"y{number}" for number in range(len(other))]
    told = [{"first": first, "parts": {"['y']": one}}, {"first": second, "parts": {"['y']": other}}]
    twin = {"first": first if seeded else [f"z{item}" for item in second]}
    draws = draws_of("iterable", [Probed(answer, ANSWERED) for answer in (*told, twin)])
    findings = CHECK.judge(draws, loader(kind="iterable"), loader_plan(num_workers=4), dataset_samples()).findings

    assert [(finding.level, finding.summary) for finding in findings] == ([(level, said)] if level else [])


@pytest.mark.parametrize(("shards", "workers", "levels"), [(4, 4, []), (3, 4, ["warn"]), (3, 0, []), (None, 4, [])])
def test_shards_for_workers(shards: int | None, workers: int, levels: list[str]) -> None:
    draws = WorkerDraws(workers=(items("a", "b"), items("c")), shards=shards)
    findings = CHECK.judge(draws, loader(kind="iterable"), loader_plan(num_workers=workers), dataset_samples()).findings

    assert [finding.level for finding in findings] == levels


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (items(*ITEMS), items(exhausted=True), "Worker 1 gets no item, of 4 workers"),
        (items(exhausted=True), items(exhausted=True), "Worker 0 and worker 1 get no item, of 4 workers"),
    ],
)
def test_a_worker_without_items_is_noted(one: Draws, other: Draws, said: str) -> None:
    draws = WorkerDraws(workers=(one, other))
    (finding,) = CHECK.judge(draws, loader(kind="iterable"), loader_plan(num_workers=4), dataset_samples()).findings

    assert (finding.level, finding.summary) == ("note", said)


def test_an_item_that_raises_is_told_by_dataset_sample() -> None:
    raised = Draws(ended=Ended(how="raised", error="ValueError: record 37 is damaged"))
    draws, made, plan = WorkerDraws(workers=(raised, raised)), loader(kind="iterable"), loader_plan(num_workers=4)

    assert CHECK.judge(draws, made, plan, dataset_samples(trouble=trouble())).status == "skip"
    assert CHECK.judge(draws, made, plan, dataset_samples()).status == "error"
