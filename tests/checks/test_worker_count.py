"""Workers are counted against the CPUs that a rank may use, not against those that it sees."""

from typing import Any

import pytest

from dl_doctor.checks.workers.worker_count import CHECK
from dl_doctor.facts import CpuBudget, LoaderPlan
from dl_doctor.model import Unavailable, Verdict
from tests.facts import cpu_budget, cpu_limit, fitting, loader, loader_arguments, loader_plan, loader_sweep


def judged(cpu: CpuBudget, plan: LoaderPlan) -> Verdict:
    return CHECK.judge(cpu, plan, fitting(plan, cpu), Unavailable.not_asked("needs --profile deep"))


@pytest.mark.parametrize(
    ("workers", "conclusion", "status", "summary"),
    [
        (2, "change", "warn", "4 workers load 1.9 times as fast as 2"),
        (6, "change", "pass", "4 workers load 1.03 times as fast as 6"),  # not worth a warning
        (4, "keep", "pass", "No change needed: 4 workers"),
        (16, "change", "pass", "Set num_workers=4"),  # which was not measured, and far beyond what the rule allows
        (None, "change", "pass", "Set num_workers=4"),
    ],
)
def test_where_it_was_measured_that_decides(workers: int | None, conclusion: Any, status: str, summary: str) -> None:
    plan = loader_plan(num_workers=workers)
    verdict = CHECK.judge(cpu_budget(cpu_limit(1)), plan, fitting(plan), loader_sweep(conclusion))

    assert verdict.status == status
    assert [finding.summary for finding in verdict.findings] == [summary]


def test_what_was_too_noisy_leaves_it_to_the_rule() -> None:
    plan = loader_plan(num_workers=8)
    verdict = CHECK.judge(cpu_budget(cpu_limit(1)), plan, fitting(plan), loader_sweep("too_noisy"))

    assert [finding.summary for finding in verdict.findings][:: len(verdict.findings) - 1] == [
        "8 workers share 1 CPU",
        "Too_noisy",
    ]


@pytest.mark.parametrize(
    ("cpus", "workers", "status"),
    [
        (8, 12, "pass"),
        (8, 13, "warn"),
        (2, 3, "pass"),
        (2, 4, "warn"),
        (0.5, 1, "pass"),  # one worker is never too many
        (0.5, 2, "warn"),
        (8, 0, "pass"),
        (8, None, "pass"),
    ],
)
def test_workers_per_cpu(cpus: float, workers: int | None, status: str) -> None:
    verdict = judged(cpu_budget(cpu_limit(64), cpu_limit(cpus, "quota")), loader_plan(num_workers=workers))

    assert verdict.status == status


@pytest.mark.parametrize(("cpus", "suggestion"), [(64, 63), (8, 7), (3.9, 2), (2, 1), (1, 1), (0.5, 1)])
def test_the_suggestion_leaves_a_cpu_to_the_main_process(cpus: float, suggestion: int) -> None:
    note = judged(cpu_budget(cpu_limit(64), cpu_limit(cpus, "quota")), loader_plan()).findings[0]

    assert (note.level, note.summary) == ("note", f"Start with num_workers={suggestion}")


@pytest.mark.parametrize(
    ("limits", "workers", "told"),
    [
        ([cpu_limit(64), cpu_limit(2, "quota")], 2, "PyTorch's own hint would say 64"),
        ([cpu_limit(64, shared_by=8)], 8, "misses the ranks that share them"),
        ([cpu_limit(2)], 3, "PyTorch will warn about 3 workers on 2 CPUs"),
    ],
)
def test_where_pytorchs_own_hint_is_wrong(limits: list[Any], workers: int, told: str) -> None:
    verdict = judged(cpu_budget(*limits), loader_plan(num_workers=workers))

    assert verdict.status == "pass"
    assert any(told in finding.summary for finding in verdict.findings)


def test_where_pytorchs_hint_is_right_nothing_is_said() -> None:
    assert judged(cpu_budget(cpu_limit(8)), loader_plan(num_workers=8)).findings == []


def test_more_cpus_are_offered_only_where_there_are_as_many() -> None:
    plan = loader_plan(num_workers=8)
    few = judged(cpu_budget(cpu_limit(2), cpu_limit(0.5, "quota"), node_cpus=2), plan).findings[0]
    many = judged(cpu_budget(cpu_limit(64), cpu_limit(0.5, "quota")), plan).findings[0]

    assert not any("docker" in fix.runtimes for fix in few.fixes)
    assert many.fix_for("docker").commands == ("docker run --cpus=6 ...",)
    assert judged(cpu_budget(cpu_limit(64), cpu_limit(6, "quota")), plan).status == "pass"


@pytest.mark.parametrize(
    ("limits", "command"),
    [
        ([cpu_limit(2), cpu_limit(2, "cpuset")], "docker run --cpuset-cpus=0-5 ..."),  # more time on the same CPUs is no help
        ([cpu_limit(2)], "docker run --cpuset-cpus=0-5 ..."),
        ([cpu_limit(2), cpu_limit(0.5, "quota")], "docker run --cpuset-cpus=0-5 --cpus=6 ..."),
    ],
)
def test_what_binds_is_what_is_widened(limits: list[Any], command: str) -> None:
    (finding,) = judged(cpu_budget(*limits), loader_plan(num_workers=8)).findings

    assert finding.fix_for("docker").commands == (command,)


@pytest.mark.parametrize(
    ("options", "workers", "source"),
    [
        ({}, 6, "num_workers of the loader"),
        ({"num_workers": 8}, 8, "--num-workers"),  # what is said goes before what the loader has
    ],
)
def test_where_the_number_is_from_is_told(options: dict[str, int], workers: int, source: str) -> None:
    plan = loader_plan(loader=loader(loader_arguments(num_workers=6)), **options)
    verdict = judged(cpu_budget(cpu_limit(64), cpu_limit(2, "quota")), plan)
    (finding,) = verdict.findings

    assert finding.measured is not None
    assert (finding.measured.value, finding.measured.source) == (workers, source)
    assert f"({source})" in verdict.seen
    assert "PyTorch's own hint would say 64" in finding.why
