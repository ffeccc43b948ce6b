"""The sweep where the machine itself is what is narrow: a disk with a limit on its rate, a quota of CPU time, memory."""

import contextlib
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.model import Report
from dl_doctor.text import key_values

pytestmark = [pytest.mark.lab, pytest.mark.alone]

SETS = Path(__file__).parents[1] / "sweep_sets.py"
GROUPS = Path("/sys/fs/cgroup")

PATIENCE_S = 20.0

STORED_BYTES = 64 << 20
BYTES_PER_S = 16 << 20


@contextlib.contextmanager
def group(controller: str, **files: str) -> Iterator[Path]:
    """A group of cgroup v1 with these files written, without their controller's prefix."""
    if not (GROUPS / controller / "cgroup.procs").exists():
        pytest.skip(f"needs cgroup v1 with {controller}")
    made = GROUPS / controller / f"dl-doctor-test-{os.getpid()}"
    made.mkdir()
    try:
        for name, content in files.items():
            (made / name.replace("__", ".")).write_text(content)
        yield made
    finally:
        end_s = time.monotonic() + PATIENCE_S  # for processes that have been killed and have not got the CPU to die
        while (made / "cgroup.procs").read_text() and time.monotonic() < end_s:
            time.sleep(0.05)
        made.rmdir()


def swept(inside: Path, python: str, name: str, *options: str, **variables: str) -> dict[str, Any]:
    """What a sweep says that runs in this group."""
    found: dict[str, Any] = reported(inside, python, name, *options, **variables).facts["loader_sweep"]
    return found


def reported(inside: Path, python: str, name: str, *options: str, **variables: str) -> Report:
    doctor = [f"{sysconfig.get_path('scripts')}/dl-doctor", "sweep", f"{SETS}:{name}", "--python", python, "-f", "json", *options]
    command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(inside), *doctor]
    ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    report = msgspec.json.decode(ended.stdout, type=Report)
    assert ended.returncode == report.verdict.exit_code
    return report


def test_a_slow_disk(torch_python: str, tmp_path: Path) -> None:
    """Of 16 MiB a second, which is 256 samples; each worker waits for it nearly all the time."""
    file = Path("/var/tmp") / f"dl-doctor-test-{os.getpid()}"
    file.write_bytes(os.urandom(STORED_BYTES))
    device = file.stat().st_dev
    limit = f"{os.major(device)}:{os.minor(device)} {BYTES_PER_S}"
    try:
        with group("blkio", blkio__throttle__read_bps_device=limit) as slow:
            found = swept(slow, torch_python, "disk", "--workers=1,2,4", "--budget=10", SWEEP_SETS_FILE=str(file))
    finally:
        file.unlink()

    assert (found["bottleneck"], found["narrowest"]) == ("disk", "disk"), found
    assert max(point["samples_per_s"] for point in found["points"]) < 1.5 * BYTES_PER_S / (1 << 16)


def test_a_quota(torch_python: str) -> None:
    with group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="50000") as small:
        found = swept(small, torch_python, "cpu", "--workers=1,2", "--budget=12", "--timeout=300")

    assert found["bottleneck"] == "quota", found


def test_too_little_memory_for_more_workers(torch_python: str) -> None:
    """64 MiB for each worker that sleeps, and 1 GiB for all: 4 are faster than 2, and 16 are not tried."""
    with group("memory", memory__limit_in_bytes=str(1 << 30)) as small:
        report = reported(small, torch_python, "hoarding", "--workers=1,4,16", "--budget=8")
        killed = key_values((small / "memory.oom_control").read_text())["oom_kill"]
    found = report.facts["loader_sweep"]

    assert (report.verdict.exit_code, killed) == (0, 0), found
    assert found["bottleneck"] == "memory", found
    assert found["recommendation"]["num_workers"]["value"] == 4
    assert "of the memory that is left" in found["limited_by"]
