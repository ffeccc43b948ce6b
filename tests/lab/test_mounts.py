"""Real mounts that are small, full, forbidden, far away or dead, in a mount namespace of its own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dl_doctor.model import Report
from tests.lab.doctor import table

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for mounts"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]


def examine(script: str, *options: str, folder: Path, **variables: str) -> Report:
    """The report of a doctor that is called in a folder after a shell has made these mounts there."""
    doctor = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-f", "json", *options]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", f'{script}\nexec "$@"', "sh", *doctor],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"", done.stderr
    return msgspec.json.decode(done.stdout, type=Report)


def summaries(report: Report, check: str) -> list[str]:
    (result,) = (result for result in report.results if result.id == check)
    return [finding.summary for finding in result.findings if finding.level != "note"]


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (
            "mount -t tmpfs -o size=1m shm /dev/shm",
            "fail",
            "Not even a segment of 4 MiB can be made here: No space left on device (ENOSPC)",
        ),
        ("mount -t tmpfs -o size=64m shm /dev/shm", "pass", ""),
        ("mount -t tmpfs -o size=64m,noexec shm /dev/shm", "pass", ""),  # as Docker mounts it
        ("mount -t tmpfs -o size=64m,nr_inodes=1 shm /dev/shm", "fail", "Neither"),  # full in files
        ("mount -t tmpfs -o ro shm /dev/shm", "fail", "(EROFS)"),
        ("mkdir shm && mount --bind shm /dev/shm", "warn", "/dev/shm is no memory"),
        ("mount -t tmpfs dev /dev && mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9", "fail", "(ENOENT)"),  # none at all
    ],
)
def test_shared_memory(script: str, status: str, said: str, tmp_path: Path) -> None:
    report = examine(script, "-s", "shm-usable", folder=tmp_path)

    assert table(report) == {"shm-usable": status}
    assert said in "".join(summaries(report, "shm-usable"))


FILL = "head -c 64M /dev/zero >full || true"
"""More than the mount holds, and little enough to do no harm wherever it lands."""


@pytest.mark.parametrize(
    ("options", "script", "statuses"),
    [
        ("size=16m", ":", {}),
        ("size=16m", FILL, {"disk-space": "fail", "path-writable": "fail"}),
        ("size=16m,nr_inodes=20", "seq 40 | xargs touch || true", {"disk-space": "fail", "path-writable": "fail"}),
        ("size=16m,ro", ":", {"path-writable": "warn"}),
    ],
)
def test_the_working_directory(options: str, script: str, statuses: dict[str, str], tmp_path: Path) -> None:
    """Small and empty, full in bytes, full in files, and read-only."""
    (tmp_path / "work").mkdir()
    entered = f"mount -t tmpfs -o {options} it work\ncd work\n({script}) 2>/dev/null"
    report = examine(entered, "-s", "storage", "-i", "import-latency", folder=tmp_path)
    healthy = dict.fromkeys(("disk-space", "disk-type", "mount-responds", "path-writable"), "pass")

    assert table(report) == {**healthy, **statuses}


@pytest.mark.parametrize(
    ("script", "levels"),
    [
        ("mount -t tmpfs -o size=16m it temp", []),
        ("mount -t tmpfs -o size=16m,noexec it temp", ["note"]),
        ("mount -t tmpfs -o ro it temp", ["note"]),  # Python goes on to /tmp
    ],
)
def test_temporary_files(script: str, levels: list[str], short_path: Path) -> None:
    (short_path / "temp").mkdir()
    report = examine(script, "-s", "temp-space", folder=short_path, TMPDIR=str(short_path / "temp"))
    (result,) = report.results

    assert (result.status, [finding.level for finding in result.findings]) == ("pass", levels)


def test_no_folder_for_temporary_files(tmp_path: Path) -> None:
    """Where / is mounted read-only; the working directory is the last resort of Python."""
    script = "for folder in /tmp /var/tmp /usr; do mount -t tmpfs -o ro it $folder; done; cd /usr"
    if str(tmp_path).startswith("/tmp") or sys.base_prefix.startswith("/usr"):
        script = script.replace("/usr;", "/mnt;").replace("cd /usr", "cd /mnt").replace("/tmp /var", "/var")
        script += f"; mkdir {tmp_path}/keep; mount --bind -o ro /tmp /tmp; mount -o remount,bind,ro /tmp"
    report = examine(script, "-s", "temp-space", folder=tmp_path)
    (result,) = report.results

    assert (result.status, result.findings[0].summary) == ("fail", "There is no folder for temporary files")


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Path]:
    """A filesystem in user space above another one whose program was stopped: what touches it cannot even be killed."""
    if shutil.which("bindfs") is None:
        pytest.skip("needs bindfs")
    source, low, high = (tmp_path / name for name in ("source", "low", "high"))
    for folder in (source, low, high):
        folder.mkdir()
    programs = [mounted(source, low)]
    try:
        programs.append(mounted(low, high))
        os.kill(programs[0].pid, 19)
        yield high
    finally:
        os.kill(programs[0].pid, 18)
        for folder in (high, low):
            subprocess.run(["umount", "-l", folder], check=False, capture_output=True)
        for program in programs:
            program.wait(10)


def mounted(source: Path, target: Path) -> subprocess.Popen[bytes]:
    program = subprocess.Popen(["bindfs", "-f", source, target], stdin=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while str(target) not in Path("/proc/self/mounts").read_text() and time.monotonic() < end:
        time.sleep(0.05)
    return program


@pytest.mark.alone
def test_a_mount_that_died_keeps_nobody(dead: Path, tmp_path: Path) -> None:
    """The run ends a second after the deadline, and so does a shell that waits for its output; what is stuck is named."""
    begin = time.monotonic()
    doctor = f"{sys.executable} -m dl_doctor check -s storage -i import-latency --profile quick -f json --data {dead}/train"
    shell = f'out=$({doctor}); printf %s "$out"'
    done = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    took_s = time.monotonic() - begin
    report = msgspec.json.decode(done.stdout, type=Report)

    assert took_s < report.run.duration_s + 2  # the shell waits for nothing but the doctor, which has to start, too
    assert report.run.duration_s < 5 + 1
    assert table(report) == {"disk-space": "pass", "disk-type": "pass", "mount-responds": "fail", "path-writable": "pass"}
    (finding,) = (f for result in report.results for f in result.findings if f.level == "fail")
    assert f"at: stat {dead}/train" in finding.summary
    assert "state D, in request_wait_answer" in finding.summary
    assert finding.fixes[0].commands == (f"umount -l {dead}",)
    (path,) = (entry for entry in report.facts["data_paths"]["entries"] if entry["role"] == "data")
    assert f"pid {path['ended']['pid']}" in finding.summary


def test_a_program_that_ended_and_left_its_mount(tmp_path: Path) -> None:
    if shutil.which("bindfs") is None:
        pytest.skip("needs bindfs")
    for name in ("source", "here"):
        (tmp_path / name).mkdir()
    program = mounted(tmp_path / "source", tmp_path / "here")
    program.kill()
    program.wait()
    try:
        report = examine(":", "-s", "mount-responds", "--data", "here", folder=tmp_path)
    finally:
        subprocess.run(["umount", "-l", tmp_path / "here"], check=True)

    assert table(report) == {"mount-responds": "fail"}
    assert "(ENOTCONN)" in summaries(report, "mount-responds")[0]


def test_the_disk_below_a_loop_and_an_overlay(tmp_path: Path) -> None:
    script = f"""
    truncate -s 64M image && mkfs.ext4 -q image && mkdir disk && mount -o loop image disk
    mkdir disk/low disk/up disk/work over
    mount -t overlay -o lowerdir={tmp_path}/disk/low,upperdir={tmp_path}/disk/up,workdir={tmp_path}/disk/work over over
    """
    report = examine(script, "-s", "disk-type", "--data", "over", folder=tmp_path)
    (place,) = (place for place in report.facts["disks"]["places"] if place["path"] == f"{tmp_path}/over")

    assert (place["filesystem"], place["kind"], place["layers"]) == ("overlay", "disk", ["overlay"])
    assert [(disk["name"][:4], disk["virtual"]) for disk in place["disks"]] == [("loop", True)]
