"""The command line from the outside: what is refused, what is suggested, what the exit code says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor import cli
from dl_doctor.outcome import EXIT_CODES
from dl_doctor.reports.look import SYMBOLS, VERDICTS


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the command line in this process; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        return code, *capfd.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "-s", "shm-sise"], "there is no 'shm-sise'. Did you mean 'shm-size'?"),
        (["check", "-i", "shmm"], "Did you mean 'shm'?"),
        (["check", "--require", "shm"], "'shm' is an area; name a check of it"),
        (["check", "--batch-bytes", "24 potatoes"], "'24 potatoes' is not a size; write it like 24MiB"),
        (["check", "--num-workers", "-1"], "-1 is not in the range 0<=x<=65536"),
        (["check", "--num-workers", "1000000000"], "1000000000 is not in the range 0<=x<=65536"),
        (["check", "-o", "report.pdf"], "'report.pdf' ends in none of .txt, .json"),
        (["check", "--start-method", "frok"], "'frok' is not one of"),
        (["check", "--facts", "none.json"], "none.json: No such file or directory"),
        (["check", "--facts", "a.json", "--root", "/"], "exclude each other"),
        (["check", "--example", "--facts", "a.json"], "a saved report's dataset is not here"),
        (["check", "--loader", "train.py:make", "--profile", "quick"], "--loader needs --profile default"),
        (["check", "-q", "-v"], "exclude each other"),
        (["check", "--require", "fd-limit", "-i", "limits"], "it is left out by --select, --ignore or --scope"),
        (["check", "--timeout", "nan"], "'nan' is no number of seconds"),
        (["check", "--dataset", "train.py"], "'train.py' names no object; write it like package.module:name"),
        (["check", "--loader", ":make_loader"], "names no object"),
        (["check", "--loader", "train.py:make_loader()"], "names no object"),
        (["check", "--loader", "train.py:make_loader", "--example"], "exclude each other"),
        (["sweep"], "name the loader to measure: give SPEC, --loader, --dataset, --example or `-- COMMAND"),
        (["sweep", "train:loader", "--example"], "example and SPEC exclude each other"),
        (["sweep", "train.py"], "'train.py' names no object"),
        (["sweep", "--dataset", "train:data"], "--dataset needs --batch-size"),
        (["sweep", "--example", "--step-time", "35m"], "'35m' is no time; write it like 35ms"),
        (["sweep", "--example", "--step-time", "1s", "--step", "a:b"], "--step and --step-time exclude each other"),
        (["sweep", "--example", "--workers", "2,-4"], "'2,-4' is no list of numbers"),
        (["sweep", "--example", "--budget", "0"], "0.0 is not in the range x>0"),
        (["explain", "shm"], "'shm' is an area; name a check of it"),
        (["render", "none.json"], "No such file or directory"),
        (["explain", "shm-sise"], "Did you mean 'shm-size'?"),
        (["explain", "could", "not", "tel"], "Did you mean 'could not tell'?"),
        (["explain"], "Missing argument 'ID'"),
        (["chekc"], "No such command 'chekc'"),
        (["--num-wokers", "3"], "Did you mean '--num-workers'?"),
    ],
)
def test_what_is_wrong_and_what_to_write_instead(doctor: Any, arguments: list[str], says: str) -> None:
    code, out, err = doctor(*arguments)

    assert (code, out) == (2, "")
    assert says in err


def test_alone_it_checks(doctor: Any) -> None:
    code, out, _ = doctor("--no-plugins")
    same, again, _ = doctor("check", "--no-plugins")

    assert (code, same) == (0, 0)
    assert out.splitlines()[0] == again.splitlines()[0]


def test_the_machine_that_the_tests_run_on_is_healthy(doctor: Any) -> None:
    code, out, err = doctor("check", "--no-plugins", "-f", "json")
    summary = json.loads(out)["summary"]

    assert (code, err) == (0, "")
    assert (summary["fail"], summary["warn"], summary["error"]) == (0, 0, 0)


def test_quiet_is_one_line_when_all_is_well(doctor: Any) -> None:
    code, out, _ = doctor("check", "--no-plugins", "-q", "-i", "shm", "--num-workers", "0")

    assert code == 0
    assert len(out.splitlines()) == 1
    assert out.endswith("go (exit 0)\n")


def test_select_and_ignore(doctor: Any) -> None:
    _, out, _ = doctor("check", "--no-plugins", "-s", "limits,shm-size", "-s", "runtime", "-i", "fd-limit", "-f", "json")
    found = {(result["area"], result["id"]) for result in json.loads(out)["results"]}

    assert found >= {("container", "runtime"), ("limits", "memory-budget"), ("shm", "shm-size")}
    assert {area for area, _ in found} == {"container", "limits", "shm"}
    assert ("limits", "fd-limit") not in found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--num-workers", "64", "--batch-bytes", "64GiB"], 1),
        (["--num-workers", "64", "--batch-bytes", "64GiB", "--fail-on", "never"], 0),
        (["--num-workers", "4096"], 1),  # they do not fit into the memory of this machine
        (["-s", "worker-count", "--num-workers", "4096"], 0),
        (["-s", "worker-count", "--num-workers", "4096", "--fail-on", "warn"], 1),
        (["-s", "shm", "--root", "."], 3),  # asked for, and nothing was judged
    ],
)
def test_exit_codes(doctor: Any, arguments: list[str], code: int) -> None:
    assert doctor("check", "--no-plugins", *arguments)[0] == code


def test_files_are_written_beside_what_is_printed(doctor: Any, tmp_path: Path) -> None:
    code, out, _ = doctor("check", "-o", str(tmp_path / "a.json"), "-o", str(tmp_path / "a.txt"))

    assert code == 0
    assert out
    assert json.loads((tmp_path / "a.json").read_text())["verdict"]["exit_code"] == 0
    assert (tmp_path / "a.txt").read_text().endswith("(exit 0)\n")


def test_render_shows_a_saved_report(doctor: Any, tmp_path: Path) -> None:
    _, out, _ = doctor("check", "--num-workers", "4096", "-o", str(tmp_path / "a.json"))
    code, rendered, _ = doctor("render", str(tmp_path / "a.json"))
    _, document, _ = doctor("render", str(tmp_path / "a.json"), "-f", "json")

    assert (code, rendered) == (0, out)
    assert document == (tmp_path / "a.json").read_text()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_workers", "many"),
        ("num_workers", 10**9),
        ("prefetch_factor", 0),
        ("batch_bytes", -1),
        ("data", 7),
        ("fail_on", "sometimes"),
        ("timeout_s", 0),
    ],
)
@pytest.mark.parametrize("command", [("check", "--facts"), ("render",)])
def test_settings_that_make_no_sense_are_refused(
    doctor: Any, tmp_path: Path, command: tuple[str, ...], field: str, value: Any
) -> None:
    path = tmp_path / "a.json"
    doctor("check", "--no-plugins", "-s", "runtime", "-o", str(path))
    report = json.loads(path.read_text())
    report["run"]["settings"][field] = value
    path.write_text(json.dumps(report))
    code, out, err = doctor(*command, str(path))

    assert (code, out) == (2, "")
    assert f"$.settings.{field}" in err


def test_list_as_text_and_as_json(doctor: Any) -> None:
    _, text, _ = doctor("list", "--no-plugins")
    _, out, _ = doctor("list", "--no-plugins", "-f", "json")
    rows = json.loads(out)

    assert rows[0].keys() == {"id", "title", "area", "scope", "profile", "essential", "needs", "origin"}
    assert all(row["id"] in text and row["title"] in text for row in rows)
    assert {row["id"] for row in rows if row["essential"]} >= {"gpu-visible", "shm-size", "torch-imports"}


@pytest.mark.parametrize("name", ["shm-size", "skip", "not_run", *map(str, EXIT_CODES)])
def test_explain(doctor: Any, name: str) -> None:
    code, out, _ = doctor("explain", name)

    assert code == 0
    assert name in out.splitlines()[0]


@pytest.mark.parametrize("word", [*(word for _, word in SYMBOLS.values()), *VERDICTS.values(), "no go", "accepted"])
def test_explain_knows_the_words_of_reports(doctor: Any, word: str) -> None:
    assert doctor("explain", word) == doctor("explain", *word.split())  # with quotes around it, and without
    assert doctor("explain", word)[0] == 0


def test_explain_tells_both_meanings_of_could_not_tell(doctor: Any) -> None:
    _, out, _ = doctor("explain", "could", "not", "tell")

    assert [line for line in out.splitlines() if line.startswith("#")] == ["# error", "# exit 3"]


def test_a_bug_leaves_a_log_and_exits_70(doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the engine fell out")

    monkeypatch.setattr("dl_doctor.commands.check.examine", broken)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code, out, err = doctor("check")
    (log,) = tmp_path.iterdir()

    assert (code, out) == (70, "")
    assert str(log) in err
    assert "the engine fell out" in log.read_text()


def test_a_bug_without_a_place_for_a_log_is_told_whole(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the engine fell out")

    def nowhere(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr("dl_doctor.commands.check.examine", broken)
    monkeypatch.setattr("tempfile.mkstemp", nowhere)
    code, _, err = doctor("check")

    assert code == 70
    assert "Traceback" in err


def test_text_that_is_not_utf8_in_the_environment_is_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dl_doctor", "check", "-f", "json", "-o", os.fsencode(tmp_path) + b"/n\xff.json"],
        env={**os.environb, b"SLURM_JOB_ID": b"7\xff", b"SLURMD_NODENAME": b"n\xfe", b"LANG": b"C"},
        capture_output=True,
        check=False,
    )
    report = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert report["facts"]["slurm"]["job_id"] == "7\\xff"
    assert [name.endswith(b"n\xff.json") for name in os.listdir(os.fsencode(tmp_path))] == [True]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "--exit-codes", "prolog", "--num-wokers", "3"], 0),
        (["check", "--exit-codes=nagios", "--num-wokers", "3"], 3),
        (["check", "--exit-codes", "gate", "--num-wokers", "3"], 2),
        (["check", "--exit-codes", "porlog"], 2),
    ],
)
def test_a_wrong_command_ends_as_its_caller_understands(doctor: Any, arguments: list[str], code: int) -> None:
    told, out, err = doctor(*arguments)

    assert (told, out) == (code, "")
    assert "See `dl-doctor check --help`" in err


@pytest.mark.parametrize(("scope", "has", "lacks"), [("node", "gpu-visible", "shm-size"), ("job", "shm-size", "gpu-visible")])
def test_the_scope_chooses(doctor: Any, scope: str, has: str, lacks: str) -> None:
    _, out, _ = doctor("check", "--no-plugins", "--profile", "quick", "-f", "json", "--scope", scope)
    report = json.loads(out)

    assert report["run"]["scope"] == scope
    assert has in {result["id"] for result in report["results"]}
    assert lacks not in {result["id"] for result in report["results"]}


@pytest.mark.parametrize(("context", "scope"), [("prolog_slurmd", "node"), ("epilog_slurmd", "node"), ("prolog_task", "all")])
def test_a_prolog_is_about_the_node(doctor: Any, monkeypatch: pytest.MonkeyPatch, context: str, scope: str) -> None:
    monkeypatch.setenv("SLURM_SCRIPT_CONTEXT", context)
    _, out, _ = doctor("check", "--no-plugins", "--profile", "quick", "-f", "json", "-s", "runtime,gpu")

    assert json.loads(out)["run"]["scope"] == scope


def test_monitoring_reads_the_first_line(doctor: Any) -> None:
    code, out, _ = doctor("check", "--no-plugins", "--exit-codes", "nagios", "-s", "cpu")

    assert code == 0
    assert out.splitlines()[0].startswith("DL-DOCTOR OK - ")
    assert out.splitlines()[0].endswith("| failed=0 warnings=0 passed=1 untold=0")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(doctor: Any, shell: str) -> None:
    code, out, err = doctor("completion", shell)

    assert (code, err) == (0, "")
    assert "_DL_DOCTOR_COMPLETE" in out


def test_a_shell_that_completes_gets_options_and_ids() -> None:
    """What the script of bash asks for, from the outside."""

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_DL_DOCTOR_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        found = subprocess.run(
            [sys.executable, "-m", "dl_doctor"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        return [answer.partition(",")[2] for answer in found.stdout.split()]

    assert "--num-workers" in completed("dl-doctor check --num")
    assert completed("dl-doctor check -s shm-s") == ["shm-size"]
    assert completed("dl-doctor explain fd-l") == ["fd-limit"]
