"""Every recorded machine gets the verdicts that were expected of it, and the same ones when its report is judged again."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from dl_doctor import catalogue
from dl_doctor.cli import run
from dl_doctor.model import Report
from dl_doctor.reports import renderer
from dl_doctor.reports.look import Look
from dl_doctor.schema import schema_of
from dl_doctor.settings import Settings
from tests.recorded import MACHINES, NAMES, examine_recorded, read

CATALOGUE = catalogue.load(plugins=False)
SCHEMA = jsonschema.Draft202012Validator(schema_of(CATALOGUE))
RUNS = [pytest.param(name, index, id=f"{name}-{index}") for name in NAMES for index in range(len(read(name)[1]["runs"]))]


def report_of(name: str, settings: dict[str, Any], folder: Path) -> Report:
    machine, _ = read(name)
    return examine_recorded(machine, folder, msgspec.convert(settings, Settings), CATALOGUE)


def without_durations(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**result, "duration_s": 0} for result in report["results"]]


@pytest.mark.parametrize(("name", "index"), RUNS)
def test_verdicts(name: str, index: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What was not recorded is not run. With --refresh, new checks are added with what they say today: read it in the diff."""
    _, expected = read(name)
    run = expected["runs"][index]
    report = report_of(name, run["settings"], tmp_path)
    statuses = {result.id: result.status for result in report.results if result.status != "not_run"}
    if request.config.getoption("--refresh"):
        run["results"] = statuses | run["results"]
        (MACHINES / name / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")

    assert statuses == run["results"], run["because"]


@pytest.mark.parametrize(("name", "index"), RUNS)
def test_a_report_judged_again_is_the_same(name: str, index: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = read(name)[1]["runs"][index]["settings"]
    first = renderer("json")(report_of(name, settings, tmp_path / "machine"), Look())
    (tmp_path / "report.json").write_text(first)

    code = run(["check", "--no-plugins", "--facts", str(tmp_path / "report.json"), "-f", "json"])

    again = json.loads(capfd.readouterr().out)
    SCHEMA.validate(again)
    SCHEMA.validate(json.loads(first))
    assert code == json.loads(first)["verdict"]["exit_code"]
    assert without_durations(again) == without_durations(json.loads(first))
    assert again["facts"] == json.loads(first)["facts"]
    assert again["machine"] == json.loads(first)["machine"]


def test_options_go_before_what_a_report_was_made_with(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The plan is worked out again; what was seen stays as it was."""
    report = report_of("docker-v1", {"num_workers": 8, "batch_bytes": 24 << 20}, tmp_path / "machine")
    (tmp_path / "report.json").write_text(renderer("json")(report, Look()))

    code = run(["check", "--facts", str(tmp_path / "report.json"), "--num-workers", "0", "--runtime", "podman", "-f", "json"])

    again = json.loads(capfd.readouterr().out)
    statuses = {result["id"]: result["status"] for result in again["results"]}
    commands = [command for r in again["results"] for f in r["findings"] for fix in f["fixes"] for command in fix["commands"]]
    assert (code, statuses["shm-size"]) == (0, "pass")
    assert "podman run --cpus=2 ..." in commands
    assert again["run"]["settings"] == {"num_workers": 0, "batch_bytes": 24 << 20, "runtime": "podman"}


def test_a_newer_versions_facts_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(renderer("json")(report_of("docker-v1", {}, tmp_path / "machine"), Look()))
    document["facts"]["moon_phase"] = {"illuminated": 0.5}
    document["new_in_1_1"] = True
    document["format_version"] = "1.1"
    (tmp_path / "report.json").write_text(json.dumps(document))

    run(["check", "--facts", str(tmp_path / "report.json"), "-f", "json"])

    assert json.loads(capfd.readouterr().out)["facts"]["moon_phase"] == {"illuminated": 0.5}


def test_the_limit_that_wins_is_named(tmp_path: Path) -> None:
    """The pod's group, one above the container's own, which says max."""
    report = report_of("kubernetes-host-cgroupns", {"num_workers": 32}, tmp_path)
    (finding,) = (f for r in report.results if r.id == "memory-budget" for f in r.findings if f.level == "fail")

    assert finding.measured is not None
    assert finding.measured.source.endswith("kubepods-burstable-pod0a1b.slice/memory.max")
    assert finding.measured.value == (512 - (320 - 100)) << 20


def test_an_old_driver_is_the_cause_of_what_torch_does_not_see(tmp_path: Path) -> None:
    report = report_of("gpu-driver-470", {}, tmp_path)
    found = {result.id: finding for result in report.results for finding in result.findings if finding.level == "fail"}

    assert {check: finding.explained_by for check, finding in found.items()} == {
        "cuda-smoke": "gpu-visible",
        "gpu-driver-floor": None,
        "gpu-visible": "gpu-driver-floor",
    }
    assert found["gpu-visible"].why.startswith("CUDA initialization: The NVIDIA driver on your system is too old")


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_machine_says_where_it_comes_from(name: str) -> None:
    machine, expected = read(name)

    assert machine["about"]
    assert machine["source"]
    assert all(run["because"] for run in expected["runs"])
