"""Our own code is linted and formatted, and types are checked on what ships: the package as a wheel holds it."""

import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.installed import ROOT, Installed, installed_once, run


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed_once(tmp_path_factory)


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(tool) is None, reason=f"{tool} is not installed; `make test` installs it")


@needs("ruff")
@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_is_content(command: tuple[str, ...]) -> None:
    found = run([sys.executable, "-m", "ruff", *command, "--no-cache", "."], ROOT)

    assert found.returncode == 0, found.stdout + found.stderr


@needs("mypy")
def test_types_fit(installed: Installed, tmp_path: Path) -> None:
    """An editable install hides from mypy what is wrong in new files."""
    ZipFile(installed.wheel).extractall(tmp_path)
    options = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache"))
    found = run([sys.executable, "-m", "mypy", *options, "-p", "dl_doctor"], tmp_path)

    assert found.returncode == 0, found.stdout + found.stderr
