"""What lies in /dev/shm: real segments of real processes where we can see them, unknown where we cannot."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dl_doctor.facts import mounts, shared_memory
from dl_doctor.facts.shared_memory import INITIAL_PID_NAMESPACE, Segment, SharedMemory
from dl_doctor.model import Unavailable
from dl_doctor.system import System
from tests.recorded import RecordedSystem, read


@pytest.mark.skipif(
    Path("/proc/self/ns/pid").is_symlink() and os.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE,
    reason="in a PID namespace of its own nothing is called left over",
)
def test_a_segment_is_left_over_once_its_process_was_killed() -> None:
    name = f"nccl-{os.getpid() % 1_000_000:06}"
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


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch_4242_1804289383_0", True),
        ("nccl-Ab12cD", True),
        ("sem.mp-k3v_0x1z", True),
        ("sem.loky-4242-k3v_0x1z", True),
        ("cuda.shm.3e8.1092.1", True),
        ("__KMP_REGISTERED_LIB_4242_1000", True),
        ("joblib_memmapping_folder_4242_0a1b_2c3d/4242-140-f0.pkl", True),
        ("torch_1_1804289383_0", False),  # the process that made it lives
        ("__KMP_REGISTERED_LIB_1_1000", False),
        ("psm_0a1b2c3d", False),  # closed by one process, not yet opened by the next
        ("psm_dataset.npy", False),  # data of the user's, here and below
        ("torch_2024_imagenet", False),
        ("nccl-tests-data/shard0.tar", False),
        ("plasma_physics/train.bin", False),
        ("data/torch_4242_1804289383_0", False),
    ],
)
def test_only_names_of_the_libraries_own_are_called_left_over(tmp_path: Path, name: str, *, told: bool) -> None:
    assert [segment.name for segment in left_over(tmp_path, name)] == [name] * told


@pytest.mark.parametrize(
    ("maps", "links"),
    [
        ("7f00-7f10 rw-s 00000000 00:17 3  /dev/shm/nccl-Ab12cD", {}),
        ("7f00-7f10 rw-s 00000000 00:17 3  /mnt/other/nccl-Ab12cD", {}),  # the same file, mounted in two places
        ("", {"5": "/dev/shm/nccl-Ab12cD"}),
        ("", {"5": "/mnt/other/nccl-Ab12cD"}),
    ],
)
def test_what_a_process_uses_is_not_left_over(tmp_path: Path, maps: str, links: dict[str, str]) -> None:
    assert left_over(tmp_path, "nccl-Ab12cD", maps, links) == ()


def left_over(folder: Path, name: str, maps: str = "", links: dict[str, str] | None = None) -> tuple[Segment, ...] | None:
    """Of one file, on a machine with processes 1 and 77, the second of which has these mappings and descriptors."""
    machine = read("bare-metal-stale-shm")[0]
    machine["files_below"]["/dev/shm"] = [{"path": f"/dev/shm/{name}", "used_bytes": 4096, "uid": 1000, "inode": 3}]
    machine["files"]["/proc/77/maps"] = f"{maps}\n"
    machine["files"] |= {f"/proc/77/fd/{number}": {"link": target} for number, target in (links or {}).items()}
    system = RecordedSystem(machine, folder)
    found = shared_memory.collect(system, mounts.collect(system))
    assert isinstance(found, SharedMemory)
    return found.stale


def test_mapped_files_are_read_from_maps_as_the_kernel_writes_it() -> None:
    path = Path(f"/dev/shm/torch_{os.getpid()} with space_{time.monotonic_ns()}")
    with path.open("w+b") as file:
        file.truncate(4096)
        seen = os.fstat(file.fileno())
        with mmap.mmap(file.fileno(), 4096):
            mapped = shared_memory.parse_maps(Path("/proc/self/maps").read_text())
    path.unlink()

    assert (f"{os.major(seen.st_dev)}:{os.minor(seen.st_dev)}", seen.st_ino) in mapped
