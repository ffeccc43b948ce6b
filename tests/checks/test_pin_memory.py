"""Memory that cannot be pinned fails a loader that pins; one that does not is told what it would buy."""

from typing import Any

import pytest

from dl_doctor.checks.workers.pin_memory import CHECK
from dl_doctor.model import Ended, Unavailable, Verdict
from dl_doctor.units import GIB, MIB
from tests.facts import loader_plan, loader_sweep, pinned_memory

ERROR = "RuntimeError: CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"


NOT_MEASURED = Unavailable.not_asked("needs --profile deep")


def judged(pins: bool | None, sweep: Any = NOT_MEASURED, batch_size: int | None = 32, **fields: Any) -> Verdict:
    plan = loader_plan(num_workers=8, batch_bytes=24 * MIB, batch_size=batch_size, pin_memory=pins)
    return CHECK.judge(pinned_memory(**fields), plan, sweep)


@pytest.mark.parametrize(
    ("pins", "fields", "status", "levels"),
    [
        (True, {}, "pass", []),
        (False, {}, "pass", ["note"]),  # it would be faster
        (None, {}, "pass", ["note"]),
        (False, {"pageable_s": 0.00101}, "pass", []),  # as on GH200 and Jetson
        (True, {"pinned_batches": 15, "error": ERROR}, "fail", ["fail"]),
        (False, {"pinned_batches": 15, "error": ERROR}, "pass", []),  # it does not want to
        (True, {"pinned_s": None, "pageable_s": None, "copy_error": ERROR}, "pass", []),  # the GPU is full, and it pins
        (True, {"refused": "it would take more"}, "pass", []),
        (True, {"available": False}, "skip", []),  # gpu-visible says why
        (True, {"ended": Ended(how="raised", error="RuntimeError: no", step="begin CUDA")}, "error", []),
        (True, {"ended": Ended(how="hung", step="pin memory")}, "error", []),
    ],
)
def test_by_what_the_loader_wants(pins: bool | None, fields: dict[str, Any], status: str, levels: list[str]) -> None:
    verdict = judged(pins, **fields)

    assert (verdict.status, [finding.level for finding in verdict.findings]) == (status, levels)


def test_what_can_be_pinned_is_held_against_all_batches_in_flight() -> None:
    (finding,) = judged(True, pinned_batches=15, error=ERROR).findings

    assert finding.summary == "480 MiB can be pinned, and the batches in flight take 576 MiB"
    assert "RuntimeError: CUDA error: out of memory." in finding.why
    assert "TORCH_USE_CUDA_DSA" not in finding.why


def test_not_all_are_tried_where_they_are_large() -> None:
    assert judged(True, batches=4, wanted_bytes=GIB).seen.startswith("4 batches of 32 MiB were pinned, and not all 1 GiB")


def test_the_copies_are_told() -> None:
    assert "one is copied in 1 ms, and in 4 ms if not pinned" in judged(True).seen


@pytest.mark.parametrize(
    ("sweep", "fields", "told"),
    [
        # 32 samples at the 380 a second of the recommended setting: a batch every 84 ms, of which pinning saves 3
        (loader_sweep("change"), {}, "That saves 3.56 % of the time between two batches"),
        (loader_sweep("change"), {"pageable_s": 0.003}, None),  # 2 ms: it is there, and not worth a word
        (loader_sweep("change", demand_samples_per_s=100.0), {}, None),  # the step takes no more: a batch every 320 ms
        (loader_sweep("change", demand_samples_per_s=9000.0), {}, "That saves 3.56 %"),  # it cannot have them faster
        (loader_sweep("too_noisy"), {}, "non_blocking=True."),  # as if nothing had been measured
        (loader_sweep("change"), {"batch_size": None}, "non_blocking=True."),
    ],
)
def test_what_it_saves_is_held_against_the_time_between_two_batches(sweep: Any, fields: Any, told: str | None) -> None:
    verdict = judged(False, sweep, **fields)

    assert verdict.status == "pass"
    assert [told in finding.why for finding in verdict.findings] == ([True] if told else [])
    assert ("; a batch comes every" in verdict.seen) == (told != "non_blocking=True.")
