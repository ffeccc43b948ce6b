"""Both a small part and a small number have to be free before it matters, and only where the job writes."""

from typing import Any

import pytest

from dl_doctor.checks.storage.disk_space import CHECK
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended
from dl_doctor.units import GIB, MIB
from tests.facts import data_path, data_paths

TIGHT = {"total_bytes": 100 * GIB, "free_bytes": 800 * MIB}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "pass"),
        (TIGHT, "fail"),
        ({"total_bytes": 100 * GIB, "free_bytes": 4 * GIB}, "warn"),
        ({"total_bytes": 1024 * GIB, "free_bytes": 20 * GIB}, "pass"),  # 2 %, and plenty
        ({"total_bytes": 64 * MIB, "free_bytes": 64 * MIB}, "pass"),  # small and empty
        ({"total_bytes": 64 * MIB, "free_bytes": 5 * MIB}, "warn"),
        ({"total_bytes": 64 * MIB, "free_bytes": 0}, "fail"),
        ({"total_bytes": 0, "free_bytes": 0}, "pass"),  # some network filesystems do not tell
        ({"total_files": 1_000_000, "free_files": 0}, "fail"),
        ({"total_files": 1_000_000, "free_files": 9_999}, "warn"),
        ({"total_files": None, "free_files": None}, "pass"),  # btrfs does not count them
        ({**TIGHT, "role": "data"}, "pass"),  # it is only read
        ({**TIGHT, "write_refusal": Refusal(step="create", code="EROFS", error="ro")}, "pass"),  # nobody writes there
        ({**TIGHT, "write_refusal": Refusal(step="write", code="ENOSPC", error="full")}, "fail"),
        ({"free_bytes": None, "ended": Ended(how="stuck")}, "skip"),
    ],
)
def test_by_what_is_free(fields: dict[str, Any], status: str) -> None:
    assert CHECK.judge(data_paths(data_path(**fields))).status == status


def test_one_filesystem_is_told_once() -> None:
    verdict = CHECK.judge(data_paths(data_path(**TIGHT), data_path("temporary", **TIGHT), data_path("cache", **TIGHT)))

    assert [finding.subject for finding in verdict.findings] == ["/work"]
    assert "/caches" in verdict.seen


def test_the_variable_that_names_a_cache_is_the_remedy() -> None:
    (finding,) = CHECK.judge(data_paths(data_path("cache", **TIGHT))).findings

    assert ("export HF_HOME=...",) in [fix.commands for fix in finding.fixes]
