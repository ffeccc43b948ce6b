"""Descriptors are counted per process: what is open, four for the loader and each worker, one for each tensor in flight."""

from typing import Any

import pytest

from dl_doctor.checks.limits.fd_limit import CHECK
from tests.facts import limits, loader_plan

PLUMBING = 3 + 4 + 4 * 8
BEST = PLUMBING + 100 * (2 + 1)
WORST = PLUMBING + 100 * (8 * 2 + 2)


@pytest.mark.parametrize(
    ("soft", "status"),
    [(BEST - 1, "fail"), (BEST, "warn"), (WORST - 1, "warn"), (WORST, "pass"), (None, "pass")],
)
def test_against_the_tensors_in_flight(soft: int | None, status: str) -> None:
    verdict = CHECK.judge(limits(open_files_soft=soft), loader_plan(num_workers=8, tensors_per_batch=100))

    assert verdict.status == status


@pytest.mark.parametrize(
    ("soft", "plan", "levels"),
    [
        (255, {}, ["note"]),
        (8, {}, ["note"]),  # there may be no workers
        (256, {}, []),
        (64, {"num_workers": 0}, []),  # nothing is handed over
        (64, {"num_workers": 8}, ["note"]),
        (3 + 10, {"num_workers": 1}, ["fail"]),  # measured: a loader with one forked worker works from 11 on, with two from 15
        (3 + 11, {"num_workers": 1}, ["warn"]),
        (3 + 14, {"num_workers": 2}, ["fail"]),
        (3 + 15, {"num_workers": 2}, ["warn"]),
        (PLUMBING + 2, {"num_workers": 8}, ["fail"]),  # a batch holds one tensor at least
        (PLUMBING + 3, {"num_workers": 8}, ["warn"]),
        (PLUMBING + 17, {"num_workers": 8}, ["warn"]),
        (PLUMBING + 18, {"num_workers": 8}, ["note"]),
        (1024, {"num_workers": 8}, []),  # unknown is no reason to warn
    ],
)
def test_with_an_unknown_number_of_tensors(soft: int, plan: dict[str, Any], levels: list[str]) -> None:
    verdict = CHECK.judge(limits(open_files_soft=soft), loader_plan(**plan))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(("hard", "own"), [(1_048_576, True), (None, True), (WORST - 1, False)])
def test_the_program_can_raise_its_limit_only_up_to_the_hard_one(hard: int | None, own: bool) -> None:
    verdict = CHECK.judge(limits(open_files_soft=1024, open_files_hard=hard), loader_plan(num_workers=8, tensors_per_batch=100))
    commands = [command for fix in verdict.findings[0].fixes for command in fix.commands]

    assert any("setrlimit" in command for command in commands) is own
    assert verdict.findings[0].fix_for("docker").commands == ("docker run --ulimit nofile=65536:65536 ...",)


@pytest.mark.parametrize(("tensors", "levels"), [(3_000, []), (4_000, ["warn"])])
def test_mappings(tensors: int, levels: list[str]) -> None:
    """18 batches of 3,000 tensors are 54,000 mappings, of 4,000 they are 72,000."""
    verdict = CHECK.judge(limits(), loader_plan(num_workers=8, tensors_per_batch=tensors))

    assert [finding.level for finding in verdict.findings] == levels
