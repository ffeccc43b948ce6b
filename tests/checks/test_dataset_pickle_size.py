"""Sizes count for each worker of each rank, and only where there is a pickle."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_pickle_size import CHECK
from dl_doctor.facts.dataset_objects import Most
from dl_doctor.facts.dataset_trip import Heaviest
from dl_doctor.model import Ended, Unavailable
from dl_doctor.units import GIB, MIB
from tests.facts import dataset_objects, dataset_trip, loader_plan, memory_budget, start_methods


@pytest.mark.parametrize(
    ("trip", "plan", "status"),
    [
        ({"pickle_bytes": 64 * MIB}, {}, "pass"),
        ({"pickle_bytes": 64 * MIB + 1}, {}, "warn"),
        ({"pickle_bytes": 64 * MIB + 1}, {"num_workers": 0}, "pass"),
        ({"pickle_bytes": 64 * MIB + 1}, {"start_method": "fork"}, "pass"),
        ({"pickle_bytes": 16 * MIB}, {"num_workers": 161}, "warn"),  # a quarter of what is left
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

    verdict = CHECK.judge(dataset_trip(**trip), dataset_objects(), start_methods(), loader_plan(**plan), memory_budget(10 * GIB))

    assert verdict.status == status


@pytest.mark.parametrize(
    ("object_mib", "workers", "status"),
    [(60, 32, "pass"), (60, 43, "warn"), (60, 171, "fail"), (10, 43, "pass")],
)
def test_what_a_worker_makes_of_a_small_pickle_counts(object_mib: int, workers: int, status: str) -> None:
    """A million short strings are 16 MiB of pickle and 60 MiB of objects."""
    trip = dataset_trip("spawn", pickle_bytes=16 * MIB)
    objects = dataset_objects(object_bytes=object_mib * MIB, heaviest=Most("dataset.names", object_mib * MIB))
    plan = loader_plan(start_method="spawn", num_workers=workers)
    verdict = CHECK.judge(trip, objects, start_methods(), plan, memory_budget(10 * GIB))

    assert verdict.status == status
    assert [finding.subject for finding in verdict.findings] == ["dataset.names"] * (status != "pass")


def test_the_pickle_counts_where_objects_are_not_known() -> None:
    plan = loader_plan(start_method="spawn", num_workers=2)
    late = Unavailable.timeout("late")

    assert CHECK.judge(dataset_trip(pickle_bytes=65 * MIB), late, start_methods(), plan, memory_budget()).status == "warn"


def test_it_is_not_known_where_pickling_did_not_end() -> None:
    trip = dataset_trip("spawn", pickle_bytes=0)
    hung = type(trip)(ended=Ended(how="hung"))

    assert (
        CHECK.judge(hung, dataset_objects(), start_methods(), loader_plan(start_method="spawn"), memory_budget()).status == "skip"
    )


def test_the_heaviest_attribute_is_named() -> None:
    trip = dataset_trip("spawn", pickle_bytes=80 * MIB, heaviest=Heaviest("dataset.names", "list", 79 * MIB))
    plan = loader_plan(start_method="spawn", num_workers=4)
    (finding,) = CHECK.judge(trip, dataset_objects(), start_methods(), plan, memory_budget()).findings

    assert finding.subject == "dataset.names"
    assert "dataset.names (list, 79 MiB of pickle)" in finding.why
