"""CUDA_VISIBLE_DEVICES as CUDA reads it: from the left, up to the first entry that names no GPU."""

import pytest

from dl_doctor.model import Unavailable
from tests.facts import gpu, nvml, nvml_error, visible_gpus

ONE, FOUR = nvml(count=1), nvml(count=4)
NAMED = nvml(gpu(0, uuid="GPU-8f6c1111-aaaa"), gpu(1, uuid="GPU-8f6c2222-bbbb"))
DIVIDED = nvml(gpu(0, mig=True))


@pytest.mark.parametrize(
    ("told", "known", "count", "stopped_at", "hidden"),
    [
        (None, FOUR, 4, None, False),
        ("", FOUR, 0, None, True),
        ("-1", FOUR, 0, None, True),
        ("NoDevFiles", FOUR, 0, None, True),  # Slurm, for a job without GPUs
        ("10000", FOUR, 0, None, True),  # HTCondor
        ("0", FOUR, 1, None, False),
        ("2,-1", FOUR, 1, None, False),  # -1 ends the list
        ("2,-1,3", FOUR, 1, None, False),
        ("2, 3", FOUR, 2, None, False),
        ("3,2,1,0", FOUR, 4, None, False),
        ("1gpu2", FOUR, 1, None, False),  # strtoul
        ("+1", FOUR, 1, None, False),
        ("7", ONE, 0, "7", False),  # right outside of the container
        ("0,7", ONE, 1, "7", False),
        ("all", ONE, 0, "all", False),
        ("0,,1", FOUR, 1, "", False),
        ("0,0", FOUR, 0, None, False),
        ("GPU-8f6c1", NAMED, 1, None, False),  # shortened
        ("GPU-8f6c", NAMED, 0, "GPU-8f6c", False),  # it could be either
        ("GPU-8f6c2222-bbbb,GPU-8f6c1111-aaaa", NAMED, 2, None, False),
        ("GPU-8f6c2222,0", NAMED, 1, "0", False),  # numbers and UUIDs do not mix
        ("GPU-dead", NAMED, 0, "GPU-dead", False),
        ("MIG-41b3", DIVIDED, None, None, False),
        ("0", DIVIDED, None, None, False),
        (None, DIVIDED, None, None, False),
        ("", DIVIDED, 0, None, True),
        ("7", nvml_error("UNKNOWN"), None, None, False),  # nobody knows how many there are
        (None, Unavailable.absent("a test"), None, None, False),
        ("-1", Unavailable.absent("a test"), 0, None, True),
        ("x", Unavailable.absent("a test"), 0, "x", False),
    ],
)
def test_what_is_shown(told: str | None, known: object, count: int | None, stopped_at: str | None, hidden: bool) -> None:
    visible = visible_gpus(known, told)  # type: ignore[arg-type]

    assert (visible.count, visible.stopped_at, visible.hidden) == (count, stopped_at, hidden)


@pytest.mark.parametrize(("told", "repeated"), [("0,0", "0"), ("1,0,01", "01"), ("GPU-8f6c1,GPU-8f6c1", "GPU-8f6c1")])
def test_what_stands_twice_empties_the_list(told: str, repeated: str | None) -> None:
    assert visible_gpus(NAMED, told).repeated == repeated
