"""A command of the user's is run until it has a loader, which is examined; and nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.test_broken_datasets import MARK, alive

TRAIN = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __init__(self, size): self.size = size
    def __len__(self): return self.size
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(4), index

def main():
    rank = int(os.environ.get("LOCAL_RANK", 0))
    print("begin", sys.stdin.read(), *sys.argv[1:], flush=True)
    for batch in DataLoader(Slow(1000 + rank), batch_size=4, num_workers=1):
        print("a step", flush=True)

if __name__ == "__main__":
    main()
"""

PLACE = f"train.py:{TRAIN[: TRAIN.index('for batch')].count(chr(10)) + 1}"

LOADS = ("check", "--no-plugins", "-s", "dataset-loads", "-f", "json")


def started(folder: Path, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    (folder / "train.py").write_text(TRAIN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "dl_doctor", *arguments],  # a shell's background jobs hear of none
        cwd=folder,
        env={**environment, MARK: str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def doctor(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """The exit code, and what is printed on both streams; nothing of the command is left."""
    process = started(folder, *arguments, **variables)
    told, said = process.communicate(timeout=240)
    assert alive(str(folder)) == []
    return process.returncode, told, said


def seen(report: dict[str, Any]) -> str:
    (result,) = [result for result in report["results"] if result["id"] == "dataset-loads"]
    return str(result["seen"])


def test_a_script_that_a_shell_starts(torch_python: str, tmp_path: Path) -> None:
    """What it sets is what its Python has; the site's own sitecustomize, which ours hides, runs; what is typed comes first."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import os, sys\nif 'FOO' in os.environ: print('mine', sys.path[0])")
    (tmp_path / "train.sh").write_text(f"export FOO=1 OMP_NUM_THREADS=3\n{torch_python} train.py --epochs 3\n")

    code, told, said = doctor(
        tmp_path, *LOADS, "--", "bash", "train.sh", PYTHONPATH=str(tmp_path / "site"), DL_DOCTOR_PYTHON="/none"
    )

    report = json.loads(told)
    assert (code, said) == (0, f"mine {tmp_path}/site\nbegin  --epochs 3\n")
    assert seen(report) == f"{PLACE}: __main__.Slow of 1,000 samples"
    assert report["run"]["settings"]["command"] == ["bash", "train.sh"]
    assert report["run"]["python"] == {"path": torch_python, "why": "that of the command"}
    assert report["facts"]["environment"]["variables"]["OMP_NUM_THREADS"] == "3"


def test_ranks(torch_python: str, tmp_path: Path) -> None:
    """Each has a loader of its own; that of local rank 0 is examined. What the launcher says of its end is not told."""
    launcher = (torch_python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py", "--api-key=hunter2hunter2")

    code, told, said = doctor(tmp_path, *LOADS, "--redact", "--", *launcher)

    report = json.loads(told)
    assert (code, seen(report)) == (0, f"{PLACE}: __main__.Slow of 1,000 samples")
    assert report["facts"]["environment"]["variables"]["LOCAL_WORLD_SIZE"] == "2"
    assert "hunter2hunter2" not in told
    assert "a step" not in said
    assert "SIGTERM" not in said


@pytest.mark.alone
def test_a_sweep(torch_python: str, tmp_path: Path) -> None:
    options = ("--workers", "0,2", "--budget", "10", "-o", "report.json")

    code, told, _ = doctor(tmp_path, "sweep", *options, "--", torch_python, "train.py")

    report = json.loads((tmp_path / "report.json").read_text())
    sweep = report["facts"]["loader_sweep"]
    assert (code, sweep["conclusion"], sweep["recommendation"]["num_workers"]["value"]) == (0, "change", 2), sweep["why"]
    assert sweep["current"] == 1
    assert report["run"]["settings"]["loader"] == PLACE
    assert f"the loader at {PLACE}" in " ".join(told.split())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("check", "--", "sh", "-c", "echo hello; exit 4"),
            3,
            "ended with code 4 before it iterated over a DataLoader.\nIts last",
        ),
        (
            ("sweep", "--", "sh", "-c", "kill -9 $$"),
            3,
            "was killed by SIGKILL before it iterated over a DataLoader. It printed noth",
        ),
        (("check", "--wait", "0.5", "--", "sleep", "60"), 3, "no DataLoader within 0.5 s (--wait).\nIt is doing:\n"),
        (("check", "--", "nonexistent", "train.py"), 2, "there is no program 'nonexistent' that can be run"),
        (("sweep", "--", "train.py"), 2, "there is no program 'train.py' that can be run; write `python train.py`"),
        (("check", "--", "./no-program"), 2, "cannot be run: "),  # it may be executed, and the kernel knows no such format
        (("check", "--"), 2, "no command stands behind --: write it like `-- python train.py`"),
        (("check", "--python", "python3", "--", "true"), 2, "--python and a command exclude each other"),
        (("check", "--loader", "a:b", "--", "true"), 2, "--loader and a command exclude each other"),
        (("sweep", "a:b", "--", "true"), 2, "SPEC and a command exclude each other"),
        (("sweep", "--example", "--", "true"), 2, "--example and a command exclude each other"),
        (("check", "--profile", "quick", "--", "true"), 2, "a command needs --profile default"),
    ],
)
def test_without_a_loader(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    (tmp_path / "no-program").write_text("no program")
    (tmp_path / "no-program").chmod(0o755)

    told = doctor(tmp_path, *arguments)

    assert told[:2] == (code, "")
    assert words in told[2]


def test_ctrl_c_ends_both(tmp_path: Path) -> None:
    process = started(tmp_path, "check", "--", "sh", "-c", "echo it runs; sleep 600; true")
    assert process.stderr is not None
    assert process.stderr.readline() == "it runs\n"
    begin_s = time.monotonic()
    process.send_signal(signal.SIGINT)

    told, said = process.communicate(timeout=60)
    assert (told, said.strip()) == ("", "dl-doctor: interrupted")
    assert process.returncode == 130
    assert time.monotonic() - begin_s < 5  # it need not be killed
    assert alive(str(tmp_path)) == []
