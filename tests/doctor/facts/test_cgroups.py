"""The group of this process is found however its hierarchy is mounted; what cannot be seen is said."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import cgroups, memory_budget, mounts
from dl_doctor.facts.cgroups import ControlGroup
from dl_doctor.model import Unavailable
from tests.recorded import RecordedSystem

ROOT = "1 0 8:1 / / rw - ext4 /dev/a rw\n"
INITIAL, PRIVATE = "cgroup:[4026531835]", "cgroup:[4026532000]"


def v2(root: str = "/", at: str = "/cg", number: int = 2, parent: int = 1) -> str:
    return f"{number} {parent} 0:30 {root} {at} rw - cgroup2 cgroup rw\n"


def v1(controller: str, root: str = "/", number: int = 3) -> str:
    return f"{number} 1 0:31 {root} /v1/{controller} rw - cgroup cgroup rw,{controller}\n"


def group_of(
    tmp_path: Path, membership: str, table: str, folders: list[str], namespace: str = INITIAL, controller: str = "memory"
) -> ControlGroup | None:
    files: dict[str, Any] = {folder: {"folder": []} for folder in folders}
    files |= {
        "/proc/self/cgroup": membership,
        "/proc/self/mountinfo": ROOT + table,
        "/proc/self/ns/cgroup": {"link": namespace},
    }
    system = RecordedSystem({"files": files}, tmp_path)
    return cgroups.collect(system, mounts.collect(system)).groups.get(controller)


@pytest.mark.parametrize(
    ("membership", "table", "folders", "namespace", "found", "own", "top"),
    [
        # the host's view, walked up to the root
        ("0::/a/b\n", v2(), ["/cg", "/cg/a", "/cg/a/b"], INITIAL, ("/cg/a/b", "/cg/a", "/cg"), True, True),
        # docker with a private namespace: its own group is the root that it sees
        ("0::/\n", v2(), ["/cg"], PRIVATE, ("/cg",), True, False),
        # docker in the host's namespace: the mount's root is the group
        ("0::/docker/1\n", v2("/docker/1"), ["/cg"], INITIAL, ("/cg",), True, False),
        ("0::/docker/1/init\n", v2("/docker/1"), ["/cg", "/cg/init"], INITIAL, ("/cg/init", "/cg"), True, False),
        # the name leads nowhere below the mount: what exists of the way still limits
        ("0::/a/b\n", v2(), ["/cg", "/cg/a"], INITIAL, ("/cg/a", "/cg"), False, True),
        # the group lies outside what is mounted or named
        ("0::/other\n", v2("/docker/1"), ["/cg"], INITIAL, (), False, False),
        ("0::/../other\n", v2(), ["/cg"], PRIVATE, (), False, False),
        ("0::/\n", v2("/.."), ["/cg"], PRIVATE, (), False, False),
        # nothing is mounted: at the host's root there is no limit, in a namespace nobody knows
        ("0::/\n", "", [], INITIAL, (), True, True),
        ("0::/\n", "", [], PRIVATE, (), False, False),
        ("0::/a\n", "", [], INITIAL, (), False, False),
        # another filesystem lies over it
        ("0::/a\n", v2() + "9 2 8:2 / /cg rw - ext4 /dev/b rw\n", ["/cg"], INITIAL, (), False, False),
        # v1, and hybrid: each controller by itself, where v1 has it
        ("4:memory:/m\n0::/\n", v1("memory") + v2(), ["/v1/memory", "/v1/memory/m", "/cg"], INITIAL,
         ("/v1/memory/m", "/v1/memory"), True, True),
        ("4:memory:/docker/1\n", v1("memory", "/docker/1"), ["/v1/memory"], INITIAL, ("/v1/memory",), True, False),
    ],
)  # fmt: skip
def test_where_limits_are_read(
    tmp_path: Path,
    membership: str,
    table: str,
    folders: list[str],
    namespace: str,
    found: tuple[str, ...],
    own: bool,
    top: bool,
) -> None:
    group = group_of(tmp_path, membership, table, folders, namespace)

    assert group is not None
    assert (group.folders, group.own_visible, group.top_visible) == (found, own, top)


def test_controllers_joined_in_one_hierarchy(tmp_path: Path) -> None:
    group = group_of(
        tmp_path, "2:cpu,cpuacct:/a\n", v1("cpu,cpuacct"), ["/v1/cpu,cpuacct", "/v1/cpu,cpuacct/a"], controller="cpu"
    )

    assert group is not None
    assert group.folders == ("/v1/cpu,cpuacct/a", "/v1/cpu,cpuacct")


def test_a_kernel_without_control_groups_sets_no_limit(tmp_path: Path) -> None:
    system = RecordedSystem({"files": {"/proc/self/mountinfo": ROOT}}, tmp_path)

    found = cgroups.collect(system, mounts.collect(system))

    assert (found.version, found.groups) == (None, {})


def limits_of(tmp_path: Path, files: dict[str, str], version: Any = "v2", folders: tuple[str, ...] = ("/cg",)) -> Any:
    meminfo = "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\n"
    system = RecordedSystem({"files": {"/proc/meminfo": meminfo, **files}}, tmp_path)
    group = ControlGroup(version=version, path="/", folders=folders, own_visible=True, top_visible=False)
    found = cgroups.Cgroups(version=version, namespaced=True, groups={"memory": group})
    table = mounts.collect(system) if "/proc/self/mountinfo" in files else Unavailable.absent("no table")
    return memory_budget.collect(system, table, found, Unavailable.absent("no Slurm"))


GIB = 1 << 30


@pytest.mark.parametrize(
    ("files", "headroom", "source"),
    [
        ({"/cg/memory.max": f"{8 * GIB}\n"}, 7 * GIB, "/cg/memory.max"),
        ({"/cg/memory.max": "max\n"}, 60 * GIB, "MemAvailable of /proc/meminfo"),
        ({}, 60 * GIB, "MemAvailable of /proc/meminfo"),  # the root group has no such file
        ({"/cg/memory.max": f"{8 * GIB}\n", "/cg/memory.high": f"{4 * GIB}\n"}, 3 * GIB, "/cg/memory.high"),
        ({"/cg/memory.max": f"{128 * GIB}\n"}, 60 * GIB, "MemAvailable of /proc/meminfo"),  # more than the machine has
    ],
)
def test_the_tightest_limit_of_v2(tmp_path: Path, files: dict[str, str], headroom: int, source: str) -> None:
    """4 GiB are charged, of which 3 GiB are page cache and slabs that the kernel gives back."""
    stat = f"anon {GIB}\ninactive_file {GIB}\nactive_file {GIB}\nslab_reclaimable {GIB}\nshmem {GIB}\n"

    memory = limits_of(tmp_path, {"/cg/memory.current": f"{4 * GIB}\n", "/cg/memory.stat": stat, **files})

    assert (memory.headroom_bytes, memory.tightest.source) == (headroom, source)


@pytest.mark.parametrize(
    ("limit", "above", "headroom"),
    [
        (9223372036854771712, None, 60 * GIB),  # "unlimited" with pages of 4 KiB
        (9223372036854710272, None, 60 * GIB),  # with pages of 64 KiB
        (8 * GIB, None, 7 * GIB),
        (9223372036854771712, 6 * GIB, 5 * GIB),  # an ancestor's, out of sight: at most this
        (8 * GIB, 6 * GIB, 5 * GIB),
    ],
)
def test_the_tightest_limit_of_v1(tmp_path: Path, limit: int, above: int | None, headroom: int) -> None:
    stat = f"cache {9 * GIB}\ntotal_inactive_file {GIB}\ntotal_active_file {GIB}\n"
    stat += f"hierarchical_memory_limit {above}\n" if above else ""
    files = {
        "/cg/memory.limit_in_bytes": f"{limit}\n",
        "/cg/memory.usage_in_bytes": f"{3 * GIB}\n",
        "/cg/memory.stat": stat,
    }

    assert limits_of(tmp_path, files, "v1").headroom_bytes == headroom


@pytest.mark.parametrize(
    ("files", "headroom", "known"),
    [
        ({"/cg/memory.max": f"{8 * GIB}\n"}, 8 * GIB, False),  # what is charged cannot be read
        ({"/cg/memory.max": "max\n"}, 60 * GIB, True),  # nothing is limited, so it does not matter
        ({"/cg/memory.max": "a lot\n"}, 60 * GIB, False),
        ({"/cg/memory.max": {"errno": "EACCES"}}, 60 * GIB, False),
        ({"/cg/memory.max": f"{8 * GIB}\n", "/cg/memory.oom.group": "x"}, 8 * GIB, False),
    ],
)
def test_one_file_that_cannot_be_read_spoils_not_the_others(
    tmp_path: Path, files: dict[str, Any], headroom: int, known: bool
) -> None:
    """What is known bounds what is left; that it may be less is known too."""
    memory = limits_of(tmp_path, files)

    assert (memory.headroom_bytes, memory.limit_known) == (headroom, known)


def test_an_ancestor_out_of_sight_leaves_nobody_knows_how_much(tmp_path: Path) -> None:
    """v1 tells its limit, and not what its other groups have taken of it."""
    files = {
        "/cg/memory.limit_in_bytes": f"{8 * GIB}\n",
        "/cg/memory.usage_in_bytes": f"{GIB}\n",
        "/cg/memory.stat": f"hierarchical_memory_limit {2 * GIB}\n",
    }
    memory = limits_of(tmp_path, files, "v1")

    assert (memory.headroom_bytes, memory.limit_known) == (GIB, False)


def test_a_folder_over_the_own_group_is_not_its_group(tmp_path: Path) -> None:
    """An empty one would read as: no limit."""
    table = v2() + "9 2 8:2 / /cg/a rw - ext4 /dev/b rw\n"
    group = group_of(tmp_path, "0::/a\n", table, ["/cg", "/cg/a"])

    assert group is not None
    assert (group.folders, group.own_visible) == (("/cg",), False)


ARC = "13 1 0x01 147 39984 1 2\nname type data\nc 4 9\nc_min 4 {least}\nsize 4 {size}\n"


@pytest.mark.parametrize(
    ("size", "least", "mounted", "headroom"),
    [
        (2 * GIB, GIB, "", 61 * GIB),  # counted as used, and given back down to its least
        (GIB, 2 * GIB, "", 60 * GIB),
        (2 * GIB, GIB, "9 1 0:9 / /proc/meminfo rw - fuse.lxcfs lxcfs rw\n", 60 * GIB),  # the host's, and no part of this meminfo
        (-1, GIB, "", 60 * GIB),
    ],
)
def test_the_cache_of_zfs_is_given_back(tmp_path: Path, size: int, least: int, mounted: str, headroom: int) -> None:
    table = f"1 0 8:1 / / rw - zfs tank rw\n{mounted}"
    files = {memory_budget.ZFS_CACHE: ARC.format(size=size, least=least), "/proc/self/mountinfo": table}

    assert limits_of(tmp_path, files).headroom_bytes == headroom


def test_overcommit(tmp_path: Path) -> None:
    def left(mode: str) -> Any:
        files = {
            "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 90 kB\nCommitLimit: 80 kB\nCommitted_AS: 30 kB\n",
            "/proc/sys/vm/overcommit_memory": mode,
        }
        return limits_of(tmp_path / mode, files).commit_left_bytes

    assert [left("0"), left("1"), left("2")] == [None, None, 50 * 1024]
