"""Limits on processes: each group's, the user's and the kernel's, the one that leaves the least first."""

from pathlib import Path

import pytest

from dl_doctor.facts import Cgroups, ProcessBudget
from dl_doctor.facts.cgroups import ControlGroup
from dl_doctor.facts.process_budget import collect
from dl_doctor.system import System


class Machine(System):
    """Files below a folder, and one user's limit."""

    def __init__(self, root: Path, uid: int, limit: int | None) -> None:
        super().__init__(str(root))
        self._user, self._limit = uid, limit

    def uid(self) -> int:
        return self._user

    def rlimit(self, name: str) -> tuple[int | None, int | None]:
        assert name == "NPROC"
        return self._limit, self._limit


@pytest.fixture
def files(tmp_path: Path) -> Path:
    written = {
        "sys/fs/cgroup/job/step/pids.max": "max\n",
        "sys/fs/cgroup/job/step/pids.current": "3\n",
        "sys/fs/cgroup/job/pids.max": "100\n",
        "sys/fs/cgroup/job/pids.current": "30\n",
        "proc/loadavg": "0.00 0.01 0.05 1/200 4242\n",
        "proc/sys/kernel/threads-max": "1000\n",
        "proc/sys/kernel/pid_max": "32768\n",
        "proc/7/status": "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nThreads:\t40\n",
        "proc/8/status": "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nThreads:\t2\n",
        "proc/9/status": "Name:\tsshd\nUid:\t0\t0\t0\t0\nThreads:\t1\n",
        "proc/10/status": "Name:\tgone\n",
    }
    for path, text in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def budget(files: Path, uid: int = 1000, limit: int | None = None) -> ProcessBudget:
    folders = ("/sys/fs/cgroup/job/step", "/sys/fs/cgroup/job", "/sys/fs/cgroup")
    group = ControlGroup(version="v2", path="/job/step", folders=folders, own_visible=True, top_visible=True)
    return collect(Machine(files, uid, limit), Cgroups(version="v2", namespaced=False, groups={"pids": group}))


@pytest.mark.parametrize(
    ("uid", "limit", "tightest", "left"),
    [
        (1000, None, "/sys/fs/cgroup/job/pids.max", 70),  # of the group above: the own one says max
        (1000, 90, "RLIMIT_NPROC (ulimit -u)", 48),
        (1000, 40, "RLIMIT_NPROC (ulimit -u)", 0),
        (0, 40, "/sys/fs/cgroup/job/pids.max", 70),  # root is spared
    ],
)
def test_the_tightest(files: Path, uid: int, limit: int | None, tightest: str, left: int) -> None:
    found = budget(files, uid, limit)

    assert found.tightest is not None
    assert (found.tightest.source, found.tightest.left) == (tightest, left)
    assert (found.limit_known, found.ancestors_known) == (True, True)


@pytest.mark.parametrize(
    ("uid_map", "left"),
    [
        ("         0          0 4294967295\n", 70),
        ("         0          0          1\n", 70),  # still the machine's root
        (
            "         0       1000          1\n         1     100000      65536\n",
            4,
        ),  # rootless: user 1000 outside, and not spared
        ("nonsense\n", 70),
    ],
)
def test_the_root_of_a_rootless_container_is_not_spared(files: Path, uid_map: str, left: int) -> None:
    """Measured: `unshare -Ur` of an ordinary user under `prlimit --nproc=20` starts 19 threads, of root all 40."""
    (files / "proc/self").mkdir()
    (files / "proc/self/uid_map").write_text(uid_map)
    tightest = budget(files, 0, 5).tightest

    assert tightest is not None
    assert tightest.left == left


def test_the_kernels_own(files: Path) -> None:
    (files / "sys/fs/cgroup/job/pids.max").write_text("max\n")

    assert [(limit.source, limit.left) for limit in budget(files).limits] == [
        ("/proc/sys/kernel/threads-max", 800),
        ("/proc/sys/kernel/pid_max", 32568),
    ]


@pytest.mark.parametrize("text", ["", "many\n"])
def test_what_makes_no_sense_is_not_known(files: Path, text: str) -> None:
    (files / "sys/fs/cgroup/job/step/pids.max").write_text(text)

    assert not budget(files).limit_known
