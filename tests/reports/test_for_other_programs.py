"""What build servers, GitHub and Kubernetes read: well-formed whatever a name holds, and each finding in it."""

import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from dl_doctor.model import Finding, Fix, Reason, Report, Result
from dl_doctor.reports import github, junit, termination
from dl_doctor.reports.look import Look
from dl_doctor.settings import Settings
from tests.recorded import examine_recorded, read

HOSTILE = "a\x1b[2J\x00</failure>&\"'%0A::error::x\r\n::warning::y \u202egnp.exe \ud800"


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Report:
    machine, _ = read("docker-v1")
    report = examine_recorded(machine, tmp_path_factory.mktemp("machine"), Settings(num_workers=8, batch_bytes=24 << 20))
    results = tuple(msgspec.structs.replace(result, duration_s=0.001) for result in report.results)
    return msgspec.structs.replace(
        report, results=results, run=msgspec.structs.replace(report.run, duration_s=0.02, started_at="2026-11-30T12:00:00.000Z")
    )


def result(id_: str, status: Any, *findings: Finding, reason: str | None = None) -> Result:
    return Result(
        id=id_, area="a", scope="job", title=id_, status=status, seen=f"saw {id_}",
        reason=Reason("failed", reason) if reason else None, findings=findings, duration_s=0.001,
    )  # fmt: skip


def finding(level: Any, summary: str, **fields: Any) -> Finding:
    return Finding(level=level, subject="x", summary=summary, **fields)


def test_a_build_server_counts_what_we_count(plain: Report) -> None:
    root = ET.fromstring(junit.render(plain, Look()))
    suites = list(root)

    assert sum(int(suite.get("tests", "")) for suite in suites) == len(plain.results)
    assert sum(int(suite.get("failures", "")) for suite in suites) == plain.summary.fail == len(root.findall(".//failure"))
    assert sum(int(suite.get("errors", "")) for suite in suites) == plain.summary.error == len(root.findall(".//error"))
    skipped = plain.summary.skip + plain.summary.not_run
    assert sum(int(suite.get("skipped", "")) for suite in suites) == skipped == len(root.findall(".//skipped"))


def test_what_is_accepted_and_what_only_warns_fails_nothing(plain: Report) -> None:
    accepted = finding("fail", "it is broken", accepted="ticket 7")
    report = msgspec.structs.replace(plain, results=(result("c", "warn", accepted, finding("warn", "slow")),))
    root = ET.fromstring(junit.render(report, Look()))

    assert root.findall(".//failure") == []
    assert "accepted (ticket 7):\nit is broken" in root.findtext(".//system-out", "")
    assert "warning:\nslow" in root.findtext(".//system-out", "")
    assert "broken" not in github.render(report, Look())


@pytest.mark.parametrize("render", [junit.render, github.render, termination.render])
def test_names_that_mean_harm(plain: Report, render: Any) -> None:
    bad = finding("fail", HOSTILE, why=HOSTILE, fixes=(Fix(HOSTILE, (HOSTILE,), note=HOSTILE),))
    report = msgspec.structs.replace(
        plain,
        results=(result("c", "fail", bad), result("d", "error", reason=HOSTILE), result("e", "warn", finding("warn", HOSTILE))),
    )
    text = render(report, Look())

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    if render is junit.render:
        assert len(ET.fromstring(text).findall(".//testcase")) == 3
    if render is github.render:
        assert [line.partition(" ")[0] for line in text.splitlines()[:-1]] == ["::error", "::warning", "::warning"]
        assert text.splitlines()[-1].startswith(("1 failed", "nothing", "0"), 0) or "exit" in text.splitlines()[-1]


def test_last_words_are_short_enough_for_kubernetes(plain: Report) -> None:
    many = [result(f"c{number}", "fail", finding("fail", "ü" * 300)) for number in range(40)]
    text = termination.render(msgspec.structs.replace(plain, results=tuple(many)), Look())

    assert 3000 < len(text.encode()) <= 4096
    assert text.startswith("dl-doctor: ")
    assert "(exit " in text.splitlines()[0]
    assert text.endswith("\n[...]\n")


def test_last_words_are_written_in_place(tmp_path: Path) -> None:
    """What Kubernetes binds there is a file of its own: it must stay the same one, and not be followed by others."""
    log = tmp_path / "termination-log"
    log.write_text("x" * 10_000)
    log.chmod(0o666)
    before = log.stat()
    command = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-q", "-s", "shm-size", "--batch-bytes", "4TiB",
               "--num-workers", "8", "-o", str(log)]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    after = log.stat()

    assert ended.returncode == 1
    assert (after.st_ino, stat.S_IMODE(after.st_mode)) == (before.st_ino, 0o666)
    assert "shm-size: " in log.read_text()
    assert after.st_size <= 4096
