"""The real System on this machine: odd bytes, odd files, and what belongs to a process."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dl_doctor.system import Missing, System, walk


def test_bytes_that_are_no_utf8_are_shown_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "text").write_bytes(b"caf\xe9\n")
    (tmp_path / "proc" / os.fsdecode(b"na\xffme")).touch()
    (tmp_path / "proc" / "link").symlink_to(os.fsdecode(b"/tar\xfeget"))
    system = System(str(tmp_path))

    assert system.read_text("/proc/text") == "caf\\xe9\n"
    assert system.listdir("/proc") == ["link", "na\\xffme", "text"]
    assert system.readlink("/proc/link") == "/tar\\xfeget"


def test_the_environment_may_hold_any_bytes() -> None:
    code = "from dl_doctor.system import System; print(ascii(System().environment()['ODD']))"

    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environb, b"ODD": b"a\xffb"}, capture_output=True, text=True, check=True
    )

    assert told.stdout == "'a\\\\xffb'\n"


def test_files_of_proc_sys_are_read() -> None:
    """A large read of them is refused with ENOMEM, and their size says 0."""
    assert System().read_text("/proc/sys/kernel/osrelease").strip() == os.uname().release
    assert "/proc" in System().read_text("/proc/self/mountinfo")


@pytest.mark.parametrize(
    "target", ["/usr/lib/os-release", "../usr/lib/os-release", "../../../../usr/lib/os-release", "/lib/os-release", "/other"]
)
def test_links_of_a_mounted_host_stay_within_it(tmp_path: Path, target: str) -> None:
    """An absolute one begins at the host's root, and `..` of the root is the root."""
    for name in ("etc", "usr/lib"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr" / "lib" / "os-release").write_text("NAME=host")
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "other").symlink_to("etc/../usr/lib/os-release")
    (tmp_path / "etc" / "os-release").symlink_to(target)
    for root in (str(tmp_path), f"{tmp_path}/", os.path.relpath(tmp_path)):
        system = System(root)

        assert system.read_text("/etc/os-release") == "NAME=host"
        assert system.listdir("/lib") == ["os-release"]
        assert (system.readlink("/etc/os-release"), system.readlink("/lib")) == (target, "/usr/lib")
        assert system.exists("/etc/os-release")


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("/two")
    (tmp_path / "two").symlink_to("one")

    with pytest.raises(OSError, match="symbolic links"):
        System(str(tmp_path)).read_text("/one/file")


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))], ids=["pipe", "device"]
)
def test_what_could_be_waited_for_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "odd")

    with pytest.raises(OSError, match=f"no regular file: .{tmp_path}/odd"):
        System(str(tmp_path)).read_text("/odd")


def test_what_is_there_and_what_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    system = System(str(tmp_path))

    assert [system.exists(f"/{name}") for name in ("file", "dangling", "none", "file/below")] == [True, True, False, False]


def test_of_a_mounted_host_no_process_is_known(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    for ask in (
        system.environment,
        system.affinity,
        system.uid,
        system.physical_cores,
        lambda: system.rlimit("NOFILE"),
        lambda: system.statvfs("/dev/shm"),
        lambda: system.files_below("/dev/shm"),
    ):
        with pytest.raises(Missing) as caught:
            ask()
        assert caught.value.reason.kind == "not_asked"


def test_sizes_are_blocks_not_lengths(tmp_path: Path) -> None:
    """A sparse file holds nothing; links and other filesystems are not followed."""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").write_bytes(b"x" * 8192)
    (tmp_path / "link").symlink_to("/proc")
    found = {Path(entry.path).name: entry.used_bytes for entry in System().files_below(str(tmp_path))}

    assert found.keys() == {"sparse", "full"}
    assert found["sparse"] < 8192 <= found["full"]


def test_what_is_mounted_below_is_not_looked_at(tmp_path: Path) -> None:
    """Not even its size: a filesystem that does not answer would keep us waiting. What is mounted may be a file, too."""
    for name in ("mounted", "beside"):
        (tmp_path / name).write_bytes(b"x")
    found = walk(os.fsencode(tmp_path), frozenset({os.fsencode(tmp_path / "mounted")}))

    assert [Path(entry.path).name for entry in found] == ["beside"]


def test_descriptors_that_were_handed_over() -> None:
    """Not those that Python and its event loop open for themselves."""
    code = "import asyncio, os; from dl_doctor.system import System\n"
    code += "asyncio.new_event_loop(); kept = open('/dev/null'); print(System().inherited_descriptors())"
    with Path("/dev/null").open() as extra:
        told = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], pass_fds=[extra.fileno()], capture_output=True, text=True, check=True
        )

    assert told.stdout == "4\n"


def test_limits_and_mask_are_the_kernels() -> None:
    system = System()

    assert system.affinity() == os.sched_getaffinity(0)
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (99, 100)); "
    code += "from dl_doctor.system import System; print(System().rlimit('NOFILE'), System().rlimit('AS'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "(99, 100) (None, None)\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a host name of its own")
def test_a_host_name_may_hold_any_bytes() -> None:
    name = "printf 'node\\377' > /proc/sys/kernel/hostname"
    code = "from dl_doctor.system import System; print(ascii(System().hostname()))"
    told = subprocess.run(
        ["unshare", "--uts", "sh", "-c", f'{name} && exec "$@"', "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout == "'node\\\\xff'\n"
