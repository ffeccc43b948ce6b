"""What lies in /dev/shm: real segments of real processes where we can see them, unknown where we cannot."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dl_doctor.facts import mounts, shared_memory
from dl_doctor.facts.shared_memory import INITIAL_PID_NAMESPACE, SharedMemory
from dl_doctor.model import Unavailable
from dl_doctor.system import System
from tests.recorded import RecordedSystem, read


@pytest.mark.skipif(
    Path("/proc/self/ns/pid").is_symlink() and os.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE,
    reason="in a PID namespace of its own nothing is called left over",
)
def test_a_segment_is_left_over_once_its_process_was_killed() -> None:
    name = f"torch_{os.getpid()}_987654_0"
    code = (
        "import mmap, os, sys, time\n"
        f"fd = os.open('/dev/shm/{name}', os.O_CREAT | os.O_RDWR, 0o600)\n"
        "os.posix_fallocate(fd, 0, 1 << 20); kept = mmap.mmap(fd, 1 << 20); os.close(fd)\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        owner.stdout.readline()
        in_use = {segment.name for segment in collected().stale or ()}
        owner.kill()
        owner.communicate()
        left = {segment.name: segment.used_bytes for segment in collected().stale or ()}
    finally:
        owner.kill()
        Path(f"/dev/shm/{name}").unlink(missing_ok=True)

    assert name not in in_use
    assert left[name] == 1 << 20


def collected() -> SharedMemory:
    system = System()
    found = shared_memory.collect(system, mounts.collect(system))
    assert isinstance(found, SharedMemory)
    return found


def test_size_and_free_space_are_the_kernels() -> None:
    found, real = collected(), os.statvfs("/dev/shm")

    assert found.filesystem == "tmpfs"
    assert found.size_bytes == real.f_blocks * real.f_frsize


def test_without_a_mount_table_it_is_judged_all_the_same() -> None:
    """Without /proc the kernel still says how much is free."""
    found = shared_memory.collect(System(), Unavailable.absent("/proc/self/mountinfo does not exist"))

    assert isinstance(found, SharedMemory)
    assert (found.filesystem, found.size_bytes) == ("unknown", collected().size_bytes)


def test_in_a_pid_namespace_nobody_is_called_dead(tmp_path: Path) -> None:
    machine = read("bare-metal-stale-shm")[0]
    machine["files"]["/proc/self/ns/pid"] = {"link": "pid:[4026532100]"}
    system = RecordedSystem(machine, tmp_path)

    found = shared_memory.collect(system, mounts.collect(system))

    assert isinstance(found, SharedMemory)
    assert found.stale is None
    assert found.tenants[0].prefix == "torch"


def test_mapped_files_are_read_from_maps_as_the_kernel_writes_it() -> None:
    path = Path(f"/dev/shm/torch_{os.getpid()} with space_{time.monotonic_ns()}")
    with path.open("w+b") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096):
            paths = shared_memory.parse_mapped(Path("/proc/self/maps").read_text())
    path.unlink()

    assert str(path) in paths
