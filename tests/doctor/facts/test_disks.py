"""From a path to its disks: partitions, combined devices, layers and filesystems without a device, from laid-out /sys."""

import os
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts.disks import Place, collect
from dl_doctor.facts.filesystems import KINDS, TABLE, kind_of
from dl_doctor.facts.mounts import Mounts, parse_mountinfo
from dl_doctor.system import System
from tests.facts import data_path, data_paths

ROOT = "1 0 254:0 / / rw - ext4 /dev/vda rw\n"


def lay(root: Path, devices: dict[str, dict[str, Any]]) -> None:
    """Block devices: `on` is the disk of a partition, `slaves` what it is made of."""
    for name, about in devices.items():
        folder = root / "sys/devices/block" / about.get("on", "") / name
        folder.mkdir(parents=True)
        for path, text in about.get("files", {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if "on" in about:
            (folder / "partition").write_text("1\n")
        for slave in about.get("slaves", ()):
            (folder / "slaves" / slave).mkdir(parents=True)
        for index in (f"class/block/{name}", f"dev/block/{about['number']}"):
            link = root / "sys" / index
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(folder, link.parent))


def found(root: Path, mountinfo: str, path: str = "/data", **fields: Any) -> Place:
    paths = data_paths(data_path("data", path=path, **fields))
    (place,) = collect(System(str(root)), Mounts(parse_mountinfo(mountinfo)), paths).places
    return place


def names(place: Place) -> tuple[list[str], list[str]]:
    return list(place.layers), [disk.name for disk in place.disks]


NVME = {"number": "259:0", "files": {"queue/rotational": "0\n", "device/model": "Amazon Elastic Block Store  \n"}}


def test_a_partition_is_followed_to_its_disk(tmp_path: Path) -> None:
    lay(tmp_path, {"nvme0n1": NVME, "nvme0n1p2": {"number": "259:2", "on": "nvme0n1"}})
    place = found(tmp_path, f"{ROOT}2 1 259:2 / /data rw - xfs /dev/nvme0n1p2 rw\n")

    assert names(place) == (["nvme0n1p2"], ["nvme0n1"])
    assert (place.disks[0].model, place.disks[0].rotational, place.disks[0].virtual) == (
        "Amazon Elastic Block Store",
        False,
        False,
    )


@pytest.mark.parametrize(("name", "virtual"), [("zd0", True), ("drbd0", True), ("vda", True), ("sda", False), ("nvme0n1", False)])
def test_what_a_name_says_of_the_flags(tmp_path: Path, name: str, *, virtual: bool) -> None:
    """A volume of ZFS says that it does not rotate, on a pool of disks that do."""
    lay(tmp_path, {name: {"number": "230:0", "files": {"queue/rotational": "0\n"}}})

    assert found(tmp_path, f"{ROOT}2 1 230:0 / /data rw - ext4 /dev/{name} rw\n").disks[0].virtual is virtual


def test_lvm_on_a_raid_of_a_fast_and_a_slow_disk(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "sda": {"number": "8:0", "files": {"queue/rotational": "1\n"}},
            "sda1": {"number": "8:1", "on": "sda"},
            "sdb": {"number": "8:16", "files": {"queue/rotational": "0\n"}},
            "md0": {"number": "9:0", "slaves": ["sda1", "sdb"]},
            "dm-3": {"number": "253:3", "slaves": ["md0"]},
        },
    )
    place = found(tmp_path, f"{ROOT}2 1 253:3 / /data rw - ext4 /dev/mapper/vg-data rw\n")

    assert names(place) == (["dm-3", "md0", "sda1"], ["sda", "sdb"])
    assert [disk.rotational for disk in place.disks] == [True, False]


def test_btrfs_has_no_number_of_its_own(tmp_path: Path) -> None:
    """It has several devices, and the mount names one of them, here by what LUKS calls it."""
    lay(
        tmp_path,
        {
            "nvme0n1": NVME,
            "dm-0": {"number": "253:0", "slaves": ["nvme0n1"], "files": {"dm/name": "luks-1\n"}},
            "sdb": {"number": "8:16"},
        },
    )
    for member in ("dm-0", "sdb"):
        (tmp_path / "sys/fs/btrfs/4f/devices" / member).mkdir(parents=True)
    (tmp_path / "sys/fs/btrfs/features").mkdir()
    place = found(tmp_path, f"{ROOT}2 1 0:44 /@data /data rw - btrfs /dev/mapper/luks-1 rw\n")

    assert names(place) == (["dm-0"], ["nvme0n1", "sdb"])


@pytest.mark.parametrize(
    ("line", "kind", "disks"),
    [
        ("2 1 0:50 / /data rw - nfs4 server:/export rw", "network", []),
        ("2 1 0:50 / /data rw - zfs tank/data rw", "disk", []),  # its pool is not to be seen in /sys
        ("2 1 0:50 / /data rw - fuse.sshfs me@there: rw", "network", []),
        ("2 1 0:50 / /data rw - fuse.of-ours x rw", "user space", []),
        ("2 1 0:50 / /data rw - 9p C:\\134 rw", "host", []),
        ("2 1 0:50 / /data rw - tmpfs tmpfs rw", "memory", []),
        ("2 1 0:50 / /data rw - newfs x rw", "unknown", []),
        ("2 1 7:99 / /data rw - ext4 /dev/loop99 rw", "disk", []),  # /sys is masked in a container
    ],
)
def test_what_is_on_no_disk_in_sight(tmp_path: Path, line: str, kind: str, disks: list[str]) -> None:
    place = found(tmp_path, f"{ROOT}{line}\n")

    assert (place.kind, names(place)[1]) == (kind, disks)


def test_an_overlay_is_followed_where_its_folders_are_in_sight(tmp_path: Path) -> None:
    lay(tmp_path, {"vda": {"number": "254:0", "files": {"queue/rotational": "1\n"}}})
    options = "rw,lowerdir=/var/l/1:/var/l/2,upperdir=/var/l/up,workdir=/var/l/work"
    place = found(tmp_path, f"{ROOT}2 1 0:50 / /data rw - overlay overlay {options}\n")

    assert (place.filesystem, place.kind, *names(place)) == ("overlay", "disk", ["overlay"], ["vda"])
    assert place.disks[0].virtual


def test_the_root_of_a_container_is_not_taken_for_the_hosts(tmp_path: Path) -> None:
    """The paths of its layers are the host's; from inside, all of them would seem to lie on the overlay itself."""
    options = "rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/var/lib/docker/overlay2/1/diff"
    place = found(tmp_path, f"1 0 0:50 / / rw - overlay overlay {options}\n")

    assert (place.kind, *names(place)) == ("layers", [], [])


def test_of_mounts_on_top_of_one_another_the_last_is_seen(tmp_path: Path) -> None:
    stacked = f"{ROOT}2 1 0:50 / /data rw - nfs server:/a rw\n3 2 0:51 / /data rw - tmpfs tmpfs rw\n"

    assert found(tmp_path, stacked).filesystem == "tmpfs"


def test_a_link_is_followed_by_the_real_path(tmp_path: Path) -> None:
    table = f"{ROOT}2 1 0:50 / /mnt/nfs rw - nfs4 server:/export rw\n"

    assert found(tmp_path, table, real_path="/mnt/nfs/imagenet").filesystem == "nfs4"
    assert found(tmp_path, table).filesystem == "ext4"


def test_the_table_of_filesystems_is_plausible() -> None:
    assert len(KINDS) == len(TABLE)
    assert [name for name, _, source in TABLE if not source or name != name.strip().lower()] == []
    assert (kind_of("fuse.unheard-of"), kind_of("fuseblk"), kind_of("unheard-of")) == ("user space", "disk", "unknown")
