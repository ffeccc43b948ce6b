"""Samples that do not fit fail and are named; what could not be made is not called a pass."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_collate import CHECK
from dl_doctor.facts.trouble import Misfit, Trouble
from dl_doctor.model import Ended
from dl_doctor.units import GIB
from tests.facts import batches, loader_plan

NOTHING = {"made": 0, "samples": None, "batch_bytes": None, "tensors": None, "pipe_bytes": None}


def trouble(stage: Any, error: str = "RuntimeError: stack expects each tensor to be equal size", **fields: Any) -> dict[str, Any]:
    return {**NOTHING, "trouble": Trouble(stage=stage, indices=("0", "5"), error=error, trace="", **fields)}


@pytest.mark.parametrize(
    ("fields", "workers", "status"),
    [
        ({}, 4, "pass"),
        (trouble("collate"), 4, "fail"),
        (trouble("collate"), 0, "fail"),  # the main process collates in the same way
        (trouble("collate", "MemoryError"), 4, "error"),
        (trouble("hand over", "RuntimeError: Cowardly refusing"), 4, "fail"),
        (trouble("hand over", "RuntimeError: Cowardly refusing"), None, "fail"),
        (trouble("hand over", "RuntimeError: Cowardly refusing"), 0, "pass"),
        (trouble("read", "FileNotFoundError: x"), 4, "skip"),  # dataset-sample tells it
        ({**NOTHING, "predicted_bytes": 64 * GIB}, 4, "error"),
        ({**NOTHING, "ended": Ended(how="killed", signal="SIGSEGV", step="collate samples 0, 1")}, 4, "fail"),
        ({**NOTHING, "ended": Ended(how="killed", signal="SIGSEGV", step="read samples 0, 1")}, 4, "error"),
        ({**NOTHING, "ended": Ended(how="hung", step="collate samples 0, 1")}, 4, "error"),
        (trouble("collate", cpu_s=0.1), 4, "fail"),  # it waits, and so would a worker
        (trouble("collate", cpu_s=19.0), 4, "error"),
        ({**trouble("collate", cpu_s=0.1), "like_the_job": False}, 4, "error"),
        (trouble("read", cpu_s=0.1, last_s=1.0), 4, "error"),  # each sample came, and together they take long
        (trouble("read", cpu_s=0.1, last_s=19.9), 4, "skip"),  # one does not come: dataset-sample has it
        (trouble("read", cpu_s=19.0, last_s=19.9), 4, "error"),
        (NOTHING, 4, "error"),  # an empty dataset
    ],
)
def test_status(fields: dict[str, Any], workers: int | None, status: str) -> None:
    assert CHECK.judge(batches(**fields), loader_plan(num_workers=workers)).status == status


def test_the_two_samples_are_named() -> None:
    misfit = Misfit(path="sample['image']", first=("0", "float32 (3, 32, 32)"), second=("5", "float32 (3, 32, 31)"))
    (finding,) = CHECK.judge(batches(**trouble("collate", misfit=misfit)), loader_plan()).findings

    assert finding.summary == (
        "Samples 0 and 5 do not fit into one batch: sample['image'] is float32 (3, 32, 32) and float32 (3, 32, 31)"
    )


def test_what_a_batch_takes_is_told() -> None:
    seen = CHECK.judge(batches(pipe_bytes=300), loader_plan()).seen

    assert seen == "8 batches of up to 32 samples: 24 MiB of shared memory in 1 tensor, 300 bytes through a pipe"
