"""Where things are broken there is still a report on standard output, the right exit code, and no traceback."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts.loader import EXAMPLE

HANGS = "import time; time.sleep(60)"


def doctor(*options: str, **environment: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Run the doctor as a user would; gives exit code, statuses and the report. Standard error stays empty."""
    done = subprocess.run(
        [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-f", "json", *options],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == b""
    report = json.loads(done.stdout)
    assert done.returncode == report["verdict"]["exit_code"]
    return done.returncode, {result["id"]: result["status"] for result in report["results"]}, report


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment of this Python with a module that is called torch."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch" / "version.py").write_text("__version__ = '2.9.0'\ncuda = None\n")
    return folder


@pytest.mark.parametrize(
    ("torch", "options", "code", "status"),
    [
        ("raise ImportError('libcudnn.so.9: cannot open shared object file')", (), 1, "fail"),
        ("raise SystemExit(0)", (), 1, "fail"),
        ("import os; os._exit(0)", (), 1, "fail"),
        ("import os; os.kill(os.getpid(), 11)", (), 1, "fail"),
        ("import os; os.abort()", (), 1, "fail"),
        ("print('x' * 10_000_000); raise RuntimeError('\\udcff')", (), 1, "fail"),
        ("def recurse(): recurse()\nrecurse()", (), 1, "fail"),
        (HANGS, ("--timeout", "8"), 3, "error"),  # nobody can tell yet, which is no go
        (HANGS, ("--timeout", "8", "--profile", "quick"), 0, "not_run"),
    ],
)
def test_a_torch_that_is_broken(environment: Path, torch: str, options: tuple[str, ...], code: int, status: str) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "torch" / "__init__.py").write_text(torch)

    told, statuses, _ = doctor(*options, VIRTUAL_ENV=str(environment))

    assert (told, statuses["torch-imports"]) == (code, status)


def test_without_torch_it_is_skipped_and_no_fault(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)

    code, statuses, report = doctor(VIRTUAL_ENV=str(environment))

    assert (code, statuses["torch-imports"]) == (0, "skip")
    assert report["run"]["python"] == {"path": f"{environment}/bin/python", "why": "from VIRTUAL_ENV"}


def test_with_a_real_torch_all_is_well(torch_python: str) -> None:
    """The doctor lies in an environment of its own, as pipx puts it, and examines another one."""
    code, statuses, report = doctor("--python", torch_python)

    assert code == 0
    assert {status for status in statuses.values() if status not in ("pass", "skip", "not_run")} == set()
    assert statuses["torch-imports"] == "pass"
    assert report["machine"]["torch"].startswith("2.13.0")


def test_the_example_is_well_here(torch_python: str) -> None:
    """Notes apart, it gives no finding: whoever tries it learns of the machine, and not of the example."""
    code, statuses, report = doctor("--example", "--python", torch_python, "-i", "shm-size")  # which may find what others left

    assert code == 0
    assert {status for status in statuses.values() if status not in ("pass", "skip", "not_run")} == set()
    assert (statuses["dataset-loads"], report["facts"]["loader"]["length"]) == ("pass", 512)
    assert report["run"]["duration_s"] < 30  # about 3 s, and 10 s at most where nothing else runs


def test_the_example_needs_torch(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)

    code, statuses, _ = doctor("--example", VIRTUAL_ENV=str(environment))

    assert (code, statuses["dataset-loads"]) == (3, "error")  # it was asked for


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_examples_workers_start_by_each_method(torch_python: str, tmp_path: Path, method: str) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom dl_doctor_example import DataLoader, Images\n"
        "pictures, numbers = next(iter(DataLoader(Images(), 4, num_workers=1, multiprocessing_context=sys.argv[2])))\n"
        "print(*pictures.shape, pictures.abs().max() <= 1, numbers.tolist())"
    )
    folder = Path(EXAMPLE.rpartition("/")[0])

    done = subprocess.run(
        [torch_python, "-c", program, folder, method], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stderr, done.stdout) == ("", "4 3 112 112 tensor(True) [0, 1, 2, 3]\n")


@pytest.mark.parametrize("python", ["/nonexistent/python", "/etc/passwd", "/"])
def test_an_interpreter_that_is_none(python: str) -> None:
    code, statuses, _ = doctor("--python", python)

    assert (code, statuses["torch-imports"], statuses["memory-budget"]) == (3, "error", "pass")


def test_an_interpreter_that_answers_nonsense(tmp_path: Path) -> None:
    """It runs, and is no Python."""
    program = tmp_path / "python"
    shutil.copy(shutil.which("true") or "/bin/true", program)

    code, statuses, _ = doctor("--python", str(program))

    assert (code, statuses["interpreter"], statuses["runtime"]) == (1, "fail", "pass")
    assert statuses["shm-usable"] == "error"


@pytest.mark.parametrize("variables", [{"TMPDIR": "/nonexistent"}, {"HOME": "/nonexistent"}, {"PATH": ""}, {"LANG": "xx_XX"}])
def test_an_environment_that_is_off(variables: dict[str, str]) -> None:
    code, statuses, _ = doctor(**variables)

    assert code == 0
    assert statuses["runtime"] == "pass"
