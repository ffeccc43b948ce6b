"""Real interpreters are asked what they are, broken ones too."""

import ast
import sys
from pathlib import Path

import pytest

from dl_doctor.facts import InterpreterBuild, StartMethods, Target, interpreter_build, start_methods
from dl_doctor.model import Ended, Unavailable
from tests.collected import collected
from tests.installed import ROOT

PROBES = [*sorted((ROOT / "doctor" / "probes").glob("*.py")), ROOT / "doctor" / "guard.py"]


def looked_at(python: str) -> InterpreterBuild:
    return collected(interpreter_build.collect, Target(path=python, why="a test", has_torch=False))


@pytest.mark.parametrize("path", PROBES, ids=lambda path: path.name)
def test_probes_can_be_read_by_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_our_own_is_complete() -> None:
    build = looked_at(sys.executable)

    assert (build.ended.how, build.missing) == ("answered", ())
    assert build.version == ".".join(map(str, sys.version_info[:3]))
    assert build.kind == ("venv" if sys.prefix != sys.base_prefix else build.kind)
    assert build.libc_version is not None or build.libc != "glibc"
    assert "spawn" in build.start_methods


def test_all_interpreters_of_this_machine_answer() -> None:
    """Those that pyenv has, from 3.8 on, where it has some."""
    found = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    versions = {path: tuple(int(part) for part in path.parts[-3].split(".")[:2] if part.isdecimal()) for path in found}
    for path in [path for path in found if versions[path] >= (3, 8)]:
        build = looked_at(str(path))

        assert (build.version, build.kind) == (path.parts[-3], "installation"), path
        assert {missing.module for missing in build.missing} <= {"_bz2", "_lzma"}, path


def test_what_a_build_lacks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_multiprocessing.py").write_text("")  # there, and without semaphores
    (tmp_path / "_lzma.py").write_text("raise ImportError('no liblzma')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    missing = {missing.module: missing.error for missing in looked_at(sys.executable).missing}

    assert missing.keys() == {"_multiprocessing", "_lzma"}
    assert missing["_lzma"] == "ImportError: no liblzma"


@pytest.mark.parametrize(
    ("content", "how"),
    [
        ("#!/nonexistent/python\n", "unstartable"),
        ("#!/bin/sh\necho 'error while loading shared libraries: libpython3.11.so.1.0' >&2; exit 127\n", "exited"),
        ("#!/bin/sh\nkill -SEGV $$\n", "killed"),
    ],
)
def test_one_that_does_not_start(tmp_path: Path, content: str, how: str) -> None:
    (tmp_path / "python").write_text(content)
    (tmp_path / "python").chmod(0o755)

    build = looked_at(str(tmp_path / "python"))

    assert (build.ended.how, build.version) == (how, None)


def methods() -> StartMethods:
    told = start_methods.collect(looked_at(sys.executable))
    assert isinstance(told, StartMethods)
    return told


def test_start_methods_as_this_python_has_them() -> None:
    assert methods().python == sys.version_info[:2]
    assert methods().unless_said == ("forkserver" if sys.version_info >= (3, 14) else "fork")
    assert set(methods().available) == {"fork", "spawn", "forkserver"}


def test_a_method_that_is_set_where_the_interpreter_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import multiprocessing; multiprocessing.set_start_method('spawn')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert methods().unless_said == "spawn"


def test_no_start_methods_where_it_does_not_start_or_lacks_them() -> None:
    nothing = start_methods.collect(looked_at("/nonexistent/python"))
    without = start_methods.collect(InterpreterBuild(ended=Ended(how="answered"), version="3.12.1"))

    assert isinstance(nothing, Unavailable)
    assert "cannot be started" in nothing.detail
    assert isinstance(without, Unavailable)
    assert "multiprocessing" in without.detail
