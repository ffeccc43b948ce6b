"""Sizes count for each worker of each rank, and only where there is a pickle."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_pickle_size import CHECK
from dl_doctor.facts.dataset_trip import Heaviest
from dl_doctor.model import Ended
from dl_doctor.units import GIB, MIB
from tests.facts import dataset_trip, loader_plan, memory_budget, start_methods


@pytest.mark.parametrize(
    ("trip", "plan", "status"),
    [
        ({"pickle_bytes": 64 * MIB}, {}, "pass"),
        ({"pickle_bytes": 64 * MIB + 1}, {}, "warn"),
        ({"pickle_bytes": 64 * MIB + 1}, {"num_workers": 0}, "pass"),
        ({"pickle_bytes": 64 * MIB + 1}, {"start_method": "fork"}, "pass"),
        ({"pickle_bytes": 2 * GIB}, {}, "warn"),
        ({"pickle_bytes": 2 * GIB}, {"num_workers": 6}, "fail"),  # 12 of 10 GiB
        ({"pickle_bytes": 2 * GIB}, {"ranks": 3}, "fail"),
        ({"storage_bytes": 6 * GIB}, {}, "pass"),  # in shared memory, once
        ({"storage_bytes": 6 * GIB}, {"ranks": 2}, "fail"),
        ({"pickle_bytes": 10 * MIB, "stopped": "memory"}, {}, "warn"),  # at least
        ({"error": "TypeError: cannot pickle"}, {}, "skip"),
        ({"error": "TypeError: cannot pickle"}, {"start_method": "fork"}, "pass"),
    ],
)
def test_by_workers_and_memory(trip: dict[str, Any], plan: dict[str, Any], status: str) -> None:
    plan = {"start_method": "spawn", "num_workers": 2, **plan}

    assert CHECK.judge(dataset_trip(**trip), start_methods(), loader_plan(**plan), memory_budget(10 * GIB)).status == status


def test_it_is_not_known_where_pickling_did_not_end() -> None:
    trip = dataset_trip("spawn", pickle_bytes=0)
    hung = type(trip)(ended=Ended(how="hung"))

    assert CHECK.judge(hung, start_methods(), loader_plan(start_method="spawn"), memory_budget()).status == "skip"


def test_the_heaviest_attribute_is_named() -> None:
    trip = dataset_trip("spawn", pickle_bytes=80 * MIB, heaviest=Heaviest("dataset.names", "list", 79 * MIB))
    (finding,) = CHECK.judge(trip, start_methods(), loader_plan(start_method="spawn", num_workers=4), memory_budget()).findings

    assert finding.subject == "dataset.names"
    assert "dataset.names (list, 79 MiB)" in finding.why
