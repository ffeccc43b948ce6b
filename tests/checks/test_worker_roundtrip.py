"""The method in force decides; trouble with another one is a note."""

from typing import Any

import pytest

from dl_doctor.checks.workers.worker_roundtrip import CHECK
from dl_doctor.facts import WorkerRoundtrip
from dl_doctor.model import Ended, Verdict
from tests.facts import loader_plan, start_methods, worker_roundtrip

DIED = Ended(how="exited", exit_code=1)
KILLED = Ended(how="killed", signal="SIGSEGV")
HUNG = Ended(how="hung")
RAISED = Ended(how="raised", error="BlockingIOError: [Errno 11] Resource temporarily unavailable")


def judged(ends: dict[str, Ended], **plan: Any) -> Verdict:
    return CHECK.judge(worker_roundtrip(**ends), start_methods(), loader_plan(**plan))


@pytest.mark.parametrize(
    ("ends", "plan", "status"),
    [
        ({}, {}, "pass"),
        ({"fork": DIED}, {}, "fail"),  # fork is this Python's default
        ({"fork": RAISED}, {}, "fail"),
        ({"fork": HUNG}, {}, "error"),
        ({"spawn": KILLED}, {}, "pass"),
        ({"spawn": KILLED}, {"start_method": "spawn"}, "fail"),
        ({"spawn": HUNG}, {"start_method": "spawn"}, "error"),
        ({"spawn": HUNG}, {"start_method": "fork"}, "pass"),
        ({"fork": DIED, "spawn": DIED, "forkserver": DIED}, {"num_workers": 0}, "pass"),
    ],
)
def test_by_the_method_in_force(ends: dict[str, Ended], plan: dict[str, Any], status: str) -> None:
    assert judged(ends, **plan).status == status


def test_trouble_with_another_method_is_a_note() -> None:
    (finding,) = judged({"spawn": KILLED}).findings

    assert (finding.level, finding.subject) == ("note", "spawn")
    assert "SIGSEGV" in finding.summary


def test_a_method_that_answers_is_offered() -> None:
    (first, second) = judged({"fork": DIED, "spawn": DIED}).findings

    assert [fix.commands for fix in first.fixes] == [('DataLoader(..., multiprocessing_context="forkserver")',)]
    assert second.fixes == ()


def test_none_answers() -> None:
    findings = judged({"fork": DIED, "spawn": DIED, "forkserver": DIED}).findings

    assert findings[0].fixes[0].commands == ("DataLoader(..., num_workers=0)",)


@pytest.mark.parametrize("how", ["hung", "stuck", "killed", "unstartable", "raised"])
def test_when_the_parent_itself_does_not_come_back_nothing_is_known(how: Any) -> None:
    nothing = WorkerRoundtrip(ended=Ended(how=how, signal="SIGKILL", error="x"), trips=())

    assert CHECK.judge(nothing, start_methods(), loader_plan()).status == "error"
