"""What README and docs show is what there is."""

import re
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

from dl_doctor import catalogue
from dl_doctor.commands.list import as_pages
from dl_doctor.schema import schema_of
from tests.installed import Installed, installed_once, run

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()


def test_the_report_in_readme_is_the_golden_one() -> None:
    assert (PROJECT / "tests/reports/docker-v1.txt").read_text() in README


def test_readme_shows_what_is_told_of_gpus() -> None:
    """As the recorded machine's report has it."""
    told = README.partition("\n## The GPUs\n")[2].partition("```\n")[2].partition("```\n")[0]

    assert told.startswith("8 × NVIDIA H100")
    assert told in (PROJECT / "tests/reports/gpu-eight-h100-throttled.txt").read_text()


SECTION = README.partition("\n## Your dataset\n")[2].partition("\n## ")[0]
TRAIN, FROM_PYTHON = re.findall("```python\n(.*?)```", SECTION, re.DOTALL)
COMMANDS = re.findall(r"^\$ dl-doctor (.*)$", SECTION, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_datasets_in_readme_are_examined(command: str, torch_python: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)

    done = run([sys.executable, "-m", "dl_doctor", *shlex.split(command), "--python", torch_python, "-v"], tmp_path)

    assert (done.stderr, done.returncode) == ("", 0), done.stdout
    assert "dataset-loads" in done.stdout


def test_the_script_in_readme_runs(torch_python: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    installed: Installed = installed_once(tmp_path_factory)
    (packages,) = Path(torch_python).parents[1].glob("lib/python3*/site-packages")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "notebook.py").write_text(FROM_PYTHON)

    done = run([installed.python, "notebook.py"], tmp_path, PYTHONPATH=str(packages))

    assert (done.stderr, done.returncode) == ("", 0)
    assert "go (exit 0)" in done.stdout


def test_the_plugin_in_readme_is_the_one_that_is_tested() -> None:
    assert (PROJECT / "tests/plugin/acme_storage.py").read_text() in README
    assert (PROJECT / "tests/plugin/pyproject.toml").read_text() in README


def test_the_shipped_schema_is_the_one_of_the_structs() -> None:
    """`dl-doctor schema > docs/report.schema.json` writes it anew."""
    shipped = msgspec.json.decode((PROJECT / "docs/report.schema.json").read_bytes())

    today = msgspec.json.decode(msgspec.json.encode(schema_of(catalogue.load(plugins=False))))
    assert shipped == today


def test_the_pages_of_checks_are_those_of_today(request: pytest.FixtureRequest) -> None:
    """`dl-doctor list --no-plugins -f markdown > docs/checks.md`, or `--refresh`, writes them anew."""
    today, shipped = as_pages(catalogue.load(plugins=False)), PROJECT / "docs/checks.md"
    if request.config.getoption("--refresh"):
        shipped.write_text(today, encoding="utf-8")

    assert shipped.read_text(encoding="utf-8") == today


def test_links_lead_somewhere() -> None:
    for document in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))):
        for part in document.read_text().split("](")[1:]:
            target, _, anchor = part.partition(")")[0].partition("#")
            there = (document.parent / target).resolve() if target else document
            assert target.startswith("https://") or there.exists(), f"{document.name}: {target}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors_of(there.read_text(encoding="utf-8")), f"{document.name}: {target}#{anchor}"


def anchors_of(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
