"""What there is, is a note; small files on something slow to ask warn."""

from typing import Any

import pytest

from dl_doctor.checks.storage.disk_type import CHECK, MODELS, nature_of_disk
from dl_doctor.facts import Disks
from dl_doctor.units import GIB, KIB
from tests.facts import data_path, data_paths, disk, place

SMALL = {"files_seen": 100, "mean_file_bytes": 12 * KIB}


@pytest.mark.parametrize(
    ("filesystem", "fields", "status"),
    [
        ("nfs4", SMALL, "warn"),
        ("fuse.gcsfuse", SMALL, "warn"),
        ("fuse", SMALL, "warn"),
        ("9p", SMALL, "warn"),  # Windows' disks in WSL
        ("nfs4", {"files_seen": 100, "mean_file_bytes": 128 * KIB}, "pass"),
        ("nfs4", {"files_seen": 19, "mean_file_bytes": 1}, "pass"),  # too few to say anything
        ("nfs4", {"files_seen": 0, "mean_file_bytes": None}, "pass"),
        ("nfs4", {}, "pass"),
        ("ext4", SMALL, "pass"),
        ("overlay", SMALL, "pass"),
        ("never-heard-of", SMALL, "pass"),
    ],
)
def test_small_files_on_something_slow_to_ask(filesystem: str, fields: dict[str, Any], status: str) -> None:
    verdict = CHECK.judge(data_paths(data_path("data", **fields)), Disks((place("/data", filesystem),)))

    assert verdict.status == status
    assert len(verdict.findings) == 1


def test_where_no_data_was_named_it_is_never_more_than_a_note() -> None:
    verdict = CHECK.judge(data_paths(data_path(**SMALL)), Disks((place("/work", "nfs4"),)))

    assert [finding.level for finding in verdict.findings] == ["note"]
    assert "Say --data" in verdict.findings[0].why


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "nvme0n1", "model": "Amazon Elastic Block Store"}, "network volume"),
        ({"name": "nvme1n1", "model": "Amazon EC2 NVMe Instance Storage"}, "local SSD"),
        ({"name": "nvme0n1", "model": "nvme_card-pd"}, "network volume"),
        ({"name": "nvme0n1", "model": "nvme_card"}, "local SSD"),
        ({"name": "nvme0n1", "model": "Samsung SSD 990 PRO 2TB"}, "solid-state"),
        ({"name": "sda", "rotational": True}, "calls itself rotating, which is often wrong"),
        ({"name": "sda", "rotational": None}, "does not say"),
        ({"name": "vda", "virtual": True, "rotational": True}, "cannot be told from inside"),  # the flag lies there
        ({"name": "sda", "model": "QEMU HARDDISK", "rotational": True}, "virtual disk (QEMU)"),
    ],
)
def test_what_a_disk_is(fields: dict[str, Any], words: str) -> None:
    assert words in nature_of_disk(disk(**fields))


def test_no_model_hides_a_later_one() -> None:
    """The first that fits is taken, so a longer one has to stand before what it begins with."""
    names = [model for model, _, _ in MODELS]

    assert [late for index, late in enumerate(names) for early in names[:index] if late.startswith(early)] == []
    assert all(source for _, _, source in MODELS)


@pytest.mark.parametrize(
    ("filesystem", "fields", "commands"),
    [
        ("ext4", {}, ('cp -r /data "$SLURM_TMPDIR"/',)),
        ("tmpfs", {}, ()),  # memory is no place for a copy
        ("nfs4", {}, ()),
        ("ext4", {"exists": False}, ()),
        ("ext4", {"written": False}, ()),
    ],
)
def test_a_copy_is_advised_where_there_is_a_disk_for_it(filesystem: str, fields: dict[str, Any], commands: tuple[str]) -> None:
    entries = data_paths(data_path("data", **SMALL), data_path("scratch", free_bytes=800 * GIB, **fields))
    (finding,) = CHECK.judge(entries, Disks((place("/data", "nfs4"), place("/local", filesystem, disk())))).findings

    assert tuple(c for fix in finding.fixes for c in fix.commands if c.startswith("cp")) == commands


def test_the_chain_is_told() -> None:
    below = place("/data", "ext4", disk("nvme0n1"), disk("nvme1n1", model="A"), layers=("dm-0", "md0"))

    assert CHECK.judge(data_paths(data_path("data")), Disks((below,))).seen == (
        "/data is on ext4 on dm-0, md0, nvme0n1 and nvme1n1 (A)"
    )


def test_what_does_not_exist_lies_nowhere() -> None:
    verdict = CHECK.judge(data_paths(data_path("data", exists=False)), Disks((place("/data"),)))

    assert verdict.status == "skip"
