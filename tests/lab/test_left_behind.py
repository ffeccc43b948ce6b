"""Whatever the doctor looks at and however it ends, a second later nothing of it is left."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces of its own"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]

TORCH = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 4096)
        open({begun!r}, "w").close()
        time.sleep(600)
    os._exit(0)
time.sleep({seconds})
__version__ = "0"
"""
"""A module that leaves a daemon behind: forked twice, in a session of its own, with all descriptors closed."""

INSIDE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

folders = [Path(folder) for folder in (os.environ["TMPDIR"], "/dev/shm", os.environ["HOME"], os.getcwd())]
def files():
    return sorted(str(path) for folder in folders for path in folder.rglob("*"))
def alive(name):
    return open(f"/proc/{name}/stat").read().rpartition(") ")[2][0] != "Z"  # the first process here reaps nobody
def processes():
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and alive(name))

before, number = files(), int(sys.argv[1])
doctor = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
if number:
    while not Path("../begun").exists() and doctor.poll() is None:  # then it is in the middle of the import
        time.sleep(0.02)
    during = len(processes())
    doctor.send_signal(number)
else:
    during = None
out, err = doctor.communicate(timeout=60)
time.sleep(1)
print(json.dumps({"code": doctor.returncode, "out": out.decode(), "err": err.decode(), "during": during,
                  "processes": processes(), "files": sorted(set(files()) - set(before))}))
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment in which torch is the module above."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch" / "version.py").touch()
    return folder


@pytest.mark.alone
@pytest.mark.parametrize(("number", "seconds", "code"), [(0, 0, 1), (2, 60, 130), (15, 60, 143), (9, 60, -9)])
def test_nothing_is_left(environment: Path, tmp_path: Path, number: int, seconds: int, code: int) -> None:
    """After a normal end, Ctrl-C, SIGTERM and SIGKILL, in namespaces of processes and mounts of its own."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "torch" / "__init__.py").write_text(TORCH.format(seconds=seconds, begun=f"{tmp_path}/begun"))
    told = called(tmp_path, number, {"VIRTUAL_ENV": str(environment)})

    assert told["code"] == code, told
    assert told["processes"] == [1], told
    assert told["files"] == []
    assert number == 0 or told["during"] > 4  # there was something to leave behind
    assert number == 9 or json.loads(told["out"])["verdict"]["exit_code"] == code  # what was known is written


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_leave_nothing(torch_python: str, short_path: Path, method: str) -> None:
    """What passes batches through /dev/shm, and a fork server's socket in the temporary folder, is gone with them."""
    told = called(short_path, 0, {}, "-s", "smoke-load", "--example", "--python", torch_python, "--start-method", method)
    report = json.loads(told["out"])

    assert [(result["id"], result["status"]) for result in report["results"] if result["status"] != "not_run"] == [
        ("smoke-load", "pass")
    ]
    assert report["facts"]["smoke_load"]["method"] == method
    assert len(report["facts"]["smoke_load"]["came_s"]) == report["facts"]["smoke_load"]["wanted"]
    assert told["processes"] == [1], told
    assert told["files"] == []


def called(folder: Path, number: int, variables: dict[str, str], *options: str) -> Any:
    """The doctor, with namespaces of processes and mounts of its own, is sent this signal: how it ended and what is left."""
    (folder / "inside.py").write_text(textwrap.dedent(INSIDE))
    doctor = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-f", "json", *options]
    fresh = 'mount -t tmpfs shm /dev/shm && mkdir -p work home temporary && cd work && exec "$@"'
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--propagation", "private", "sh", "-c", fresh, "sh",
         sys.executable, str(folder / "inside.py"), str(number), *doctor],
        cwd=folder,
        env={**os.environ, "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
