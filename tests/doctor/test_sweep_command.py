"""`dl-doctor sweep` from the outside, on the example that comes along."""

import json
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from dl_doctor.catalogue import load
from dl_doctor.commands.sweep import CHECKS
from dl_doctor.engine import examine
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import System
from dl_doctor.watching import Interruption

DOCTOR = f"{sysconfig.get_path('scripts')}/dl-doctor"
SETS = Path(__file__).parents[1] / "sweep_sets.py"


@pytest.mark.alone
def test_the_example(torch_python: str, tmp_path: Path) -> None:
    """Whether it is too noisy to tell depends on the machine, and on nothing else."""
    page = tmp_path / "sweep.html"
    command = [DOCTOR, "sweep", "--example", "--budget", "10", "--python", torch_python, "-f", "json", "-o", str(page)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(ended.stdout)
    found = report["facts"]["loader_sweep"]

    assert ended.stderr == ""
    assert (ended.returncode, found["conclusion"]) in {(0, "change"), (0, "keep"), (3, "too_noisy")}
    assert report["verdict"] == {
        "status": "go" if ended.returncode == 0 else "unknown", "exit_code": ended.returncode, "reason": found["why"]
    }  # fmt: skip
    assert (found["recommendation"] is None) == (ended.returncode == 3)
    assert {0, 1, 2} <= {point["num_workers"] for point in found["points"]}
    assert report["pipeline"]["narrowest"] == found["narrowest"]
    assert 0 < found["took_s"] < 25
    assert "Throughput" in page.read_text(encoding="utf-8")


def test_a_loader_that_breaks_is_exit_1(torch_python: str) -> None:
    command = [DOCTOR, "sweep", f"{SETS}:raising", "--budget", "8", "--python", torch_python]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1, ended.stdout
    assert "ValueError: sample" in " ".join(ended.stdout.split())


def test_what_was_known_when_it_was_interrupted_is_told(torch_python: str) -> None:
    interruption = Interruption()

    def watch(in_flight: Sequence[str]) -> None:
        if "loading with 2 workers" in in_flight:
            interruption.end()

    options = SweepOptions(budget_s=100, workers=(1, 2, 3, 4, 5, 6, 7, 8))
    settings = Settings(loader=f"{SETS}:latency", python=torch_python, profile="deep", select=CHECKS, sweep=options)
    report = examine(load(plugins=False), settings, System(), watcher=watch, interruption=interruption)
    found = report.facts["loader_sweep"]

    assert report.verdict.exit_code == 130
    assert report.verdict.reason.startswith("interrupted; so far: ")
    assert [point["num_workers"] for point in found["points"]] == [1]
    assert not found["complete"]
