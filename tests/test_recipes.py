"""Recipes in docs/recipes.md, run as far as that goes without the cluster that they are for."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.installed import ROOT

RECIPES = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", RECIPES, re.MULTILINE | re.DOTALL)
SCRIPTS = [text for kind, text in BLOCKS if kind == "bash"]
DOCUMENTS = [text for kind, text in BLOCKS if kind == "yaml"]

TOO_LITTLE = {"DL_DOCTOR_NUM_WORKERS": "8", "DL_DOCTOR_BATCH_BYTES": "4TiB", "DL_DOCTOR_SELECT": "shm-size"}
"""A job that this machine has too little shared memory for."""

ENOUGH = {"DL_DOCTOR_NUM_WORKERS": "0", "DL_DOCTOR_SELECT": "shm-size cpu-budget"}


def script(mark: str) -> str:
    (found,) = [text for text in SCRIPTS if mark in text]
    return found


def run(tmp_path: Path, text: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script with the installed `dl-doctor`, and an `srun` and a `python` that only say that they were called."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "dl-doctor").symlink_to(Path(sysconfig.get_path("scripts")) / "dl-doctor")
    for name, does in (("python", 'echo "python $*"'), ("srun", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    (tmp_path / "script").write_text(text)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "DL_DOCTOR_PROFILE": "quick", **variables}
    return subprocess.run(
        ["bash", "script", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("text", SCRIPTS)
def test_every_script_is_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "script").write_text(text)

    assert subprocess.run(["bash", "-n", tmp_path / "script"], capture_output=True, check=True).stderr == b""


@pytest.mark.parametrize("text", DOCUMENTS)
def test_every_document_is_one(text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize(("job", "code", "said"), [(ENOUGH, 7, "hello\n"), (TOO_LITTLE, 1, "")])
def test_in_front_of_a_job(tmp_path: Path, job: dict[str, str], code: int, said: str) -> None:
    """The job's output and exit code are its own."""
    ended = run(tmp_path, script("# preflight"), "sh", "-c", "echo hello; exit 7", **job)

    assert (ended.returncode, ended.stdout) == (code, said)
    assert "(exit " in ended.stderr


@pytest.mark.parametrize("wrapper", ["containers", "initContainers"])
@pytest.mark.parametrize(("job", "code"), [(ENOUGH, 0), (TOO_LITTLE, 1)])
def test_commands_of_pods(tmp_path: Path, wrapper: str, job: dict[str, str], code: int) -> None:
    """With the log of this test's in place of Kubernetes's own."""
    pods = [yaml.safe_load(text)["spec"] for text in DOCUMENTS if "kind: Pod" in text]
    (pod,) = [pod for pod in pods if (wrapper == "initContainers") == ("initContainers" in pod)]
    container = pod[wrapper][0]
    _, _, text = [*container["command"], *container.get("args", ())]
    log = tmp_path / "termination-log"
    log.touch()
    ended = run(tmp_path, text.replace("/dev/termination-log", str(log)), **job)

    assert ended.returncode == code
    assert ("shm-size: " in log.read_text()) == bool(code)
    assert ("python train.py" in ended.stdout) == (wrapper == "containers" and not code)
    if wrapper == "initContainers":
        assert container["resources"] == pod["containers"][0]["resources"]
        assert container["volumeMounts"] == pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(("job", "code"), [(ENOUGH, 0), (TOO_LITTLE, 1)])
def test_a_batch_script(tmp_path: Path, job: dict[str, str], code: int) -> None:
    slurm = {"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "node-1", "SLURM_CPUS_PER_TASK": "1", "SLURM_PROCID": "0"}
    ended = run(tmp_path, script("#SBATCH"), **slurm, **job)
    (report,) = (tmp_path / "doctor-4711").iterdir()

    assert ended.returncode == code
    assert ("python train.py" in ended.stdout) == (not code)
    assert json.loads(report.read_text())["machine"]["scheduler"] == "slurm"


@pytest.mark.parametrize("job", [{}, TOO_LITTLE, {"DL_DOCTOR_NUM_WORKERS": "many"}])
def test_a_prolog_drains_no_node_for_a_jobs_trouble_or_ours(tmp_path: Path, job: dict[str, str]) -> None:
    text = script("# Prolog=").replace("/var/log/dl-doctor/", f"{tmp_path}/log/")
    ended = run(tmp_path, text, SLURM_SCRIPT_CONTEXT="prolog_slurmd", SLURM_JOB_ID="4711", **job)

    assert (ended.returncode, ended.stdout) == (0, "")
    if not job:
        (report,) = (tmp_path / "log").iterdir()
        assert json.loads(report.read_text())["run"]["scope"] == "node"


def test_a_prolog_drains_a_node_that_is_not_as_its_site_expects(tmp_path: Path) -> None:
    (tmp_path / "dl-doctor.toml").write_text('expect.free-space = { "/" = "900000TiB" }')
    tmp_path.chmod(0o755)
    (tmp_path / "dl-doctor.toml").chmod(0o644)
    text = script("# Prolog=").replace("/var/log/dl-doctor/", f"{tmp_path}/log/")
    ended = run(tmp_path, text, SLURM_SCRIPT_CONTEXT="prolog_slurmd", SLURM_JOB_ID="4711")

    assert (ended.returncode, ended.stdout) == (1, "")


@pytest.mark.parametrize("job", [ENOUGH, TOO_LITTLE])
def test_a_task_prolog_prints_nothing_that_slurm_would_act_on(tmp_path: Path, job: dict[str, str]) -> None:
    ended = run(tmp_path, script("# TaskProlog="), SLURM_SCRIPT_CONTEXT="prolog_task", SLURM_JOB_ID="4711", **job)

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "(exit " in ended.stderr


def test_options_that_recipes_use_are_there() -> None:
    """Also of those that cannot be run here. Behind `--` stand those of other programs."""
    calls = [(name, rest.split(" -- ")[0]) for name, rest in re.findall(r"dl-doctor (check|sweep|ticket)([^\n;|`>]*)", RECIPES)]
    helps = {
        name: subprocess.run(
            [sys.executable, "-m", "dl_doctor", name, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for name in {name for name, _ in calls}
    }
    used: list[Any] = [(name, option) for name, rest in calls for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)]

    assert len(used) > 20
    assert [(name, option) for name, option in used if option not in helps[name]] == []
