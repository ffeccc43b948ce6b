"""Whether importing torch takes CPUs away, and from whom."""

from typing import Any

import pytest

from dl_doctor.checks.cpu.affinity_kept import CHECK
from dl_doctor.facts import Environment
from dl_doctor.model import Unavailable
from tests.facts import loader_plan, not_imported, torch_import

ALL = tuple(range(16))


@pytest.mark.parametrize(
    ("before", "after", "workers", "levels"),
    [
        (ALL, ALL, None, []),
        (ALL, (0,), None, ["fail"]),  # cases.md, fixture 8
        (ALL, (0,), 8, ["fail"]),
        (ALL, (0,), 0, ["note"]),  # nobody inherits it
        ((0,), (0,), 8, []),  # Slurm's doing, and not torch's
        ((0, 1), (0, 1, 2), 8, []),  # grown
        ((0, 1), (2, 3), 8, ["fail"]),  # as many, but others than were given
    ],
)
def test_masks(before: tuple[int, ...], after: tuple[int, ...], workers: int | None, levels: list[str]) -> None:
    torch = torch_import(affinity_before=before, affinity_after=after)
    verdict = CHECK.judge(torch, loader_plan(num_workers=workers), Environment({}))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"GOMP_CPU_AFFINITY": "0"}, ("unset GOMP_CPU_AFFINITY",)),
        ({"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}, ("unset OMP_PROC_BIND OMP_PLACES",)),
        ({}, ()),
    ],
)
def test_the_variable_is_named(variables: dict[str, str], command: tuple[str, ...]) -> None:
    torch = torch_import(affinity_before=ALL, affinity_after=(0,), openmp=("/venv/lib/libgomp.so.1",))
    (finding,) = CHECK.judge(torch, loader_plan(num_workers=8), Environment(variables)).findings

    assert finding.fixes[0].commands == command
    assert all(f"{name}={value}" in finding.summary for name, value in variables.items())
    assert "/venv/lib/libgomp.so.1" in finding.why


@pytest.mark.parametrize(("before", "code"), [(ALL, "range(0, 16)"), ((0, 2, 8), "{0, 2, 8}")])
def test_the_workers_get_back_what_there_was(before: tuple[int, ...], code: str) -> None:
    torch = torch_import(affinity_before=before, affinity_after=(0,))
    (finding,) = CHECK.judge(torch, loader_plan(num_workers=8), Environment({})).findings

    assert finding.fixes[-1].commands == (f"DataLoader(..., worker_init_fn=lambda worker: os.sched_setaffinity(0, {code}))",)


@pytest.mark.parametrize(
    ("torch", "status"),
    [
        (torch_import(affinity_before=None, affinity_after=None), "skip"),  # macOS
        (not_imported(how="raised", error="OSError: x"), "skip"),
    ],
)
def test_without_a_mask_to_look_at(torch: Any, status: str) -> None:
    assert CHECK.judge(torch, loader_plan(), Unavailable.failed("environment")).status == status
