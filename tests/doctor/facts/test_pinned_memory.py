"""Pinned memory, asked of a torch of our own; and where nobody is asked."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import GpuGrant, LoaderPlan, PinnedMemory, Slurm, TorchFiles, pinned_memory
from dl_doctor.facts.pinned_memory import needed
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.units import GIB, MIB
from tests import facts
from tests.collected import collected
from tests.fakes import Fakes, lay_torch

GPU = facts.gpu_grant(nodes=("nvidia0",))
NO_SLURM = Unavailable.absent("no Slurm here")


def asked(
    *,
    plan: LoaderPlan | None = None,
    gpus: GpuGrant = GPU,
    files: TorchFiles | None = None,
    headroom: int = 200 * GIB,
    slurm: Slurm | Unavailable = NO_SLURM,
    **settings: Any,
) -> PinnedMemory | Unavailable:
    plan = plan or facts.loader_plan(num_workers=1, batch_bytes=24 * MIB, pin_memory=True)
    given = (plan, gpus, facts.target(path=sys.executable), files or facts.torch_files(), facts.allowance(headroom))
    found: PinnedMemory | Unavailable = collected(pinned_memory.collect, Settings(**settings), *given, slurm)
    return found


@pytest.fixture
def _machine(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU, and a torch of ours that sees it."""
    (tmp_path / "gpus").write_text("count=1\n")
    monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib")))
    monkeypatch.setenv("PYTHONPATH", str(lay_torch(tmp_path / "packages")))


@pytest.mark.usefixtures("_machine")
@pytest.mark.parametrize(
    ("variables", "pinned", "error", "copies"),
    [
        ({}, 4, None, True),
        ({"FAKE_PINNED_BYTES": str(100 * MIB)}, 3, "RuntimeError: CUDA error: out of memory", False),
        ({"FAKE_PINNED_BYTES": "0"}, 0, "RuntimeError: CUDA error: out of memory", False),
        ({"FAKE_NO_COPIES": "1"}, 4, None, False),
    ],
)
def test_as_much_as_the_batches_in_flight_is_pinned(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], pinned: int, error: str | None, copies: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = asked()

    assert isinstance(told, PinnedMemory), told
    assert (told.available, told.batches, told.pinned_batches) == (True, 4, pinned), told
    assert (told.error or "").startswith(error or "")
    assert (told.error is None) is (error is None)
    assert (told.pinned_s is not None) is copies
    assert told.pinned_s is None or told.pageable_s is None or told.pageable_s > 2 * told.pinned_s


@pytest.mark.usefixtures("_machine")
def test_a_torch_that_sees_no_gpu_pins_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    told = asked()

    assert isinstance(told, PinnedMemory), told
    assert (told.ended.how if told.ended else None, told.available, told.pinned_batches) == ("answered", False, 0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"gpus": facts.gpu_grant()}, "no GPU here"),
        ({"slurm": facts.slurm(gpus=())}, "this Slurm job was granted no GPU"),
        ({"files": facts.torch_files(None)}, "is not PyTorch"),
        ({"pin_memory": False}, "--no-pin-memory"),
        ({"plan": facts.loader_plan(num_workers=4)}, "--batch-bytes"),
        ({"plan": facts.loader_plan(batch_bytes=MIB)}, "--num-workers"),
    ],
)
def test_where_nothing_is_tried(given: dict[str, Any], why: str) -> None:
    told = asked(**given)

    assert isinstance(told, Unavailable)
    assert why in told.detail


def test_more_than_a_quarter_of_the_memory_is_not_tried() -> None:
    told = asked(headroom=4 * GIB)

    assert isinstance(told, PinnedMemory)
    assert told.refused == "with torch and CUDA it would take 1.12 GiB, and a quarter of the memory that is left is 1 GiB"


@pytest.mark.parametrize(
    ("batch", "tensors", "in_flight", "block", "batches", "wanted"),
    [
        (24 * MIB, 1, 4, 32 * MIB, 4, 128 * MIB),
        (32 * MIB, 1, 4, 32 * MIB, 4, 128 * MIB),
        (33 * MIB, 1, 4, 64 * MIB, 4, 256 * MIB),
        (24 * MIB, 8, 4, 4 * MIB, 4, 128 * MIB),
        (300 * MIB, 1, 18, 512 * MIB, 2, 9 * GIB),  # no more than 1 GiB is tried
        (3 * GIB, 1, 4, 4 * GIB, 1, 16 * GIB),  # but one batch is
        (5, 10, 4, 1, 4, 40),
    ],
)
def test_blocks_are_powers_of_two(batch: int, tensors: int, in_flight: int, block: int, batches: int, wanted: int) -> None:
    told = PinnedMemory(**needed(batch, tensors, in_flight))

    assert told.bytes_of_a_batch == block * tensors
    assert (told.batches, told.wanted_bytes) == (batches, wanted)
