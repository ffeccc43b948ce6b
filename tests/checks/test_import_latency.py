"""Seconds of an import, and from where."""

import pytest

from dl_doctor.checks.storage.import_latency import CHECK
from dl_doctor.facts import Mounts
from dl_doctor.facts.mounts import parse_mountinfo
from dl_doctor.model import Unavailable
from tests.facts import not_imported, target, torch_files, torch_import

MOUNTS = Mounts(
    parse_mountinfo(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:40 / /venv rw - nfs4 server:/home rw\n",
    )
)


@pytest.mark.parametrize(("seconds", "status"), [(1.4, "pass"), (10.0, "pass"), (10.1, "warn"), (40.0, "warn")])
def test_seconds(seconds: float, status: str) -> None:
    verdict = CHECK.judge(torch_import(import_s=seconds), torch_files(), target(), MOUNTS)

    assert verdict.status == status
    assert "on nfs4 (/venv)" in verdict.seen


def test_without_a_mount_table_it_is_told_all_the_same() -> None:
    assert CHECK.judge(torch_import(import_s=20), torch_files(), target(), Unavailable.absent("/proc")).status == "warn"


def test_what_did_not_come_back_was_not_measured() -> None:
    assert CHECK.judge(not_imported(how="hung"), torch_files(), target(), MOUNTS).status == "skip"


@pytest.mark.parametrize(
    ("filesystem", "said"),
    [
        ("nfs4", "Copy the environment to the node's own disk first"),
        ("fuse.sshfs", "Copy the environment to the node's own disk first"),
        ("ext4", "See which import takes the time"),
        ("overlay", "See which import takes the time"),
    ],
)
def test_the_fix_fits_the_filesystem(filesystem: str, said: str) -> None:
    mounts = Mounts(parse_mountinfo(f"21 1 8:1 / / rw - {filesystem} /dev/sda1 rw\n"))
    (finding,) = CHECK.judge(torch_import(import_s=20), torch_files(), target(), mounts).findings

    assert finding.fixes[0].title == said
