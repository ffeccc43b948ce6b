"""dl-doctor as its users have it: a wheel that was built from a copy of the source, in an environment of its own.

The environment finds dependencies in the running one, so that nothing is downloaded. It does not find the editable dl-doctor
there: that one comes by a .pth file, and Python follows none in a folder that a .pth file names.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SHIPPED = ("doctor", "checks", "reports")
"""The folders with what is installed."""

FOLDERS_OF_DEPENDENCIES = sorted({Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")})


@dataclass(frozen=True)
class Installed:
    """An environment that dl-doctor is installed in."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def script(self) -> str:
        return str(self.folder / "bin" / "dl-doctor")

    @property
    def site_packages(self) -> Path:
        return site_packages(self.folder)

    def copied_to(self, folder: Path) -> "Installed":
        """The same in another place, to install more into; its script still runs the first one's Python."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Installed(folder, self.wheel)

    def doctor(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """What `dl-doctor` with these arguments prints and exits with."""
        return run([self.python, "-m", "dl_doctor", *arguments], self.folder, **variables)


def site_packages(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def installed_once(factory: pytest.TempPathFactory) -> Installed:
    """The environment of this test run: whichever worker of pytest-xdist comes first makes it, the others wait."""
    shared = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    folder, ready = shared / "installed", shared / "installed.ready"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            shutil.rmtree(folder, ignore_errors=True)
            install_into(folder)
            ready.touch()
    return Installed(folder / "environment", next(folder.glob("*.whl")))


def install_into(folder: Path) -> Installed:
    wheel, environment = build_wheel(folder), empty_environment(folder / "environment")
    pip(str(environment / "bin" / "python"), "install", str(wheel))
    lines = "".join(f"{place}\n" for place in FOLDERS_OF_DEPENDENCIES)
    (site_packages(environment) / "dependencies.pth").write_text(lines, encoding="utf-8")
    return Installed(environment, wheel)


def build_wheel(folder: Path) -> Path:
    """Build from a copy, so that the source gets no build/ of its own."""
    source = folder / "source"
    for name in SHIPPED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip(sys.executable, "wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    return next(folder.glob("*.whl"))


def empty_environment(folder: Path) -> Path:
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)]).check_returncode()
    return folder


def pip(python: str, command: str, *arguments: str) -> None:
    """Run pip for this interpreter, without the network and whatever this user has configured."""
    options = ("--isolated", "--disable-pip-version-check", "--quiet")
    found = run([sys.executable, "-m", "pip", "--python", python, *options, command, "--no-deps", "--no-index", *arguments])
    assert found.returncode == 0, found.stderr


def run(command: list[str], cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this environment, but for what would change how Python starts, and with these variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=cwd, env=environment | variables, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
