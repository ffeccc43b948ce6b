"""Settings files from the outside: whose word counts, and what is said of one that is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor import cli, settings_files
from dl_doctor.settings import Settings
from dl_doctor.settings_files import ExpectOn

QUICK = ("check", "--profile", "quick", "--no-plugins", "-f", "json")


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the command line in a folder with these files; gives exit code, the report or None, and standard error."""
    monkeypatch.setattr(settings_files, "SITE", str(tmp_path / "etc.toml"))
    (tmp_path / "work").mkdir(mode=0o755)
    monkeypatch.chdir(tmp_path / "work")

    def run(files: dict[str, str], *arguments: str, **variables: str) -> tuple[int, Any, str]:
        for name, text in files.items():
            (tmp_path / "work" / name).write_text(text)
            (tmp_path / "work" / name).chmod(0o644)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = cli.run([*QUICK, *arguments])
        out, err = capfd.readouterr()
        return code, json.loads(out) if out else None, err

    return run


OWN, PROJECT, SITE = "dl-doctor.toml", "pyproject.toml", "../etc.toml"


@pytest.mark.parametrize(
    ("files", "arguments", "variables", "workers"),
    [
        ({}, (), {}, None),
        ({OWN: "num-workers = 3"}, (), {}, 3),
        ({PROJECT: "[tool.dl-doctor]\nnum-workers = 3"}, (), {}, 3),
        ({PROJECT: "[tool.other]\nx = 1"}, (), {}, None),
        ({PROJECT: "[tool.other]\nx = 1\n="}, (), {}, None),  # broken, and none of ours
        ({PROJECT: "[tool.dl-doctor]\nnum-workers = 3", OWN: "num-workers = 4"}, (), {}, 4),  # one file, not two
        ({OWN: "num-workers = 3"}, (), {"DL_DOCTOR_NUM_WORKERS": "5"}, 5),
        ({OWN: "num-workers = 3"}, ("--num-workers", "6"), {"DL_DOCTOR_NUM_WORKERS": "5"}, 6),
        ({OWN: "num-workers = 3"}, ("--no-config",), {}, None),
        ({OWN: "num-workers = 3", "other.toml": "num-workers = 7"}, ("--config", "other.toml"), {}, 7),
        ({OWN: "num-workers = 3"}, (), {"DL_DOCTOR_NO_CONFIG": "1"}, None),
    ],
)
def test_the_nearest_word_counts(
    doctor: Any, files: dict[str, str], arguments: tuple[str, ...], variables: dict[str, str], workers: int | None
) -> None:
    code, report, err = doctor(files, "-s", "cpu", *arguments, **variables)

    assert (code, err) == (0, "")
    assert report["run"]["settings"].get("num_workers") == workers


def test_every_kind_of_value(doctor: Any) -> None:
    text = 'data = "/tmp"\nselect = ["cpu", "shm,limits"]\nbatch-bytes = "24MiB"\ntimeout = 30\npin-memory = false\nscope = "job"'
    _, report, err = doctor({OWN: text})

    assert err == ""
    assert report["run"]["settings"] == {
        "data": ["/tmp"], "select": ["cpu", "shm", "limits"], "batch_bytes": 24 << 20, "timeout_s": 30.0, "pin_memory": False,
        "scope": "job", "profile": "quick",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("num-wokers = 3", "there is no 'num-wokers'. Did you mean 'num-workers'?"),
        ("num_workers = 3", "Did you mean 'num-workers'?"),  # as the option is written
        ("facts = 'x.json'", "there is no 'facts'"),  # of one call only
        ("num-workers = 'many'", "num-workers: 'many' is not a valid integer"),
        ("num-workers = -1", "num-workers: -1 is not in the range"),
        ("num-workers = 2.9", "num-workers is a whole number, not 2.9"),
        ("[[accept]]\nid = 'shm-size'\nreason = '  '", "needs a reason"),
        ("[[accept]]\nid = 'shm-size'\nreason = 'x'\nuntil = '20270131'", "write it like 2027-01-31"),
        ("num-workers = true", "num-workers takes one value, not True"),
        ("num-workers = [1, 2]", "num-workers takes one value, not [1, 2]"),
        ("no-plugins = 'yes'", "no-plugins takes true or false, not 'yes'"),
        ("batch-bytes = '24 potatoes'", "is not a size; write it like 24MiB"),
        ("[num-workers]\nx = 1", "num-workers takes one value"),
        ("num-workers = ", "is no TOML"),
        ("\x00", "is no TOML"),
        ("a = " + "[" * 5000, "is no TOML"),
        ("select = 'shm-sise'", "Did you mean 'shm-size'?"),
        ("expect = 3", "expect is a table: write [expect]"),
        ("[expect]\ngpu = 8", "expect: there is no 'gpu'. Did you mean 'gpus'?"),
        ("[expect]\ngpus = -1", "expect: "),
        ("[expect]\ngpus = 'eight'", "Expected `int"),
        ("[expect.free-space]\ndata = '1GiB'", "expect.free-space: 'data' is no absolute path"),
        ("[expect.free-space]\n'/data' = 'much'", "expect.free-space: /data: 'much' is not a size"),
        ("[expect.on]\nhost = 'x'", "expect.on is a list of tables: write [[expect.on]]"),
        ("[[expect.on]]\nnode = 'x'", "expect.on: there is no 'node'"),
        ("[accept]\nid = 'shm-size'", "accept is a list of tables: write [[accept]]"),
        ("[[accept]]\nid = 'shm-size'", 'shm-size needs a reason: write reason = "..."'),
        ("[[accept]]\nid = 'shm-size'\nreason = ''", "needs a reason"),
        ("[[accept]]\nreason = 'x'", "accept: "),
        ("[[accept]]\nid = 'shm-size'\nreason = 'x'\nuntil = 'soon'", "until: 'soon' is no date; write it like 2027-01-31"),
        ("[[accept]]\nid = 'shm-size'\nreasons = 'x'", "Did you mean 'reason'?"),
    ],
)
def test_what_is_wrong_with_a_file(doctor: Any, text: str, says: str) -> None:
    code, report, err = doctor({OWN: text})

    assert (code, report) == (2, None)
    assert says in err
    assert OWN in err or "--select" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--config", "none.toml"), "none.toml: No such file or directory"),
        (("--config", "."), ". is no regular file"),
        (("--config", OWN, "--no-config"), "exclude each other"),
    ],
)
def test_a_file_that_is_named_and_cannot_be_read(doctor: Any, arguments: tuple[str, ...], says: str) -> None:
    code, report, err = doctor({OWN: ""}, *arguments)

    assert (code, report) == (2, None)
    assert says in err


def test_a_variable_that_means_nothing_is_told(doctor: Any) -> None:
    code, _, err = doctor({}, "-s", "cpu", DL_DOCTOR_NUM_WOKERS="3")

    assert code == 0
    assert "DL_DOCTOR_NUM_WOKERS is set and means nothing: " in err
    assert "Did you mean 'DL_DOCTOR_NUM_WORKERS'?" in err


def test_a_sites_file_holds_no_options(doctor: Any) -> None:
    code, _, err = doctor({SITE: "num-workers = 3"})

    assert code == 2
    assert "num-workers: only [expect] and [[accept]] can be there" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom others' files must not command")
@pytest.mark.parametrize(
    ("owner", "file_mode", "folder_mode", "counts"),
    [
        (0, 0o644, 0o755, True),
        (1000, 0o644, 0o755, False),
        (0, 0o664, 0o755, False),
        (0, 0o666, 0o755, False),
        (0, 0o644, 0o777, False),
    ],
)
@pytest.mark.parametrize("contained", [False, True])
def test_root_obeys_no_file_of_others(
    doctor: Any, monkeypatch: pytest.MonkeyPatch, owner: int, file_mode: int, folder_mode: int, counts: bool, contained: bool
) -> None:
    """Inside a container root is root of what is in there only, and the working directory is often a bind mount of a user's."""
    monkeypatch.setattr("dl_doctor.commands.configuration.in_a_container", lambda: contained)
    Path(OWN).write_text("num-workers = 3")
    Path(OWN).chmod(file_mode)
    os.chown(OWN, owner, 0)
    Path().chmod(folder_mode)
    code, report, err = doctor({}, "-s", "cpu")

    assert code == 0
    assert report["run"]["settings"].get("num_workers") == (3 if counts or contained else None)
    assert ("is ignored: this is root" in err) == (not counts and not contained)


def test_whether_this_is_a_container_is_asked_of_the_machine(tmp_path: Path) -> None:
    """From the outside, once: a file of another user's, read by root on a machine that is none."""
    (tmp_path / OWN).write_text("num-workers = 3")
    os.chown(tmp_path / OWN, 1000, 0)
    found = subprocess.run(
        [sys.executable, "-m", "dl_doctor", *QUICK, "-s", "cpu,runtime"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(found.stdout)
    contained = report["facts"]["runtime"]["view"] == "container"

    assert report["run"]["settings"].get("num_workers") == (3 if contained or os.geteuid() else None)


@pytest.mark.parametrize(
    ("on", "hostname", "partition", "meant"),
    [
        ({"host": "gpu-*"}, "gpu-17", None, True),
        ({"host": "gpu-*"}, "gpu-17.cluster.example", None, True),
        ({"host": "gpu-17"}, "gpu-17.cluster.example", None, True),
        ({"host": "gpu-*"}, "login", None, False),
        ({"partition": "a100"}, "x", "a100", True),
        ({"partition": "a100"}, "x", None, False),
        ({"host": "gpu-*", "partition": "a100"}, "gpu-1", "h100", False),  # all that is named
        ({}, "x", None, True),
    ],
)
def test_which_nodes_are_meant(on: dict[str, str], hostname: str, partition: str | None, meant: bool) -> None:
    assert ExpectOn(**on).is_meant(hostname, partition) == meant


def test_what_is_said_of_some_nodes_and_nearer_comes_first(doctor: Any) -> None:
    everywhere = '[expect]\ngpus = 8\ndriver = "550"\n[expect.free-space]\n"/" = "1MiB"\n"/tmp" = 1\n'
    site = f'{everywhere}[[expect.on]]\npartition = "small"\ngpus = 2\n'
    _, report, _ = doctor({SITE: site, OWN: '[expect.free-space]\n"/tmp" = 2'}, SLURM_JOB_PARTITION="small")

    assert report["run"]["settings"]["expect"] == {"gpus": 2, "driver": "550", "free_space": {"/": "1MiB", "/tmp": 2}}


NOISY = ("-s", "shm-size", "--batch-bytes", "4TiB", "--num-workers", "8")


@pytest.mark.parametrize(
    ("entry", "status", "code"),
    [
        ("id = 'shm-size'\nreason = 'known'", "pass", 0),
        ("id = 'shm-size'\nreason = 'known'\nsubject = '/dev/shm'", "pass", 0),
        ("id = 'shm-size'\nreason = 'known'\nsubject = 'gpu:3'", "fail", 1),
        ("id = 'shm-size'\nreason = 'known'\nuntil = 2999-12-31", "pass", 0),
        ("id = 'shm-size'\nreason = 'known'\nuntil = '2999-12-31'", "pass", 0),
        ("id = 'shm-size'\nreason = 'known'\nuntil = 2020-01-31", "fail", 1),  # it comes back
        ("id = 'fd-limit'\nreason = 'known'", "fail", 1),
    ],
)
def test_what_is_accepted_stays_in_the_report(doctor: Any, entry: str, status: str, code: int) -> None:
    told, report, _ = doctor({OWN: f"[[accept]]\n{entry}"}, *NOISY)
    (result,) = [result for result in report["results"] if result["id"] == "shm-size"]

    assert (told, result["status"]) == (code, status)
    (failure,) = [finding for finding in result["findings"] if finding["level"] == "fail"]  # what others left is a note beside it
    assert failure["accepted"] == ("known" if status == "pass" else None)
    assert report["summary"]["accepted"] == (1 if status == "pass" else 0)


def test_a_snapshot_is_what_the_site_expects(doctor: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["snapshot", "--data", "/"]) == 0
    code, report, err = doctor({OWN: capfd.readouterr().out}, "-s", "site")
    (result,) = report["results"]

    assert (code, err, result["status"]) == (0, "", "pass"), result
    assert result["seen"].startswith("/: ")


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        ('exit-codes = "prolog"\nfail_on = "warn"', (), 0),  # the file itself is wrong
        ('exit-codes = "nagios"\nfail_on = "warn"', (), 3),
        ('exit-codes = "prolog"', ("-s", "tempspace"), 0),
        ('exit-codes = "prolog"', ("-s", "tempspace", "--exit-codes", "gate"), 2),
        ('exit-codes = "prolog"', ("-s", "tempspace", "--no-config"), 2),
        ('exit-codes = "porlog"', (), 2),
    ],
)
def test_exit_codes_of_a_file_hold_for_our_own_troubles(doctor: Any, text: str, arguments: tuple[str, ...], code: int) -> None:
    told, report, err = doctor({OWN: text}, *arguments)

    assert (told, report) == (code, None)
    assert err


def test_what_is_accepted_and_no_check_is_told(doctor: Any) -> None:
    code, _, err = doctor({OWN: "[[accept]]\nid = 'shm-siz'\nreason = 'known'"}, "-s", "cpu")

    assert code == 0
    assert "there is no 'shm-siz'. Did you mean 'shm-size'? It accepts nothing." in err


def test_a_project_that_cannot_be_read_stops_nothing(doctor: Any) -> None:
    """It may say nothing of ours; here it is larger than any settings."""
    code, report, err = doctor({PROJECT: "# x\n" * (1 << 18) + "[tool.dl-doctor]\nnum-workers = 3"}, "-s", "cpu")

    assert code == 0
    assert "num_workers" not in report["run"]["settings"]
    assert "is larger than 1 MiB" in err


@pytest.fixture
def swept(doctor: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run `dl-doctor sweep` up to where it would measure; gives exit code, the settings or None, and standard error."""

    def run(files: dict[str, str], *arguments: str, **variables: str) -> tuple[int, Any, str]:
        found = []

        def examine(_catalogue: Any, settings: Settings, *_: Any, **__: Any) -> Any:
            found.append(settings)
            raise SystemExit(0)

        monkeypatch.setattr("dl_doctor.commands.sweep.examine", examine)
        for name, text in files.items():
            Path(name).write_text(text)
            Path(name).chmod(0o644)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = cli.run(["sweep", *arguments])
        return code, json.loads(msgspec.json.encode(found[0])) if found else None, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    ("text", "arguments", "variables", "found"),
    [
        ('loader = "a.py:x"', (), {}, {"loader": "a.py:x"}),
        ('loader = "a.py:x"', ("b.py:x",), {}, {"loader": "b.py:x"}),
        ('loader = "a.py:x"', ("--dataset", "b.py:x", "--batch-size", "8"), {}, {"dataset": "b.py:x", "batch_size": 8}),
        ('dataset = "a.py:x"\nbatch-size = 8', (), {}, {"dataset": "a.py:x", "batch_size": 8}),
        ('loader = "a.py:x"', (), {"DL_DOCTOR_LOADER": "b.py:x"}, {"loader": "b.py:x"}),
        ("example = true", ("a.py:x",), {}, {"loader": "a.py:x"}),
        ('loader = "a.py:x"\npython = "/py"\nruntime = "docker"\ndata = "/d"', (), {},
         {"loader": "a.py:x", "python": "/py", "runtime": "docker", "data": ["/d"]}),
        ('loader = "a.py:x"\n[[accept]]\nid = "disk-rate"\nreason = "known"', (), {},
         {"loader": "a.py:x", "accept": [{"id": "disk-rate", "reason": "known"}]}),
        ('loader = "a.py:x"\nselect = ["cpu"]\nprofile = "quick"', (), {}, {"loader": "a.py:x"}),  # of check alone
    ],
)  # fmt: skip
def test_a_sweep_reads_the_same_file(
    swept: Any, text: str, arguments: tuple[str, ...], variables: dict[str, str], found: dict[str, Any]
) -> None:
    code, settings, err = swept({OWN: text}, *arguments, **variables)

    assert (code, err) == (0, "")
    for one in ("profile", "select", "sweep"):
        settings.pop(one)
    assert settings == found


@pytest.mark.parametrize(
    ("text", "arguments", "options"),
    [
        ('budget = 90\nranks = 2\nstep-time = "35ms"', (), {"budget_s": 90.0, "ranks": 2, "step_time_s": 0.035}),
        ('workers = [0, 2, 8]\nbudget = "90"', (), {"workers": [0, 2, 8], "budget_s": 90.0}),
        ('workers = "0,2,8"', ("--workers", "4", "--budget", "9"), {"workers": [4], "budget_s": 9.0}),
        ('step-time = "35ms"', ("--step", "a.py:f"), {"budget_s": 60.0, "step": "a.py:f"}),
    ],
)
def test_how_long_and_what_is_measured_can_stand_there(
    swept: Any, text: str, arguments: tuple[str, ...], options: dict[str, Any]
) -> None:
    _, settings, err = swept({OWN: text}, "a.py:x", *arguments)

    assert err == ""
    assert settings["sweep"] == {"budget_s": 60.0, **options}


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("", (), "name the loader to measure"),
        ('loader = "a.py:x"\ndataset = "a.py:y"', (), "dataset and loader exclude each other"),  # neither is nearer
        ('step-time = "soon"', ("a.py:x",), "step-time: "),
        ("workers = [0, -1]", ("a.py:x",), "workers: '0,-1' is no list of numbers"),
        ("bugdet = 5", ("a.py:x",), "there is no 'bugdet'. Did you mean 'budget'?"),
        ("budget = 0", ("a.py:x",), "budget: "),
    ],
)
def test_what_a_sweep_refuses(swept: Any, text: str, arguments: tuple[str, ...], says: str) -> None:
    code, settings, err = swept({OWN: text}, *arguments)

    assert (code, settings) == (2, None)
    assert says in err


@pytest.mark.parametrize(
    ("text", "arguments", "variables"),
    [
        ('loader = "a.py:x"', ("--profile", "quick"), {}),  # which runs nothing of the job's
        ("", ("--profile", "quick"), {"DL_DOCTOR_LOADER": "a.py:x"}),
        ('budget = 5\nstep-time = "35ms"\nworkers = [0, 2]', (), {}),  # of a sweep alone
        ("", (), {"DL_DOCTOR_STEP_TIME": "35ms"}),
    ],
)
def test_what_a_check_does_not_look_at_is_not_in_its_way(
    doctor: Any, text: str, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    code, report, err = doctor({OWN: text}, "-s", "cpu", *arguments, **variables)

    assert (code, err) == (0, "")
    assert report["run"]["settings"] == {"profile": "quick", "select": ["cpu"]}
