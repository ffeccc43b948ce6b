"""A path that does not answer fails and is named; what the doctor itself could not do is no finding."""

from typing import Any

import pytest

from dl_doctor.checks.storage.mount_responds import CHECK
from dl_doctor.facts import Disks
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended, Unavailable
from tests.facts import data_path, data_paths, place

STUCK = Ended(how="stuck", step="stat /data", pid=7, state="D", wait_channel="request_wait_answer")
NO_TABLE = Unavailable.absent("no mount table")


def refused(code: str) -> dict[str, Any]:
    return {"exists": None, "latency_s": None, "refusal": Refusal(step="look at it", code=code, error="said no")}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "pass"),
        ({"latency_s": 1.0}, "pass"),
        ({"latency_s": 1.01}, "warn"),
        ({"ended": STUCK}, "fail"),
        ({"ended": Ended(how="hung", step="statvfs /data")}, "fail"),
        ({"ended": Ended(how="hung")}, "error"),  # the interpreter did not come up: the path was not touched
        ({"ended": Ended(how="killed", signal="SIGKILL", step="stat /data")}, "error"),  # out of memory, not the path
        (refused("ESTALE"), "fail"),
        (refused("ENOTCONN"), "fail"),
        (refused("EACCES"), "warn"),
        ({"exists": False}, "fail"),
        ({"exists": False, "role": "scratch"}, "pass"),  # it can be made
    ],
)
def test_by_what_became_of_it(fields: dict[str, Any], status: str) -> None:
    assert CHECK.judge(data_paths(data_path(**{"role": "data", **fields})), NO_TABLE).status == status


def test_what_is_stuck_is_named_and_the_others_are_told() -> None:
    disks = Disks((place("/data", "nfs4", source="server:/export", mount_point="/data"),))
    verdict = CHECK.judge(data_paths(data_path("data", ended=STUCK, latency_s=None), data_path()), disks)

    (finding,) = verdict.findings
    assert finding.summary.startswith("/data (nfs4 from server:/export) does not answer")
    assert "pid 7, state D, in request_wait_answer) at: stat /data" in finding.summary
    assert "/work answered in 1 ms" in verdict.seen


def test_a_path_that_did_not_answer_is_not_hidden_by_a_failed_look_at_another() -> None:
    entries = data_paths(data_path(ended=Ended(how="hung")), data_path("data", ended=STUCK))

    assert CHECK.judge(entries, NO_TABLE).status == "fail"
