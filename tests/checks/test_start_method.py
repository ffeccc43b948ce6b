"""A method that is not there fails; defaults that change are worth a note and no more."""

from typing import Any

import pytest

from dl_doctor.checks.workers.start_method import CHECK
from tests.facts import loader_plan, start_methods

IN_3_14 = {"python": (3, 14, 0), "available": ("forkserver", "spawn", "fork")}


@pytest.mark.parametrize(
    ("methods", "plan", "levels", "seen"),
    [
        ({}, {}, ["note"], "fork (this Python's default"),
        ({}, {"num_workers": 0}, [], "without workers"),
        ({}, {"start_method": "fork"}, [], "fork (--start-method)"),  # said, so no default decides
        ({}, {"start_method": "spawn"}, [], "spawn (--start-method)"),
        ({"chosen": "spawn"}, {}, [], "spawn (set where"),
        ({"chosen": "spawn"}, {"start_method": "fork"}, [], "fork (--start-method)"),
        (IN_3_14, {}, ["note"], "forkserver (this Python's default"),
        ({"available": ("spawn",)}, {}, [], "spawn"),  # Windows, where nothing changes
        ({"available": ("spawn", "fork", "forkserver")}, {}, [], "spawn"),  # macOS since 3.8
        ({"available": ("fork", "spawn")}, {}, [], "fork"),  # no forkserver without passing descriptors: it stays fork
        ({"available": ("spawn",)}, {"start_method": "fork"}, ["fail"], "fork (--start-method)"),
        ({"available": ("fork", "spawn")}, {"start_method": "forkserver", "num_workers": 4}, ["fail"], "forkserver"),
    ],
)
def test_the_method_in_force(methods: dict[str, Any], plan: dict[str, Any], levels: list[str], seen: str) -> None:
    verdict = CHECK.judge(start_methods(**methods), loader_plan(**plan))

    assert [finding.level for finding in verdict.findings] == levels
    assert seen in verdict.seen
