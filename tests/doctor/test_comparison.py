"""What differs between two reports: what is worse first, with the facts behind it, and no noise."""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor import cli
from dl_doctor.comparison import Comparison, changes, compare
from dl_doctor.facts import COLLECTORS
from dl_doctor.model import Finding, Report
from dl_doctor.reports import diff, renderer
from dl_doctor.reports.look import Look
from dl_doctor.settings import Settings
from tests.facts import loader_sweep
from tests.html import without_style
from tests.made import gpu_facts
from tests.recorded import NAMES, examine_recorded, read


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The report of a recorded machine, with these settings."""

    @functools.cache
    def report(name: str, **settings: Any) -> Report:
        machine, _ = read(name)
        return examine_recorded(machine, tmp_path_factory.mktemp("machine"), Settings(**settings))

    return report


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"version": "2.8"}, {"version": "2.9"}, [("fact.version", "2.8", "2.9")]),
        ({"limit": 1}, {}, [("fact.limit", 1, None)]),
        ({"took_s": 1.0}, {"took_s": 9.0}, []),
        ({"came_s": [1.0]}, {"came_s": [2.0, 3.0]}, []),  # each a time
        ({"pid": 1, "ended": {"how": "hung", "step": "a"}}, {"pid": 2, "ended": {"how": "hung", "step": "b"}}, []),
        ({"ended": {"how": "hung"}}, {"ended": {"how": "answered"}}, [("fact.ended.how", "hung", "answered")]),
        ({"free_bytes": 100}, {"free_bytes": 60}, []),
        ({"free_bytes": 100}, {"free_bytes": 50}, [("fact.free_bytes", 100, 50)]),
        ({"free_bytes": 0}, {"free_bytes": 1}, [("fact.free_bytes", 0, 1)]),
        ({"free_bytes": None}, {"free_bytes": 1}, [("fact.free_bytes", None, 1)]),
        ({"size_bytes": 100}, {"size_bytes": 99}, [("fact.size_bytes", 100, 99)]),  # a limit, not a moment
        ({"packages": {"numpy": "1.26"}}, {"packages": {"numpy": "2.1"}}, [("fact.packages.numpy", "1.26", "2.1")]),
        ({"names": ["a", "b"]}, {"names": ["b", "c"]}, [("fact.names[a]", True, None), ("fact.names[c]", None, True)]),
        ({"names": ["a", "b"]}, {"names": ["b", "a"]}, []),
        ({"names": []}, {"names": ["a"]}, [("fact.names[a]", None, True)]),
        (  # entries are paired by what they are called
            {"mounts": [{"mount_point": "/", "filesystem": "ext4"}, {"mount_point": "/data", "filesystem": "nfs4"}]},
            {"mounts": [{"mount_point": "/data", "filesystem": "ext4"}, {"mount_point": "/", "filesystem": "ext4"}]},
            [("fact.mounts[/data].filesystem", "nfs4", "ext4")],
        ),
        (  # equal cards are numbered, not named
            {"gpus": [{"index": 0, "name": "H100", "uuid": "x"}, {"index": 1, "name": "H100", "uuid": "y"}]},
            {"gpus": [{"index": 0, "name": "H100", "uuid": "z"}, {"index": 1, "name": "A100", "uuid": "w"}]},
            [("fact.gpus[1].name", "H100", "A100")],
        ),
        ({"gpus": [{"index": 0, "name": "H100"}]}, {"gpus": []}, [("fact.gpus[0]", True, None)]),  # and nothing of what is in it
        ({"rows": [[1, 2]]}, {"rows": [[1, 3]]}, [("fact.rows[0][2]", True, None), ("fact.rows[0][3]", None, True)]),
        ({"x": 3}, {"x": {"y": 3}}, [("fact.x", 3, None), ("fact.x.y", None, 3)]),  # of another version
    ],
)
def test_values(before: dict[str, Any], after: dict[str, Any], told: list[tuple[str, Any, Any]]) -> None:
    found = changes({"fact": before}, {"fact": after})

    assert [(change.path, change.before, change.after) for change in found] == told


def needs() -> dict[str, list[str]]:
    from dl_doctor.catalogue import Catalogue  # noqa: PLC0415
    from dl_doctor.checks import CHECKS  # noqa: PLC0415

    catalogue = Catalogue(CHECKS, COLLECTORS)
    return {check.id: [catalogue.names[need.fact] for need in check.needs.values()] for check in CHECKS}


def compared(a: Report, b: Report) -> Comparison:
    return compare(a, b, ("a.json", "b.json"), needs())


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_the_same_as_itself(recorded: Any, name: str) -> None:
    assert compared(recorded(name), recorded(name)).same


def test_worse_comes_first_with_the_facts_behind_it(recorded: Any) -> None:
    found = compared(
        recorded("docker-v2", num_workers=2, batch_bytes=24 << 20), recorded("docker-v1", num_workers=8, batch_bytes=24 << 20)
    )
    first, *_ = found.results

    assert not found.same
    assert (first.after, first.id) in {("fail", "memory-budget"), ("fail", "shm-size")}
    worse = [change for change in found.results if change.after in ("fail", "warn")]
    assert worse == list(found.results[: len(worse)])
    assert {change.path.partition(".")[0] for change in first.facts} <= set(needs()[first.id])
    assert any(change.path == "loader_plan.num_workers" for result in found.results for change in result.facts)
    assert ("num_workers", 2, 8) in [(change.path, change.before, change.after) for change in found.settings]
    told = [change.path for change in found.facts]
    assert not {change.path for result in found.results for change in result.facts} & set(told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, []),
        ({"points": (), "took_s": 3.0, "evidence": "waits 71 % of the time", "why": "x"}, []),  # others each time
        ({"bottleneck": "ipc"}, [("loader_sweep.bottleneck", "cpu", "ipc")]),
        ({"recommendation": None}, []),
        ({"conclusion": "keep"}, [("loader_sweep.conclusion", "change", "keep")]),
    ],
)
def test_of_two_sweeps_their_conclusions_are_compared(recorded: Any, fields: dict[str, Any], told: list[Any]) -> None:
    plain = recorded("docker-v2")
    a, b = (
        msgspec.structs.replace(plain, facts={"loader_sweep": msgspec.to_builtins(sweep)}, unavailable={})
        for sweep in (loader_sweep(), msgspec.structs.replace(loader_sweep(), **fields))
    )
    found = [(change.path, change.before, change.after) for change in compared(a, b).facts]

    assert [one for one in found if "recommendation." not in one[0]] == told
    assert any("recommendation.num_workers" in path for path, *_ in found) == ("recommendation" in fields)


@pytest.mark.parametrize("odd", [7, None, [], {"recommendation": 3}, {"points": "x", "recommendation": {"num_workers": 3}}])
def test_a_strangers_sweep_is_compared_too(recorded: Any, odd: Any) -> None:
    plain = recorded("docker-v2")

    assert compared(*(msgspec.structs.replace(plain, facts={"loader_sweep": odd}, unavailable={}) for _ in "ab")).same


def test_two_probes_of_the_same_gpus_are_the_same(recorded: Any) -> None:
    """Their rates differ by some percent, and what NVML saw meanwhile is other each time."""
    before = gpu_facts(8)
    load = {"phase": "products", "sm_mhz": 1710.0, "power_w": 699.0, "temperature_c": 70.0, "reasons": {"power_cap": 0.4}}
    after = gpu_facts(8, changed=2, slower=0.95, loads=[load, before["gpu_probe"]["gpus"][2]["loads"][1]], digest="ab")
    after["gpu_states"]["gpus"][0] |= {"processes": [{"pid": 7, "kind": "compute"}], "utilisation": [0.2]}

    assert told_of(recorded("docker-v2"), before, after) == []


@pytest.mark.parametrize(
    ("fields", "slower", "told"),
    [
        ({}, 0.5, ["gpu_probe.rates.gpu:2.bf16", "gpu_probe.rates.gpu:2.copy"]),
        ({"loads": [{"phase": "host copies", "link_gen": 5, "link_width": 8}]}, 1.0, ["gpu_probe.gpus.gpu:2.link_width"]),
        ({"skipped": "busy"}, 1.0, ["gpu_probe.gpus.gpu:2.skipped", "gpu_probe.rates.gpu:2.bf16"]),
    ],
)
def test_a_gpu_that_is_slower_is_a_difference(recorded: Any, fields: dict[str, Any], slower: float, told: list[str]) -> None:
    found = told_of(recorded("docker-v2"), gpu_facts(8), gpu_facts(8, changed=2, slower=slower, **fields))

    assert {*told} <= {*found}
    assert [path for path in found if "gpu:2" not in path] == []


@pytest.mark.parametrize("odd", [7, None, [], {"gpus": 3, "rates": 3}, {"gpus": [1], "rates": [{}]}, {"gpus": [{"loads": [[]]}]}])
def test_a_strangers_probe_is_compared_too(recorded: Any, odd: Any) -> None:
    assert told_of(recorded("docker-v2"), *(dict.fromkeys(("gpu_probe", "gpu_states", "gpu_yardsticks"), odd),) * 2) == []


def told_of(plain: Report, *facts: dict[str, Any]) -> list[str]:
    """Paths of what differs between two sets of facts."""
    a, b = (msgspec.structs.replace(plain, facts=one, unavailable={}) for one in facts)
    return [change.path for change in compared(a, b).facts]


def test_another_finding_of_the_same_status_is_a_difference(recorded: Any) -> None:
    a = recorded("docker-v1", num_workers=8, batch_bytes=24 << 20)
    (index,) = [place for place, result in enumerate(a.results) if result.id == "shm-size"]
    other = Finding(level="fail", subject="something else", summary="It is broken otherwise")
    results = list(a.results)
    results[index] = msgspec.structs.replace(results[index], findings=(other,))
    (change,) = compared(a, msgspec.structs.replace(a, results=tuple(results))).results

    assert (change.before, change.after, [f.summary for f in change.gained]) == ("fail", "fail", ["It is broken otherwise"])
    assert [finding.subject for finding in change.lost] == ["/dev/shm"]


def test_a_check_that_one_report_lacks(recorded: Any) -> None:
    a = recorded("docker-v1")
    fewer = msgspec.structs.replace(a, results=a.results[1:])

    assert [(change.before, change.after) for change in compared(fewer, a).results] == [(None, a.results[0].status)]
    assert [(change.before, change.after) for change in compared(a, fewer).results] == [(a.results[0].status, None)]


def test_a_fact_that_could_not_be_had_says_why(recorded: Any) -> None:
    a = recorded("docker-v1")
    name = next(iter(a.unavailable))
    paths = {change.path: change for change in compared(msgspec.structs.replace(a, unavailable={}), a).facts}

    assert str(paths[name].after).startswith("not known: ")


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_golden(recorded: Any, golden: Any, form: str) -> None:
    """Read it whole: it is what a user sees."""
    found = compared(recorded("gpu-two-h100"), recorded("gpu-driver-470"))
    sides = [msgspec.structs.replace(side, started_at="2026-11-30T12:00:00.000Z") for side in (found.a, found.b)]
    text = without_style(diff.renderer(form)(msgspec.structs.replace(found, a=sides[0], b=sides[1]), Look()))

    assert text == golden(f"gpu-two-h100-and-gpu-driver-470.{form.replace('text', 'txt')}", text)


def test_from_the_outside(recorded: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("docker-v1", "docker-v2"):
        (tmp_path / f"{name}.json").write_text(renderer("json")(recorded(name), Look()))
    a, b = str(tmp_path / "docker-v1.json"), str(tmp_path / "docker-v2.json")

    assert cli.run(["diff", a, a]) == 0
    assert capfd.readouterr().out.endswith("Nothing differs but times (exit 0)\n")
    assert cli.run(["diff", a, b, "-f", "json"]) == 1
    assert msgspec.json.decode(capfd.readouterr().out, type=Comparison).b.name == b
    assert cli.run(["diff", a, str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file or directory" in capfd.readouterr().err


def test_two_runs_on_one_machine_are_the_same(tmp_path: Path) -> None:
    """Real ones, with all that changes between them."""
    for name in ("a.json", "b.json"):
        command = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-q", "-o", str(tmp_path / name)]
        subprocess.run(command, capture_output=True, check=True)
    found = subprocess.run(
        [sys.executable, "-m", "dl_doctor", "diff", "a.json", "b.json", "-f", "json"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    told = json.loads(found.stdout)

    assert (found.returncode, told["results"], told["facts"]) == (0, [], [])
