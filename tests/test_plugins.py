"""Plugins as third parties install them: a good one adds its check like our own, a broken one is told and breaks nothing."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.contract import HEADINGS
from tests.installed import Installed, installed_once, pip

ACME = Path(__file__).parent / "plugin"

ACMES_CHECK = "acme-storage-scratch-disk"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed_once(tmp_path_factory)


@pytest.fixture(scope="module")
def acme(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment that has the example plugin too."""
    folder = tmp_path_factory.mktemp("acme")
    environment = installed.copied_to(folder / "environment")
    source = shutil.copytree(ACME, folder / "source")
    pip(environment.python, "install", "--no-build-isolation", "--target", str(environment.site_packages), str(source))
    return environment


@pytest.fixture(scope="module")
def report(acme: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a job whose temporary files go to /proc, of which we know the filesystem everywhere."""
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(acme.doctor("check", "-f", "json", TMPDIR="/proc").stdout, encoding="utf-8")
    return path


def test_its_check_is_listed_with_its_origin(acme: Installed) -> None:
    listed = json.loads(acme.doctor("list", "-f", "json").stdout)

    assert [row for row in listed if row["origin"] != "dl-doctor"] == [
        {
            "id": ACMES_CHECK,
            "title": "Temporary files stay on this node",
            "area": "acme-storage",
            "scope": "job",
            "profile": "quick",
            "essential": False,
            "needs": ["acme_storage_scratch"],
            "origin": "acme-storage",
        }
    ]


def test_its_page_is_explained(acme: Installed) -> None:
    page = acme.doctor("explain", ACMES_CHECK).stdout

    assert page.startswith(f"# {ACMES_CHECK}: Temporary files stay on this node\n")
    assert re.findall("^## (.+)$", page, re.MULTILINE) == list(HEADINGS)


def test_its_fact_and_its_result_are_in_the_report(report: Path) -> None:
    document = json.loads(report.read_text(encoding="utf-8"))
    result = results_of(document)[ACMES_CHECK]

    assert document["facts"]["acme_storage_scratch"] == {"path": "/proc", "filesystem": "proc"}
    assert (result["area"], result["status"], result["seen"]) == ("acme-storage", "pass", "/proc is on proc")


def test_its_distribution_selects_its_checks(acme: Installed) -> None:
    selected = json.loads(acme.doctor("check", "-s", "acme-storage", "-f", "json").stdout)

    assert list(results_of(selected)) == [ACMES_CHECK]


def test_it_can_be_left_out(acme: Installed, installed: Installed) -> None:
    assert acme.doctor("list", "--no-plugins").stdout == installed.doctor("list").stdout


def test_a_report_is_judged_by_its_own_facts(acme: Installed, report: Path) -> None:
    again = json.loads(acme.doctor("check", "--facts", str(report), "-f", "json", TMPDIR="/dev").stdout)
    document = json.loads(report.read_text(encoding="utf-8"))

    assert again["facts"] == document["facts"]
    assert results_of(again) == results_of(document)


def test_a_sent_report_can_be_judged_worse(acme: Installed, report: Path, tmp_path: Path) -> None:
    document = json.loads(report.read_text(encoding="utf-8"))
    document["facts"]["acme_storage_scratch"] = {"path": "/scratch", "filesystem": "nfs4"}
    (tmp_path / "sent.json").write_text(json.dumps(document), encoding="utf-8")
    judged = results_of(json.loads(acme.doctor("check", "--facts", str(tmp_path / "sent.json"), "-f", "json").stdout))

    assert [finding["summary"] for finding in judged[ACMES_CHECK]["findings"]] == [
        "Temporary files go to /scratch, which is on nfs4"
    ]


def test_a_doctor_without_it_keeps_its_fact(installed: Installed, report: Path) -> None:
    document = json.loads(report.read_text(encoding="utf-8"))
    judged = json.loads(installed.doctor("check", "--facts", str(report), "-f", "json").stdout)

    assert judged["facts"] == document["facts"]
    assert ACMES_CHECK not in results_of(judged)


PRELUDE = """
import os, sys
from pathlib import Path
import msgspec
from dl_doctor.catalogue import Plugin
from dl_doctor.contract import Check
from dl_doctor.facts import Collector, Host
from dl_doctor.model import Finding, Verdict
from dl_doctor.system import System

class Disk(msgspec.Struct, frozen=True):
    path: str

def collect(system: System) -> Disk:
    return Disk("/")

def disk(disk: Disk) -> Verdict:
    return Verdict("a disk")

"""
"""A plugin in good health, but for its PLUGIN and for what a row of the tables puts below."""

WHOLE = "PLUGIN = Plugin((Check(disk),), (Collector(collect),))"

UNUSABLE = {
    # what it does, and what its user reads of it
    "it cannot be imported": ("raise ImportError('no libacme.so.1')", "ImportError: no libacme.so.1"),
    "it is no Python": ("def", "SyntaxError: invalid syntax"),
    "it exits": ("sys.exit('no licence')", "SystemExit: no licence"),
    "it names nothing": ("", "AttributeError: module 'broken' has no attribute 'PLUGIN'"),
    "it names no plugin": ("PLUGIN = {}", "broken:PLUGIN is of type dict, not dl_doctor.catalogue.Plugin"),
    "no check": ("PLUGIN = Plugin((disk,), (Collector(collect),))", "TypeError"),
    "no collector": ("PLUGIN = Plugin((Check(disk),))", "Disk"),
    "no annotation": ("def disk(disk): return Verdict('')\n" + WHOLE, "disk"),
    "a choice of facts": ("def disk(disk: Disk | Host): return Verdict('')\n" + WHOLE, "must be annotated with one fact"),
    "no fact in return": ("def collect(system: System): return Disk('/')\n" + WHOLE, "not annotated to return a fact"),
    "a fact of itself": ("def collect(disk: Disk) -> Disk: return disk\n" + WHOLE, "Disk"),
    "an id twice": ("PLUGIN = Plugin((Check(disk),) * 2, (Collector(collect),))", "two checks have the same id"),
    "a fact twice": ("PLUGIN = Plugin((Check(disk),), (Collector(collect),) * 2)", "two collectors give the same fact"),
}
"""Plugins that are told as one result, named after their distribution."""

COLLECT = "def collect(system: System) -> Disk: "
JUDGE = "def disk(disk: Disk) -> Verdict: "

CRASHING = {
    # what it does, and what its user reads of it
    "a collector that raises": (COLLECT + "1 / 0", "a bug in the collector: ZeroDivisionError: division by zero"),
    "a collector that exits": (COLLECT + "sys.exit(1)", "a bug in the collector: SystemExit: 1"),
    "a collector that gives nothing": (COLLECT + "pass", "a bug in the collector"),
    "a collector that gives something else": (COLLECT + "return object()", "a bug in the collector"),
    "a fact that JSON cannot hold": (COLLECT + "return Disk(Path('/'))", "a bug in the collector"),
    "a check that raises": (JUDGE + "1 / 0", "a bug in this check: ZeroDivisionError: division by zero"),
    "a check that exits": (JUDGE + "sys.exit(1)", "a bug in this check: SystemExit: 1"),
    "a check that gives nothing": (JUDGE + "pass", "a bug in this check"),
    "a check that finds a text": (JUDGE + "return Verdict('', ['full'])", "a bug in this check"),
    "a level that is none": (
        JUDGE + "return Verdict('', [Finding(level='fatal', subject='/', summary='full')])",
        "a bug in this check",
    ),
}
"""Plugins whose check is told as one that crashed."""


@pytest.fixture(scope="module")
def plain(installed: Installed) -> subprocess.CompletedProcess[str]:
    """What the doctor says here without any plugin."""
    return installed.doctor("check", "-f", "json")


CASES = [
    *(pytest.param(code, "broken", words, id=name) for name, (code, words) in UNUSABLE.items()),
    *(pytest.param(f"{code}\n{WHOLE}", "broken-disk", words, id=name) for name, (code, words) in CRASHING.items()),
]


@pytest.mark.parametrize(("code", "told_by", "words"), CASES)
def test_a_broken_plugin_is_told_and_breaks_nothing(
    installed: Installed, plain: subprocess.CompletedProcess[str], tmp_path: Path, code: str, told_by: str, words: str
) -> None:
    environment = installed.copied_to(tmp_path / "environment")
    add_plugin(environment, "broken", PRELUDE + code)
    check = environment.doctor("check", "-f", "json")

    assert (check.stderr, check.returncode) == ("", plain.returncode)
    results = results_of(json.loads(check.stdout))
    told = results.pop(told_by)
    assert (told["area"], told["status"]) == ("broken", "error")
    assert words in told["reason"]["detail"]
    assert statuses(results) == statuses(results_of(json.loads(plain.stdout)))


def test_a_check_that_crashes_leaves_its_trace(installed: Installed, tmp_path: Path) -> None:
    environment = installed.copied_to(tmp_path / "environment")
    add_plugin(environment, "broken", f"{PRELUDE}{JUDGE}1 / 0\n{WHOLE}")
    results = results_of(json.loads(environment.doctor("check", "-s", "broken", "-f", "json").stdout))

    assert results["broken-disk"]["trace"].endswith("ZeroDivisionError: division by zero\n")


def test_broken_plugins_hide_neither_each_other_nor_a_good_one(installed: Installed, tmp_path: Path) -> None:
    environment = installed.copied_to(tmp_path / "environment")
    for name, code in (("first", "raise ImportError"), ("good", PRELUDE + WHOLE), ("last", "PLUGIN = None")):
        add_plugin(environment, name, code)
    results = results_of(json.loads(environment.doctor("check", "-s", "first,good,last", "-f", "json").stdout))

    assert statuses(results) == {"first": "error", "last": "error", "good-disk": "pass"}


@pytest.mark.parametrize("say", ["print('hello')", "os.system('echo hello')"], ids=["print", "a child"])
def test_what_a_plugin_prints_is_no_part_of_the_report(installed: Installed, tmp_path: Path, say: str) -> None:
    chatty = f"{say}\n{COLLECT}{say}; return Disk('/')\n{JUDGE}{say}; return Verdict('')\n"
    environment = installed.copied_to(tmp_path / "environment")
    add_plugin(environment, "chatty", PRELUDE + chatty + WHOLE)
    check = environment.doctor("check", "-f", "json")

    assert check.stderr == "hello\n" * 3
    assert results_of(json.loads(check.stdout))["chatty-disk"]["status"] == "pass"


@pytest.mark.parametrize(
    ("metadata", "entry_points"),
    [
        (b"Name: other\nVersion: 1.0\n", b"[console_scripts]\nother\n"),
        (b"Name: other\nVersion: 1.0\n", b"[console_scripts]\n\xff = other:main\n"),
        (b"Version: 1.0\n", b"[dl_doctor.plugins]\nother = other:PLUGIN\n"),  # the rest of an upgrade that was interrupted
    ],
    ids=["no value", "not UTF-8", "no name"],
)
def test_a_damaged_distribution_breaks_nothing(
    installed: Installed, plain: subprocess.CompletedProcess[str], tmp_path: Path, metadata: bytes, entry_points: bytes
) -> None:
    """Whosever it is: entry points of a group are looked for in all that is installed."""
    environment = installed.copied_to(tmp_path / "environment")
    folder = environment.site_packages / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(metadata)
    (folder / "entry_points.txt").write_bytes(entry_points)
    check = environment.doctor("check", "-f", "json")

    assert (check.stderr, check.returncode) == ("", plain.returncode)
    results = statuses(results_of(json.loads(check.stdout)))
    assert results == results | statuses(results_of(json.loads(plain.stdout)))


def add_plugin(environment: Installed, name: str, code: str) -> None:
    """Leave a plugin of one module there, as an installer would."""
    (environment.site_packages / f"{name}.py").write_text(code, encoding="utf-8")
    metadata = environment.site_packages / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[dl_doctor.plugins]\n{name} = {name}:PLUGIN\n", encoding="utf-8")


def results_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The results by id, without how long they took."""
    return {result["id"]: result | {"duration_s": None} for result in document["results"]}


def statuses(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: result["status"] for name, result in results.items()}
