"""A user without a name or a home warns where something needs one, and never fails."""

from typing import Any

import pytest

from dl_doctor.checks.container.user_identity import CHECK
from dl_doctor.facts import DataPaths
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Unavailable
from tests.facts import data_path, data_paths, user_identity

KEY_ERROR = "KeyError: 'getpwuid(): uid not found: 4242'"  # Python 3.11
OS_ERROR = "OSError: No username set in the environment"  # Python 3.13
NO_RIGHT = Refusal(step="create a file in /", code="EACCES", error="Permission denied")


@pytest.mark.parametrize(
    ("torch", "status"),
    [("2.6.0+cu124", "warn"), ("2.12.1", "warn"), ("2.13.0", "pass"), ("3.0.0a0", "pass"), ("nightly", "warn"), (None, "pass")],
)
@pytest.mark.parametrize("error", [KEY_ERROR, OS_ERROR])
def test_no_name_by_what_torch_needs(error: str, torch: str | None, status: str) -> None:
    verdict = CHECK.judge(user_identity(name_error=error, in_passwd=False, torch_version=torch), data_paths())

    assert verdict.status == status
    assert error in verdict.findings[0].summary


def test_a_variable_names_a_user_that_the_database_does_not_know() -> None:
    verdict = CHECK.judge(user_identity(in_passwd=False), data_paths())

    assert verdict.findings == []
    assert "no entry in the user database" in verdict.seen


def home(**fields: Any) -> DataPaths:
    return data_paths(data_path("cache", said_by="HOME", path="/.cache", **fields))


@pytest.mark.parametrize(
    ("paths", "status"),
    [
        (home(), "pass"),
        (home(exists=False), "pass"),  # it can be made
        (home(write_refusal=NO_RIGHT), "warn"),
        (
            home(write_refusal=Refusal(step="write", code="EDQUOT", error="Disk quota exceeded")),
            "pass",
        ),  # it is a home
        (Unavailable.timeout("--timeout"), "pass"),
        (
            DataPaths((*home(write_refusal=NO_RIGHT).entries, data_path("cache", said_by="HF_HOME"))),
            "warn",  # torch.hub and Triton are still at home
        ),
        (
            DataPaths(
                (
                    *home(write_refusal=NO_RIGHT).entries,
                    *(data_path("cache", said_by=name) for name in ("HF_HOME", "TORCH_HOME", "TRITON_CACHE_DIR")),
                )
            ),
            "pass",
        ),
    ],
)
def test_caches_at_home(paths: DataPaths | Unavailable, status: str) -> None:
    assert CHECK.judge(user_identity(), paths).status == status


def test_no_home_at_all() -> None:
    (finding,) = CHECK.judge(user_identity(home="~", home_said=False), data_paths(data_path())).findings

    assert finding.level == "warn"
    assert "Hugging Face, torch.hub, Triton" in finding.why
