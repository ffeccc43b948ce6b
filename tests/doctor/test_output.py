"""A report gets out whatever standard output is, and a file is never left half written."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.output import BadOutput, file_name, format_of, write_file
from tests.recorded import examine_recorded, read

DOCTOR = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-s", "runtime"]


@pytest.mark.parametrize(("path", "name"), [("a.json", "json"), ("a.TXT", "text"), ("folder/", "json"), ("/", "json")])
def test_the_ending_names_the_format(path: str, name: str) -> None:
    assert format_of(path) == name


@pytest.mark.parametrize("path", ["a.pdf", "a", "json", "a.json.gz", "a" * 300])
def test_another_ending_is_refused_with_those_that_there_are(path: str) -> None:
    with pytest.raises(BadOutput, match=r"\.txt, \.json"):
        format_of(path)


def test_a_file_is_replaced_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o666)
    write_file(str(path), b"new")

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "report.json").symlink_to("target")
    write_file(str(tmp_path / "report.json"), b"new")

    assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "report.json").is_symlink()


def test_a_device_is_written_in_place() -> None:
    write_file("/dev/null", b"new")

    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.json"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        descriptor = os.open(fifo, os.O_WRONLY)  # waits for the reader
        write_file(str(fifo), b"new")
        os.close(descriptor)
        assert reader.stdout is not None
        assert reader.stdout.read() == b"new"


def test_without_room_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        write_file(str(folder / "report.json"), b"new")

    assert list(tmp_path.iterdir()) == []


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which $DOCTOR is the doctor, by an interpreter that shows its warnings."""
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "DOCTOR": " ".join(DOCTOR), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$DOCTOR >&-", 0),  # closed
        ("$DOCTOR 2>&-", 0),
        ("$DOCTOR >&- 2>&-", 0),
        ("$DOCTOR </dev/null >/dev/full", 0),  # full
        ("$DOCTOR -o /dev/full.json", 0),  # a file that cannot be written changes no code
        (f"$DOCTOR -o {'x' * 300}.json", 0),
        (f"$DOCTOR -o /etc/passwd/{'x' * 300}/report.json", 0),
        ("$DOCTOR --num-workers 8 -f json | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}", 0),
        ("$DOCTOR -s shm-size --require shm-size --timeout 0.000001 >/dev/full 2>&1", 3),  # nor does a full disk
    ],
)
def test_the_verdict_is_the_exit_code_wherever_the_report_goes(command: str, code: int) -> None:
    done = shell(command)

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_symbols_are_what_the_stream_can_carry(encoding: str) -> None:
    done = shell("$DOCTOR -v", PYTHONIOENCODING=encoding)

    assert done.returncode == 0
    assert ("+ runtime" if encoding != "utf-8" else "✓ runtime") in done.stdout
    assert encoding == "utf-8" or done.stdout.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "utf-8"])
@pytest.mark.parametrize("command", ["-f json", "list -f json", "schema"])
def test_json_is_utf8_whatever_the_stream_is_for_text(encoding: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "été×").mkdir()
    command = command if command[0] != "-" else f"check --no-plugins -s storage --data {tmp_path}/été× {command}"
    done = subprocess.run(
        [*DOCTOR[:3], *command.split()], env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=False
    )

    assert json.loads(done.stdout.decode("utf-8"))
    assert done.stderr == b""


@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_report_that_is_cut_short_is_told(tmp_path: Path, buffered: str) -> None:
    done = shell(f"ulimit -f 4; $DOCTOR -f json > {tmp_path}/report.json", PYTHONUNBUFFERED=buffered)

    assert done.returncode == 0
    assert "standard output took no report" in done.stderr


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("to", ["standard output", "file"])
def test_a_pipe_that_does_not_wait_gets_all(tmp_path: Path, buffered: str, to: str) -> None:
    """Larger than the pipe, and read late."""
    fifo, size = str(tmp_path / "pipe.json"), 300_000
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    code = f"from dl_doctor.output import *; text = 'x' * {size}; "
    code += "print_text(text)" if to == "standard output" else f"write_file({fifo!r}, text.encode())"
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing, env={**os.environ, "PYTHONUNBUFFERED": buffered}) as run:
        os.close(writing)
        time.sleep(0.5)
        os.set_blocking(reading, True)
        with os.fdopen(reading, "rb") as pipe:
            assert len(pipe.read()) == size
    assert run.returncode == 0


def test_a_folder_gets_one_file_for_each_rank(tmp_path: Path) -> None:
    for variable, rank in (("RANK", "0"), ("RANK", "3"), ("OMPI_COMM_WORLD_RANK", "4"), ("PMI_RANK", "5"), ("PMIX_RANK", "6")):
        assert shell(f"$DOCTOR -q -o {tmp_path}", **{variable: rank}).returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())

    assert [name.rpartition("-")[2] for name in names] == [f"rank{rank}.json" for rank in (0, 3, 4, 5, 6)]


@pytest.mark.parametrize("environment", [None, [], {"variables": 3}, {"variables": {"RANK": {"a": []}}}, {"variables": {}}])
def test_any_report_has_a_file_name(tmp_path: Path, environment: Any) -> None:
    report = examine_recorded(read("docker-v1")[0], tmp_path)
    name = file_name(msgspec.structs.replace(report, facts={"environment": environment}))

    assert name.startswith(f"dl_doctor-{report.machine.hostname}-rank")


def test_a_file_gets_no_colours(tmp_path: Path) -> None:
    done = shell(f"$DOCTOR --color always -o {tmp_path}/report.txt")

    assert "\x1b[" in done.stdout
    assert "\x1b" not in (tmp_path / "report.txt").read_text()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare(1)")
def test_a_file_that_is_mounted_is_written_in_place_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    for name in (path, tmp_path / "source"):
        name.touch()
    script = f"mount --bind '{tmp_path}/source' '{path}'; exec $DOCTOR -q -o '{path}'"
    done = shell(f'unshare --mount --propagation private sh -euc "{script}"')

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "source").read_text())["verdict"]["exit_code"] == 0


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = shell(f"$DOCTOR -o {tmp_path}/none/report.json")

    assert done.returncode == 0
    assert "could not write" in done.stderr
    assert "runtime" in done.stdout or "passed" in done.stdout
