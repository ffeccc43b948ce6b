"""Containers that are broken in one way or another, examined from inside, and mended as the doctor says."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dl_doctor.model import Report, Result
from tests.lab import broken, container
from tests.lab.broken import MIB
from tests.lab.container import CgroupNamespace, Recipe
from tests.lab.doctor import Plan, command, examine, fixes, numbers, report_of, table
from tests.lab.remedies import carried_out

pytestmark = pytest.mark.lab

HEALTHY = Recipe(shm=1024 * MIB, cpus=2, memory=4096 * MIB, nofile=1024, environment={"OMP_NUM_THREADS": "2"})

ALL_IS_WELL = {check: "skip" if status == "skip" else "pass" for check, status in broken.TABLE.items()}
"""What does not apply to these containers (there is no GPU) is not to begin to."""

TWO_RANKS, FOUR_RANKS = {"LOCAL_WORLD_SIZE": "2"}, {"LOCAL_WORLD_SIZE": "4"}

SMALL_BATCHES = {"num-workers": "8", "batch-bytes": "1MiB"}


@pytest.mark.parametrize("namespace", ["host", "private"])
def test_a_broken_container(namespace: CgroupNamespace) -> None:
    broken.assert_broken(examine(replace(broken.RECIPE, cgroup_namespace=namespace), broken.PLAN))


def test_a_healthy_container() -> None:
    report = examine(HEALTHY, {"num-workers": "2", "batch-bytes": "24MiB"})
    assert report.verdict.exit_code == 0
    assert table(report) == ALL_IS_WELL
    assert {level for findings in numbers(report).values() for level, _, _ in findings} == {"note"}


def test_too_little_memory() -> None:
    broken.assert_short_of_memory(examine(replace(HEALTHY, memory=512 * MIB), broken.PLAN), 512 * MIB)


def test_too_few_descriptors() -> None:
    needed = 3 + 4 + 4 * broken.WORKERS + 3  # standard streams, the loader's and the workers' pipes, and one tensor for each step
    report = examine(replace(HEALTHY, nofile=16), broken.PLAN)
    assert numbers(report)["fd-limit"] == [("fail", (16, "descriptors"), (needed, "descriptors"))]


def test_no_shared_memory() -> None:
    report = examine(replace(HEALTHY, shm=None), broken.PLAN)
    assert report.verdict.exit_code == 1
    assert table(report) == {**ALL_IS_WELL, "shm-size": "fail", "shm-usable": "fail", "worker-count": "warn"}


def test_shared_memory_of_another_user() -> None:
    """The C library says ENOENT of a folder that it may not enter."""
    report = examine(replace(HEALTHY, shm_mode="0700", uid=4242), {"num-workers": "2", "batch-bytes": "24MiB"})
    (finding,) = (f for result in report.results if result.id == "shm-usable" for f in result.findings)
    assert finding.level == "fail"
    assert "(EACCES)" in finding.summary or "(ENOENT)" in finding.summary


def test_control_groups_out_of_sight() -> None:
    report = examine(replace(HEALTHY, sys=False), {})
    assert report.verdict.exit_code == 0
    assert table(report) == {**ALL_IS_WELL, "cpu-budget": "error", "memory-budget": "error", "process-budget": "error"}


def test_a_user_without_a_name_a_home_or_a_place_to_write() -> None:
    homeless = ["env", "--unset=HOME", *command(broken.PLAN)]
    report = report_of(container.run(homeless, replace(broken.RECIPE, uid=4242, read_only=True)))
    nowhere = {"temp-space": "fail", "path-writable": "warn", "user-identity": "warn"}
    assert report.verdict.exit_code == 1
    assert table(report) == {**broken.TABLE, **nowhere}
    findings = {result.id: [finding.summary for finding in result.findings] for result in report.results}
    assert findings["temp-space"] == ["There is no folder for temporary files"]
    assert findings["user-identity"][0].startswith("User 4242 has no name: getpass.getuser() raises ")
    assert findings["user-identity"][1:] == ["There is no home folder: `~` stays as it is"]


def test_a_user_without_a_name_may_have_a_home() -> None:
    named = replace(HEALTHY, uid=4242, environment={**HEALTHY.environment, "HOME": "/tmp", "USER": "trainer"})
    report = examine(named, {"num-workers": "2", "batch-bytes": "24MiB"})
    assert table(report) == {**ALL_IS_WELL, "path-writable": "warn"}  # the folder it starts in is root's


@pytest.mark.parametrize(
    ("check", "recipe", "plan", "kinds"),
    [
        ("shm-size", broken.RECIPE, broken.PLAN, ["docker", "DataLoader"]),
        ("shm-size", broken.RECIPE, {}, ["docker"]),
        ("shm-size", replace(broken.RECIPE, environment=TWO_RANKS), broken.PLAN, ["docker", "DataLoader"]),
        ("shm-size", replace(broken.RECIPE, environment=FOUR_RANKS, shm=96 * MIB), SMALL_BATCHES, ["docker", "DataLoader"]),
        ("shm-size", replace(broken.RECIPE, environment=FOUR_RANKS), {"num-workers": "0", "expect-gpus": "4"}, ["docker"]),
        ("shm-size", replace(HEALTHY, shm=None), broken.PLAN, ["docker"]),
        ("cpu-budget", broken.RECIPE, broken.PLAN, ["docker"]),
        ("cpu-budget", broken.RECIPE, {"num-workers": "1"}, ["docker"]),
        ("cpu-budget", replace(broken.RECIPE, environment=TWO_RANKS), broken.PLAN, ["docker"]),
        ("cpu-budget", replace(HEALTHY, cpus=1), {}, ["docker", "export"]),
        ("worker-count", broken.RECIPE, broken.PLAN, ["DataLoader"]),
        ("worker-count", broken.RECIPE, {"num-workers": "2"}, ["DataLoader", "docker"]),
        ("memory-budget", replace(HEALTHY, memory=512 * MIB), broken.PLAN, ["docker", "DataLoader"]),
        ("memory-budget", replace(HEALTHY, memory=900 * MIB), broken.PLAN, ["docker", "DataLoader"]),
        ("memory-budget", replace(HEALTHY, memory=96 * MIB), {"num-workers": "8", "batch-bytes": "96MiB"}, ["docker"]),
        ("fd-limit", replace(HEALTHY, nofile=16), broken.PLAN, ["docker"]),
    ],
)
def test_every_fix_mends(check: str, recipe: Recipe, plan: Plan, kinds: list[str]) -> None:
    told = fixes(examine(recipe, plan), check)
    assert [re.split(r"\W", fix)[0] for fix in told] == kinds
    for fix in told:
        assert table(examine(*carried_out(fix, recipe, plan)))[check] == "pass", fix


def test_the_first_fixes_of_all_checks_together_make_a_healthy_container() -> None:
    report, recipe, plan = examine(broken.RECIPE, broken.PLAN), broken.RECIPE, broken.PLAN
    for check in broken.TABLE:
        for fix in fixes(report, check)[:1]:
            recipe, plan = carried_out(fix, recipe, plan)
    assert table(examine(recipe, plan)) == ALL_IS_WELL


@pytest.mark.parametrize("fix", ["docker run --gpus=all ...", "docker run --shm-size=1x ...", "umount /dev/shm"])
def test_a_fix_that_cannot_be_carried_out(fix: str) -> None:
    with pytest.raises(ValueError):
        carried_out(fix, broken.RECIPE, broken.PLAN)


def test_a_report_from_inside_is_judged_alike_outside(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    inside = container.run(command(broken.PLAN), broken.RECIPE)
    saved.write_text(inside.stdout, encoding="utf-8")
    again = command({"facts": f"{saved}"})
    outside = subprocess.run(again, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert untimed(report_of(outside)) == untimed(report_of(inside))


def untimed(report: Report) -> list[Result]:
    return [msgspec.structs.replace(result, duration_s=0) for result in report.results]


def test_a_container_that_does_not_end_is_removed() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        container.run(["sleep", "60"], broken.RECIPE, deadline_s=1)
    *_, bundle, name = caught.value.cmd
    assert not Path(bundle).exists()
    assert container.groups(name) == []
