"""file_system is a note, unless there is more to it."""

from typing import Any

import pytest

from dl_doctor.checks.shm.sharing_strategy import CHECK
from dl_doctor.facts import SharingStrategy
from dl_doctor.facts.shared_memory import Segment
from dl_doctor.model import Ended
from tests.facts import ANSWERED, loader_plan, shared_memory

BOTH = ("file_descriptor", "file_system")
STALE = (Segment(name="torch_7_1_0", used_bytes=1 << 20),)


def strategy(here: str, worker: str | None = None, method: str = "fork", available: tuple[str, ...] = BOTH) -> SharingStrategy:
    return SharingStrategy(ended=ANSWERED, method=method, available=available, here=here, worker=worker or here)


@pytest.mark.parametrize(
    ("known", "plan", "stale", "levels"),
    [
        (strategy("file_descriptor"), {"ranks": 8}, STALE, []),
        (strategy("file_system"), {}, (), ["note"]),
        (strategy("file_system"), {"ranks": 2}, (), ["warn"]),
        (strategy("file_system"), {}, STALE, ["warn"]),
        (strategy("file_system"), {}, None, ["note"]),  # whose segments they are is out of sight
        (strategy("file_system", "file_descriptor", "spawn"), {}, (), ["warn", "note"]),
        (strategy("file_system", "file_system", "spawn"), {}, (), ["note"]),
        (strategy("file_system"), {"num_workers": 0}, (), []),
        (strategy("file_system", available=("file_system",)), {"ranks": 2}, (), []),  # macOS has no other
    ],
)
def test_strategies(known: SharingStrategy, plan: dict[str, Any], stale: Any, levels: list[str]) -> None:
    verdict = CHECK.judge(known, loader_plan(**plan), shared_memory(stale=stale))

    assert [finding.level for finding in verdict.findings] == levels


def test_no_answer_is_an_error() -> None:
    known = SharingStrategy(ended=Ended(how="hung"), method="fork")

    assert CHECK.judge(known, loader_plan(), shared_memory()).status == "error"
