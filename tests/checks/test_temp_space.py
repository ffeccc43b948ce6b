"""A folder and a socket that can be made pass, wherever they are."""

from typing import Any

import pytest

from dl_doctor.checks.container.temp_space import CHECK
from dl_doctor.facts import Mounts
from dl_doctor.facts.mounts import Mount
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended, Unavailable
from tests.facts import loader_plan, temp_space

NO_TABLE = Unavailable.absent("no mount table")
TOO_LONG = Refusal(step="listen on a socket in /a", code="OSError", error="AF_UNIX path too long")
GONE = Refusal(step="/gone (TMPDIR)", code="ENOENT", error="No such file or directory")


@pytest.mark.parametrize(
    ("fields", "plan", "levels"),
    [
        ({}, {}, []),
        ({"refusal": TOO_LONG, "path_bytes": 76}, {}, ["fail"]),
        ({"refusal": TOO_LONG, "path_bytes": 76}, {"num_workers": 0}, ["note"]),
        ({"path_bytes": 90}, {}, []),  # newer Pythons go to /tmp by themselves: what was made decides, not the length
        ({"passed_over": (GONE,)}, {}, ["note"]),
        ({"passed_over": (GONE,), "refusal": TOO_LONG, "path_bytes": 80}, {}, ["note", "fail"]),  # fell back to a long folder
        ({"path": None, "passed_over": (GONE,)}, {}, ["fail"]),
        ({"path": None, "passed_over": (GONE,)}, {"num_workers": 0}, ["fail"]),  # importing alone asks for it
        ({"no_exec": True}, {}, ["note"]),
        ({"ended": Ended(how="stuck", step="write to /tmp")}, {}, ["fail"]),
        ({"ended": Ended(how="hung", step="write to /tmp")}, {}, ["fail"]),
    ],
)
def test_by_what_could_be_made(fields: dict[str, Any], plan: dict[str, int], levels: list[str]) -> None:
    verdict = CHECK.judge(temp_space(**fields), NO_TABLE, loader_plan(**plan))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize("how", ["hung", "unstartable", "raised", "killed", "exited"])
def test_where_python_itself_did_not_come_up_nothing_is_known(how: Any) -> None:
    verdict = CHECK.judge(temp_space(ended=Ended(how=how, error="x")), NO_TABLE, loader_plan())

    assert verdict.status == "error"


@pytest.mark.parametrize(
    ("filesystem", "status"), [("nfs4", "warn"), ("9p", "warn"), ("tmpfs", "pass"), ("overlay", "pass"), ("fuse", "pass")]
)
def test_a_folder_on_a_network(filesystem: str, status: str) -> None:
    mount = Mount(
        id=1, parent_id=0, root="/", mount_point="/", filesystem=filesystem, source="x", options="rw", super_options="rw"
    )

    assert CHECK.judge(temp_space(), Mounts((mount,)), loader_plan()).status == status


def test_the_length_is_told_where_it_is_the_cause() -> None:
    (long,) = CHECK.judge(temp_space(refusal=TOO_LONG, path_bytes=76), NO_TABLE, loader_plan()).findings
    (other,) = CHECK.judge(temp_space(refusal=TOO_LONG, path_bytes=4), NO_TABLE, loader_plan()).findings

    assert long.measured is not None
    assert (long.measured.value, other.measured) == (76, None)
