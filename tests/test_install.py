"""What is installed, and that it starts where a job's folder, import path or interpreter would keep it from doing so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from dl_doctor import __version__
from dl_doctor.catalogue import load
from tests.installed import FOLDERS_OF_DEPENDENCIES, ROOT, SHIPPED, Installed, empty_environment, installed_once, pip, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed_once(tmp_path_factory)


def test_every_folder_with_python_is_a_package_of_the_list() -> None:
    import_names = {folder: name for name, folder in SETUPTOOLS["package-dir"].items()}
    folders = {file.parent.relative_to(ROOT) for shipped in SHIPPED for file in (ROOT / shipped).rglob("*.py")}
    packages = {".".join((import_names[folder.parts[0]], *folder.parts[1:])) for folder in folders}

    assert packages == set(SETUPTOOLS["packages"])


def test_the_wheel_holds_our_modules_and_nothing_else(installed: Installed) -> None:
    folders = [ROOT / shipped for shipped in SHIPPED]
    shipped = {
        file.relative_to(ROOT).as_posix()
        for folder in folders
        for kind in ("*.py", "*.csv", "*.png", "*.j2", "*.css")
        for file in folder.rglob(kind)
    }
    held = set(ZipFile(installed.wheel).namelist())
    metadata = {name for name in held if name.startswith(f"dl_doctor-{__version__}.dist-info/")}

    assert installed.wheel.name == f"dl_doctor-{__version__}-py3-none-any.whl"
    assert held - metadata == {f"dl_doctor/{name.removeprefix('doctor/')}" for name in {*shipped, "doctor/py.typed"}}


def test_one_script_is_installed(installed: Installed) -> None:
    files = [file.name for file in Path(installed.script).parent.iterdir() if not file.is_symlink()]

    assert [name for name in files if not name.lower().startswith("activate")] == ["dl-doctor"]


def test_these_tests_see_what_is_installed(installed: Installed) -> None:
    found = run([installed.python, "-c", "import dl_doctor; print(dl_doctor.__file__)"], cwd=installed.folder)

    assert Path(found.stdout.strip()) == installed.site_packages / "dl_doctor" / "__init__.py"


def test_importing_the_package_loads_nothing_else(installed: Installed) -> None:
    program = "import sys; before = {*sys.modules}; import dl_doctor; print(*{*sys.modules} - before)"
    found = run([installed.python, "-c", program], cwd=installed.folder)

    assert found.stdout.split() == ["dl_doctor"]


def test_help_waits_for_no_renderer(installed: Installed) -> None:
    program = "import sys; from dl_doctor.cli import run; run(['check', '--help']); print({'rich', 'jinja2'} & {*sys.modules})"
    found = run([installed.python, "-c", program], cwd=installed.folder)

    assert found.stdout.splitlines()[-1] == "set()"


DEPENDENCIES = ("click", "jinja2", "msgspec", "psutil", "rich")

STANDARD_LIBRARY = str(Path(json.__file__).parents[1])

DELETED = ("sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh")
"""Runs a command where the working directory does not exist any more."""

IN_THE_LIBRARY = ("sh", "-c", 'cd "$0" && exec "$@"', STANDARD_LIBRARY)

PLACES = {
    # modules of the job that raise when they are imported, variables, and what the command is run by
    "a training repository": (("checks", "doctor", "reports"), {"PYTHONPATH": "."}, ()),
    "broken dependencies": (DEPENDENCIES, {"PYTHONPATH": "."}, ()),
    "broken dependencies in another folder": (tuple(f"lib/{name}" for name in DEPENDENCIES), {"PYTHONPATH": "bin:lib"}, ()),
    "an empty entry, which is the working directory": (DEPENDENCIES, {"PYTHONPATH": ":"}, ()),
    "names of the standard library": (("asyncio", "logging", "platform", "random"), {"PYTHONPATH": "."}, ()),
    "a deleted folder": ((), {}, DELETED),
    "the standard library's folder": ((), {}, IN_THE_LIBRARY),
    "the standard library's folder in PYTHONPATH": ((), {"PYTHONPATH": STANDARD_LIBRARY}, ()),
    "without docstrings": ((), {"PYTHONOPTIMIZE": "2"}, ()),
}


@pytest.mark.parametrize(("modules", "variables", "run_by"), PLACES.values(), ids=PLACES)
def test_it_starts_in(
    installed: Installed, tmp_path: Path, modules: tuple[str, ...], variables: dict[str, str], run_by: tuple[str, ...]
) -> None:
    for module in modules:
        (tmp_path / module).mkdir(parents=True)
        (tmp_path / module / "__init__.py").write_text("raise RuntimeError('this is the job, not the doctor')")

    version = run([*run_by, installed.script, "--version"], tmp_path, **variables)
    check = run([*run_by, installed.python, "-m", "dl_doctor", "check", "-f", "json"], tmp_path, **variables)

    assert (version.stderr, version.stdout) == ("", f"dl-doctor, version {__version__}\n")
    assert_a_whole_report(check)


def test_it_starts_from_the_target_of_pip(installed: Installed, tmp_path: Path) -> None:
    """What PYTHONPATH names is our own folder then, and holds our dependencies."""
    python, target = empty_environment(tmp_path / "environment") / "bin" / "python", tmp_path / "target"
    pip(str(python), "install", "--target", str(target), str(installed.wheel))
    for entry in (entry for folder in FOLDERS_OF_DEPENDENCIES for entry in folder.iterdir()):
        if entry.suffix != ".pth" and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)

    check = run([str(python), "-m", "dl_doctor", "check", "-f", "json"], tmp_path, PYTHONPATH=str(target))

    assert_a_whole_report(check)


@pytest.mark.parametrize(
    ("click", "code", "says"),
    [
        (None, 70, "cannot start: No module named 'click'. What it needs was looked for outside PYTHONPATH"),
        ("1 / 0", 70, "cannot start: division by zero"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
    ],
)
def test_without_its_dependencies_it_says_nothing_of_the_machine(
    installed: Installed, tmp_path: Path, click: str | None, code: int, says: str
) -> None:
    """Exit 1 would be "do not start here". That PYTHONPATH has them is no help: it is the job's."""
    alone = installed.copied_to(tmp_path / "environment")
    (alone.site_packages / "dependencies.pth").unlink()
    if click:
        (alone.site_packages / "click.py").write_text(click)

    check = alone.doctor("check", PYTHONPATH=os.pathsep.join(map(str, FOLDERS_OF_DEPENDENCIES)))

    assert (check.returncode, check.stdout) == (code, "")
    assert check.stderr.startswith(f"dl-doctor: {says}")
    assert len(check.stderr.splitlines()) == 1


def assert_a_whole_report(check: subprocess.CompletedProcess[str]) -> None:
    assert check.stderr == ""
    assert [result["id"] for result in json.loads(check.stdout)["results"]] == list(load(plugins=False).checks)
