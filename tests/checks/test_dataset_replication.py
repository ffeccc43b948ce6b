"""Objects count for each forked worker of each rank; a quarter of what is left warns, all of it fails."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_replication import CHECK
from dl_doctor.facts.dataset_objects import Most
from dl_doctor.model import Ended
from dl_doctor.units import GIB
from tests.facts import dataset_objects, loader_plan, memory_budget, start_methods


@pytest.mark.parametrize(
    ("gigabytes", "plan", "status"),
    [
        (1, {"num_workers": 4}, "pass"),  # 4 of 16 GiB
        (1, {"num_workers": 5}, "warn"),
        (1, {"num_workers": 16}, "warn"),
        (1, {"num_workers": 17}, "fail"),
        (1, {"num_workers": 9, "ranks": 2}, "fail"),
        (20, {"num_workers": 0}, "pass"),
        (20, {"num_workers": 4, "start_method": "spawn"}, "pass"),
        (3, {}, "pass"),  # how many workers is not known: one
    ],
)
def test_by_workers_and_memory(gigabytes: int, plan: dict[str, Any], status: str) -> None:
    objects = dataset_objects(object_bytes=gigabytes * GIB, objects=10_000_000, heaviest=Most("dataset.names", GIB))

    assert CHECK.judge(objects, start_methods(), loader_plan(**plan), memory_budget(16 * GIB)).status == status


def test_a_walk_that_did_not_end_is_an_error() -> None:
    objects = dataset_objects(ended=Ended(how="killed", signal="SIGSEGV"))

    assert CHECK.judge(objects, start_methods(), loader_plan(num_workers=2), memory_budget()).status == "error"
