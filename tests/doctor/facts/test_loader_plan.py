"""What the plan takes from the options, from the loader and from its batches."""

from typing import Any

import pytest

from dl_doctor.units import MIB
from tests.facts import batches, loader, loader_arguments, loader_plan, start_methods

MEASURED = batches(batch_bytes=24 * MIB, tensors=3, pipe_bytes=MIB, held_bytes=512 * MIB)


@pytest.mark.parametrize(
    ("options", "batch_bytes", "source"),
    [
        ({}, 24 * MIB, "the largest of 8 that were measured"),
        ({"batch_bytes": 5 * MIB}, 5 * MIB, "by --batch-bytes"),
        ({"batch_bytes": 0}, 0, "by --batch-bytes"),
    ],
)
def test_options_go_before_what_was_measured(options: dict[str, Any], batch_bytes: int, source: str) -> None:
    plan = loader_plan(num_workers=8, batches=MEASURED, **options)

    assert (plan.batch_bytes, plan.tensors_per_batch, plan.pipe_bytes) == (batch_bytes, 3, MIB)
    assert f"({source})" in plan.arithmetic


def test_what_was_predicted_counts_where_nothing_was_made() -> None:
    plan = loader_plan(num_workers=8, batches=batches(made=0, batch_bytes=None, tensors=None, predicted_bytes=900 * MIB))

    assert (plan.batch_bytes, plan.tensors_per_batch) == (900 * MIB, None)
    assert "(predicted from its first sample)" in plan.arithmetic


@pytest.mark.parametrize(
    ("options", "own", "default", "moves"),
    [
        ({}, None, "fork", False),
        ({}, None, "forkserver", True),  # of Python 3.14
        ({"start_method": "spawn"}, None, "fork", True),
        ({"start_method": "fork"}, None, "forkserver", False),
        ({}, "spawn", "fork", True),
        ({"start_method": "fork"}, "spawn", "fork", False),
    ],
)
def test_what_the_dataset_holds_moves_where_workers_are_spawned(
    options: dict[str, Any], own: str | None, default: str, moves: bool
) -> None:
    made = loader(loader_arguments(start_method=own))
    methods = start_methods(available=(default, *({"fork", "spawn", "forkserver"} - {default})))
    plan = loader_plan(loader=made, methods=methods, batches=MEASURED, **options)

    assert plan.held_bytes == (512 * MIB if moves else 0)
    assert plan.shm_need_bytes == 10 * 24 * MIB + plan.held_bytes + 4096 * (8 + 3 * 4)
    assert ("512 MiB of tensors that the dataset holds" in plan.arithmetic) is moves


def test_what_goes_through_a_pipe_is_memory_of_each_batch_in_flight() -> None:
    plain = loader_plan(num_workers=8, batches=batches(pipe_bytes=0))
    piped = loader_plan(num_workers=8, batches=batches(pipe_bytes=MIB))

    assert plain.memory_need_bytes is not None
    assert piped.memory_need_bytes == plain.memory_need_bytes + 18 * MIB
    assert piped.shm_need_bytes == plain.shm_need_bytes


@pytest.mark.parametrize(("method", "moved"), [("fork", 4 * MIB), ("spawn", MIB)])
def test_what_batches_show_of_the_dataset_moves_once(method: Any, moved: int) -> None:
    """In each forked worker its copy; before workers are spawned all of it, which they then share."""
    kept = batches(batch_bytes=0, kept_bytes=MIB, held_bytes=MIB)

    assert loader_plan(num_workers=4, start_method=method, batches=kept).shm_need_bytes == moved + 4096 * (8 + 3 * 4)
