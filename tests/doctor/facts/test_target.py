"""Whose environment is examined: what is said, what is active, what has torch, in this order."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import target
from dl_doctor.facts.target import Target
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.system import System
from tests.collected import collected


def environment(folder: Path, *, torch: bool, python: bool = True) -> Path:
    """A folder with an interpreter that is not run, as venv lays one out."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    (packages / "torch").mkdir(parents=True)
    if torch:
        (packages / "torch" / "version.py").touch()
    (folder / "bin").mkdir()
    (folder / "pyvenv.cfg").touch()
    if python:
        (folder / "bin" / "python").write_text("#!/bin/false\n")
        (folder / "bin" / "python").chmod(0o755)
    return folder


def chosen(variables: dict[str, str], **settings: Any) -> Target | Unavailable:
    class Elsewhere(System):
        def environment(self) -> dict[str, str]:
            return variables

    told: Target | Unavailable = collected(target.collect, Elsewhere(), Settings(**settings))
    return told


@pytest.mark.parametrize(
    ("told", "active", "on_path", "why"),
    [
        (True, {"VIRTUAL_ENV"}, True, "from --python"),
        (False, {"VIRTUAL_ENV", "CONDA_PREFIX"}, True, "from VIRTUAL_ENV"),
        (False, {"CONDA_PREFIX"}, True, "from CONDA_PREFIX"),
        (False, set(), True, "the first on PATH with torch"),
        (False, set(), False, "the doctor's own"),
    ],
)
def test_the_order(tmp_path: Path, told: bool, active: set[str], on_path: bool, why: str) -> None:
    variables = {name: str(environment(tmp_path / name, torch=False)) for name in active}
    other = environment(tmp_path / "other", torch=True)
    variables["PATH"] = f"/nonexistent:{other / 'bin'}" if on_path else "/nonexistent"

    found = chosen(variables, python=str(other / "bin" / "python") if told else None)

    assert isinstance(found, Target)
    assert found.why == why
    assert found.has_torch is (told or why == "the first on PATH with torch")


def test_an_environment_that_was_removed_is_passed_over(tmp_path: Path) -> None:
    gone = environment(tmp_path / "gone", torch=True, python=False)

    found = chosen({"VIRTUAL_ENV": str(gone), "PATH": ""})

    assert isinstance(found, Target)
    assert found.path == sys.executable


def test_what_is_said_and_is_none_is_no_silent_choice_of_another(tmp_path: Path) -> None:
    found = chosen({"PATH": os.environ["PATH"]}, python=str(tmp_path / "python"))

    assert isinstance(found, Unavailable)
    assert str(tmp_path / "python") in found.detail


def test_an_environment_stands_for_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)

    found = chosen({}, python=str(tmp_path))

    assert isinstance(found, Target)
    assert (found.path, found.why) == (str(tmp_path / "bin" / "python"), "from --python")
