"""`dl-doctor ticket`: Markdown without names and secrets, of a saved report or of a check that is run now."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from dl_doctor import cli
from tests.installed import run as run_process


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the command line in this process; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        return code, *capfd.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.json"], "none.json: No such file or directory"),
        (["-f", "json"], "a ticket is Markdown; for another format say"),
        (["none.json", "--num-workers", "4"], "--num-workers is for a check, and REPORT was made by one"),
        (["none.json", "-s", "shm"], "-s is for a check"),
        (["--facts", "none.json"], "none.json: No such file or directory"),
    ],
)
def test_what_is_wrong(doctor: Any, arguments: list[str], says: str) -> None:
    code, out, err = doctor("ticket", *arguments)

    assert (code, out) == (2, "")
    assert says in err


def test_of_a_saved_report(doctor: Any, tmp_path: Path) -> None:
    """It exits by whether it could be written, not by what it says."""
    arguments = ["check", "--no-plugins", "-s", "worker-count,runtime", "--num-workers", "4096", "--fail-on", "warn"]
    code, _, _ = doctor(*arguments, "-o", str(tmp_path / "a.json"))
    ticket, out, err = doctor("ticket", str(tmp_path / "a.json"), "-o", str(tmp_path / "ticket.md"))
    _, same, _ = doctor("render", str(tmp_path / "a.json"), "--redact", "-f", "markdown")

    assert (code, ticket) == (1, 0)
    assert out == same == (tmp_path / "ticket.md").read_text()
    assert "worker-count" in out
    assert "Read the report before you post it" in err


def test_a_file_that_says_how_reports_are_shown_changes_no_ticket(doctor: Any, tmp_path: Path) -> None:
    (tmp_path / "dl-doctor.toml").write_text('format = "json"\nprofile = "quick"\nselect = ["runtime"]\n')
    code, out, err = doctor("ticket", "--no-plugins", "--config", str(tmp_path / "dl-doctor.toml"))

    assert code == 0, err
    assert not out.startswith("{")
    assert "runtime" in out


def test_it_holds_what_pytorch_says_of_itself(doctor: Any, torch_python: str, tmp_path: Path) -> None:
    """Taken in the examined environment, and redacted like the rest; `check` does not take it."""
    arguments = ["--no-plugins", "-s", "runtime", "--python", torch_python, "-o", f"{tmp_path}/folder/"]
    code, out, err = doctor("ticket", *arguments)
    (saved,) = (tmp_path / "folder").iterdir()
    document = json.loads(saved.read_text())
    _, plain, _ = doctor("check", "--no-plugins", "-s", "runtime", "--python", torch_python, "-f", "json")

    assert code == 0, err
    assert "PyTorch version: 2." in out
    assert document["facts"]["collect_env"]["text"].startswith("PyTorch version: 2.")
    assert document["machine"]["hostname"] == "host-1"
    assert socket.gethostname() not in saved.name
    assert "collect_env" not in json.loads(plain)["facts"]


def test_nobody_elses_command_line_is_in_it(tmp_path: Path) -> None:
    """Of no process of this machine, whoever's it is."""
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    secret = "canary-in-a-command-line"
    with subprocess.Popen([sys.executable, "-c", "input()", f"--{secret}"], stdin=subprocess.PIPE) as other:
        done = run_process([sys.executable, "-m", "dl_doctor", "ticket", "-o", "ticket.json"], tmp_path)
        other.communicate(b"\n")

    assert done.returncode == 0, done.stderr
    assert "results" in json.loads((tmp_path / "ticket.json").read_text())
    assert secret not in done.stdout + (tmp_path / "ticket.json").read_text()
