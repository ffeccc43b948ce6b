"""What breaks while it is written fails; what may not be written to at all may not have to be."""

from typing import Any

import pytest

from dl_doctor.checks.storage.path_writable import CHECK
from dl_doctor.facts import Environment
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended, Verdict
from tests.facts import data_path, data_paths


def refused(role: str, code: str, **fields: Any) -> Verdict:
    refusal = Refusal(step="create a file", code=code, error="said no")
    return CHECK.judge(data_paths(data_path(role, write_refusal=refusal, **fields)), Environment({}))


@pytest.mark.parametrize(
    ("role", "code", "status"),
    [
        ("working", "EDQUOT", "fail"),
        ("working", "ENOSPC", "fail"),
        ("working", "EIO", "fail"),
        ("working", "EACCES", "warn"),  # /app of an image, while the job writes to /outputs
        ("working", "EROFS", "warn"),
        ("cache", "EROFS", "warn"),
        ("cache", "EDQUOT", "fail"),
        ("temporary", "EACCES", "pass"),  # Python goes on to another folder
        ("temporary", "EDQUOT", "fail"),
    ],
)
def test_by_the_error(role: str, code: str, status: str) -> None:
    assert refused(role, code).status == status


def test_a_cache_that_is_only_read() -> None:
    refusal = Refusal(step="create a file", code="EROFS", error="Read-only file system")
    verdict = CHECK.judge(data_paths(data_path("cache", write_refusal=refusal)), Environment({"HF_HUB_OFFLINE": "1"}))

    assert [finding.level for finding in verdict.findings] == ["note"]


def test_caches_of_the_home_folder_are_judged_with_the_user() -> None:
    verdict = refused("cache", "EACCES", said_by="HOME")

    assert verdict.status == "skip"


@pytest.mark.parametrize(("how", "status"), [("stuck", "error"), ("hung", "error"), ("answered", "pass")])
def test_a_path_that_did_not_come_back(how: Any, status: str) -> None:
    ended = Ended(how=how, step="synchronize a file in /work")
    entries = data_paths(data_path(ended=ended, written=how == "answered"), data_path("temporary"))

    assert CHECK.judge(entries, Environment({})).status == status


def test_all_is_well() -> None:
    verdict = CHECK.judge(data_paths(), Environment({}))

    assert (verdict.status, verdict.findings) == ("pass", [])
    assert "/work: written and removed" in verdict.seen
