"""Facts are collected once, in order, with reasons where they are lacking; whatever crashes is a result."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.catalogue import Catalogue, load
from dl_doctor.collecting import Collection, default_timeout_s
from dl_doctor.contract import Check
from dl_doctor.engine import HEAD, examine, names_of_gpus
from dl_doctor.facts import COLLECTORS, Collector
from dl_doctor.model import Finding, Fix, Report, Result, Unavailable, Verdict
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import Missing, System
from dl_doctor.text import Malformed
from dl_doctor.watching import Interruption
from tests.facts import gpu, gpu_probe, nvml, probed_gpu
from tests.recorded import RecordedSystem, examine_recorded, read


class Left(msgspec.Struct, frozen=True):
    number: int


class Right(msgspec.Struct, frozen=True):
    number: int


class Sum(msgspec.Struct, frozen=True):
    number: int


def left() -> Left:
    return Left(1)


def right() -> Right:
    return Right(2)


def total(left: Left, right: Right) -> Sum:
    return Sum(left.number + right.number)


def seen_total(total: Sum) -> Verdict:
    return Verdict(f"the sum is {total.number}")


def seen_left(left: Left) -> Verdict:
    return Verdict(f"the left one is {left.number}")


def seen_right(right: Right) -> Verdict:
    return Verdict(f"the right one is {right.number}")


def seen_either(left: Left | Unavailable, right: Right | Unavailable) -> Verdict:
    words = [value.detail if isinstance(value, Unavailable) else str(value.number) for value in (left, right)]
    return Verdict(" and ".join(words))


def examined(
    tmp_path: Path, checks: list[Check], collectors: list[Collector], settings: Settings | None = None
) -> dict[str, Result]:
    return {result.id: result for result in report_of(tmp_path, checks, collectors, settings).results}


def report_of(tmp_path: Path, checks: list[Check], collectors: list[Collector], settings: Settings | None = None) -> Report:
    catalogue = Catalogue(checks, [*COLLECTORS, *collectors])
    return examine_recorded(read("bare-metal")[0], tmp_path, settings, catalogue)


def test_each_fact_is_collected_once(tmp_path: Path) -> None:
    calls = []

    def counted() -> Left:
        calls.append(1)
        return Left(1)

    results = examined(
        tmp_path, [Check(seen_total), Check(seen_either)], [Collector(counted), Collector(right), Collector(total)]
    )

    assert (results["seen-total"].seen, results["seen-either"].seen) == ("the sum is 3", "1 and 2")
    assert calls == [1]


def raising(error: BaseException) -> Any:
    def collect() -> Left:
        raise error

    return collect


def given(value: Any) -> Any:
    def collect() -> Left | Unavailable:
        return value

    return collect


@pytest.mark.parametrize(
    ("collect", "status", "kind", "detail"),
    [
        (given(Unavailable.absent("no left here")), "skip", "absent", "no left here"),
        (given(Unavailable.denied("root may look")), "skip", "denied", "root may look"),
        (given(Unavailable.timeout("too slow")), "error", "timeout", "too slow"),
        (given(Unavailable.failed("nonsense")), "error", "failed", "nonsense"),
        (given(Unavailable.not_asked("needs --left")), "not_run", "not_asked", "needs --left"),
        (raising(Missing(Unavailable.denied("not yours"))), "skip", "denied", "not yours"),
        (raising(FileNotFoundError(2, "No such file", "/left")), "skip", "absent", "/left does not exist"),
        (raising(PermissionError(13, "Denied", "/left")), "skip", "denied", "/left may not be read by this user"),
        (raising(OSError(5, "Input/output error", "/left")), "error", "failed", "/left: Input/output error"),
        (raising(Malformed("not a left", "right")), "error", "failed", "not a left: 'right'"),
        (raising(ZeroDivisionError("by zero")), "error", "failed", "a bug in the collector: ZeroDivisionError: by zero"),
        (raising(RecursionError()), "error", "failed", "a bug in the collector: RecursionError"),
    ],
)
def test_why_a_fact_is_lacking(tmp_path: Path, collect: Any, status: str, kind: str, detail: str) -> None:
    """The check inherits the reason and names the fact whose it is, not the one that it asked for."""
    result = examined(tmp_path, [Check(seen_total)], [Collector(collect), Collector(right), Collector(total)])["seen-total"]

    assert result.status == status
    assert result.reason is not None
    assert (result.reason.kind, result.reason.detail, result.reason.fact) == (kind, detail, "left")


def test_a_fact_that_can_be_done_without_keeps_its_reason(tmp_path: Path) -> None:
    collectors = [Collector(given(Unavailable.absent("none"))), Collector(right)]

    assert examined(tmp_path, [Check(seen_either)], collectors)["seen-either"].seen == "none and 2"


def test_the_crash_of_a_check_is_a_result(tmp_path: Path) -> None:
    def crashing(left: Left) -> Verdict:
        raise KeyError(left.number)

    results = examined(tmp_path, [Check(crashing), Check(seen_right)], [Collector(left), Collector(right)])

    assert (results["crashing"].status, results["seen-right"].status) == ("error", "pass")
    assert "KeyError: 1" in results["crashing"].trace
    assert results["crashing"].reason is not None
    assert "a bug in this check" in results["crashing"].reason.detail


def test_a_long_exception_is_kept_in_the_facts_alone(tmp_path: Path) -> None:
    def long(left: Left) -> Verdict:
        message = f"ValueError: begin {'x' * 100_000} end"
        return Verdict(message, [Finding(level="fail", subject="x", summary=message, why=message)])

    told = examined(tmp_path, [Check(long)], [Collector(left)])["long"]

    for text in (told.seen, told.findings[0].summary, told.findings[0].why):
        assert text == "ValueError: begin [... 100,005 characters ...]"


@pytest.mark.parametrize(("profile", "status"), [("quick", "not_run"), ("default", "not_run"), ("deep", "pass")])
def test_above_the_profile_nothing_is_asked(tmp_path: Path, profile: Any, status: str) -> None:
    """The profile of a check is the highest among all that it cannot do without."""
    collectors = [Collector(left, profile="deep"), Collector(right), Collector(total)]
    report = report_of(tmp_path, [Check(seen_total)], collectors, Settings(profile=profile))

    assert [result.status for result in report.results] == [status]
    assert Catalogue([Check(seen_total)], collectors).profile_of(Check(seen_total)) == "deep"


def test_what_a_check_can_do_without_does_not_raise_its_profile() -> None:
    def seen_both(right: Right, left: Left | Unavailable) -> Verdict:
        return Verdict(f"{right}, {left}")

    check = Check(seen_both)
    collectors = [Collector(left, profile="deep"), Collector(right)]

    assert Catalogue([check], collectors).profile_of(check) == "quick"


def test_exclusive_collectors_run_alone_after_the_others(tmp_path: Path) -> None:
    events = []

    async def measured() -> Left:
        events.append("left begins")
        await asyncio.sleep(0.02)
        events.append("left ends")
        return Left(1)

    async def slow() -> Right:
        events.append("right begins")
        await asyncio.sleep(0.01)
        events.append("right ends")
        return Right(2)

    collectors = [Collector(measured, exclusive=True), Collector(slow), Collector(total)]
    results = examined(tmp_path, [Check(seen_either), Check(seen_total)], collectors)

    assert results["seen-total"].seen == "the sum is 3"
    assert events == ["right begins", "right ends", "left begins", "left ends"]


def test_others_run_side_by_side(tmp_path: Path) -> None:
    both = asyncio.Event()

    async def first() -> Left:
        await asyncio.wait_for(both.wait(), 5)
        return Left(1)

    async def second() -> Right:
        both.set()
        return Right(2)

    assert examined(tmp_path, [Check(seen_either)], [Collector(first), Collector(second)])["seen-either"].seen == "1 and 2"


def test_a_missed_deadline_is_an_error(tmp_path: Path) -> None:
    async def endless() -> Left:
        await asyncio.sleep(60)
        return Left(1)

    result = examined(tmp_path, [Check(seen_either), Check(seen_total)], [
        Collector(endless, deadline_s=0.05), Collector(right), Collector(total)])["seen-total"]  # fmt: skip

    assert result.status == "error"
    assert result.reason is not None
    assert result.reason.detail == "no answer within 0.05 s"


@pytest.mark.parametrize(("gpus", "seconds"), [(None, 60), (0, 60), (8, 100)])
def test_the_budget_grows_with_the_gpus(tmp_path: Path, gpus: int | None, seconds: float) -> None:
    if gpus is not None:
        folder = tmp_path / "proc/driver/nvidia/gpus"
        folder.mkdir(parents=True)
        for index in range(gpus):
            (folder / f"0000:{index:02x}:00.0").mkdir()

    assert default_timeout_s(System(str(tmp_path)), Settings()) == seconds
    assert default_timeout_s(System(str(tmp_path)), Settings(loader="train.py:make_loader")) == seconds + 60


async def growing() -> AsyncIterator[Left | Unavailable]:
    """As a sweep: it knows more and more, and here it never ends."""
    yield Unavailable.absent("nothing yet")
    yield Left(1)
    yield Left(2)
    await asyncio.sleep(60)


async def growing_to_its_end() -> AsyncIterator[Left]:
    yield Left(1)
    yield Left(3)


async def growing_until_it_lacks_something() -> AsyncIterator[Left]:
    yield Left(4)
    raise Missing(Unavailable.timeout("was cut short"))


@pytest.mark.parametrize(("collect", "number"), [(growing, 2), (growing_to_its_end, 3), (growing_until_it_lacks_something, 4)])
def test_of_what_grows_the_last_is_kept(tmp_path: Path, collect: Any, number: int) -> None:
    report = report_of(tmp_path, [Check(seen_left)], [Collector(collect, deadline_s=0.1)])

    assert report.facts["left"] == {"number": number}


def test_of_what_grows_an_interrupted_run_has_what_was_known(tmp_path: Path) -> None:
    interruption = Interruption()

    def collect() -> Any:
        threading.Timer(0.2, interruption.end).start()
        return growing()

    known = asyncio.run(interrupted(collect, interruption, tmp_path))

    assert known == Left(2)


async def interrupted(collect: Any, interruption: Interruption, tmp_path: Path) -> object:
    collect.__annotations__ = {"return": AsyncIterator[Left]}
    catalogue = Catalogue([], [Collector(collect, deadline_s=30, exclusive=True)])
    collection = Collection(catalogue, Settings(), RecordedSystem(read("bare-metal")[0], tmp_path))
    await collection.gather([Left], interruption=interruption)
    return collection.known[Left]


def test_what_does_not_fit_into_the_budget_says_so(tmp_path: Path) -> None:
    """And an essential check among it is no go."""

    async def slow() -> Left:
        await asyncio.sleep(60)
        return Left(1)

    def seen_left(left: Left) -> Verdict:
        return Verdict(f"the left one is {left.number}")

    collectors = [Collector(slow, exclusive=True), Collector(right, exclusive=True)]
    report = report_of(tmp_path, [Check(seen_left), Check(seen_right, essential=True)], collectors, Settings(timeout_s=0.1))
    details = {result.id: result.reason.detail for result in report.results if result.reason}

    assert [result.status for result in report.results] == ["error", "error"]
    assert "did not fit into the 0.1 s of the run" in details["seen-right"]
    assert report.verdict.exit_code == 3


def test_a_cause_comes_before_what_it_explains(tmp_path: Path) -> None:
    def effect(left: Left) -> Verdict:
        return Verdict("", [Finding(level="warn", subject="b", summary="effect", explained_by="cause")])

    def cause(left: Left) -> Verdict:
        return Verdict("", [Finding(level="fail" if left.number else "note", subject="a", summary="cause")])

    def explained_by(number: int) -> list[str | None]:
        collectors = [Collector(given(Left(number)))]
        folder = tmp_path / str(number)
        return [f.explained_by for f in examined(folder, [Check(effect), Check(cause)], collectors)["effect"].findings]

    assert explained_by(1) == ["cause"]
    assert explained_by(0) == [None]  # a cause that does not fail explains nothing


@pytest.mark.parametrize(
    ("runtime", "kept"),
    [("docker", ["with docker", "anywhere"]), ("slurm", ["with slurm", "anywhere"]), ("bare", ["anywhere"])],
)
def test_fixes_are_kept_for_what_is_there(tmp_path: Path, runtime: str, kept: list[str]) -> None:
    def broken(left: Left) -> Verdict:
        fixes = (
            Fix("with docker", runtimes=("docker",)),
            Fix("with slurm", runtimes=("slurm", "apptainer")),
            Fix("anywhere"),
        )
        return Verdict("", [Finding(level="fail", subject="x", summary="broken", fixes=fixes)])

    result = examined(tmp_path, [Check(broken)], [Collector(left)], Settings(runtime=runtime))["broken"]

    assert [fix.title for fix in result.findings[0].fixes] == kept


def test_nothing_is_collected_that_nobody_needs(tmp_path: Path) -> None:
    def never() -> Left:
        raise AssertionError("nobody asked")

    report = report_of(tmp_path, [Check(seen_right)], [Collector(never), Collector(right)])

    assert "left" not in report.facts
    assert "left" not in report.unavailable
    assert {fact.__name__ for fact in HEAD} >= {"Host", "Runtime"}


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ((nvml(count=2), gpu_probe(count=1)), ("NVIDIA H100 80GB HBM3",) * 2),  # NVML's, also those that were not measured
        ((nvml(gpu(0, name=None)), None), ("unnamed GPU",)),  # such as one that is lost
        ((None, gpu_probe(probed_gpu(0, name="AMD Instinct MI300X", backend="hip"))), ("AMD Instinct MI300X",)),
        ((None, None), ()),
    ],
)
def test_the_head_names_gpus_of_any_maker(facts: Any, names: tuple[str, ...]) -> None:
    assert names_of_gpus(*facts) == names


def test_a_mounted_host_is_judged_by_its_files_only(tmp_path: Path) -> None:
    """What belongs to a process is not asked of a folder; it is not a pass either."""
    machine, _ = read("bare-metal")
    RecordedSystem(machine, tmp_path)  # lays the files
    (tmp_path / "proc" / "1").mkdir(exist_ok=True)
    (tmp_path / "proc" / "1" / "mountinfo").write_text(machine["files"]["/proc/self/mountinfo"])
    (tmp_path / "etc" / "hostname").write_text("gpu17\n")
    from dl_doctor import catalogue  # noqa: PLC0415

    report = examine(catalogue.load(plugins=False), Settings(), System(str(tmp_path)))
    statuses = {result.id: result.status for result in report.results}

    assert report.machine.hostname == "gpu17"
    told = {name: status for name, status in statuses.items() if status != "not_run"}
    assert told == {"runtime": "pass", "mps-ready": "skip"}  # its files are no Mac's


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_known_when_it_was_interrupted_is_in_the_report(tmp_path: Path, number: int, code: int) -> None:
    async def endless() -> Left:
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)
        return Left(1)

    collectors = [Collector(endless, exclusive=True), Collector(right), Collector(total)]
    report = report_of(tmp_path, [Check(seen_total), Check(seen_right)], collectors)

    assert {result.id: result.status for result in report.results} == {"seen-total": "not_run", "seen-right": "pass"}
    assert (report.verdict.exit_code, report.unavailable["left"].detail) == (code, "the run was interrupted")


def test_a_sweep_that_is_interrupted_at_once_says_what_is_known_and_not_that_it_was(tmp_path: Path) -> None:
    async def endless() -> Left:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
        return Left(1)

    report = report_of(
        tmp_path, [Check(seen_total)], [Collector(endless), Collector(right), Collector(total)], Settings(sweep=SweepOptions())
    )

    assert report.verdict.reason == "interrupted; so far: nothing was measured"


def saved_report(tmp_path: Path, facts: dict[str, Any]) -> Report:
    """A report of a container in which somebody has changed these facts."""
    plain = examine_recorded(read("docker-v1")[0], tmp_path, Settings(num_workers=8, batch_bytes=24 << 20))
    changed = {name: {**plain.facts[name], **fields} if isinstance(fields, dict) else fields for name, fields in facts.items()}
    return msgspec.structs.replace(plain, facts={**plain.facts, **changed})


@pytest.mark.parametrize(
    ("name", "fields", "check", "says"),
    [
        ("cpu_budget", {"limits": []}, "cpu-budget", "makes no sense: IndexError"),
        ("cpu_budget", {"limits": [{"kind": "node", "cpus": 8, "shared_by": 0, "scope": "node", "source": ""}]}, "cpu-budget",
         "makes no sense: ZeroDivisionError"),
        ("memory_budget", {"limits": []}, "memory-budget", "makes no sense: IndexError"),
        ("memory_budget", "much", "memory-budget", "is not what this version expects"),
        ("environment", ["RANK"], "runtime", "is not what this version expects"),
    ],
)  # fmt: skip
def test_a_saved_fact_that_makes_no_sense_is_lacking(tmp_path: Path, name: str, fields: Any, check: str, says: str) -> None:
    """Derived facts are worked out again, so it is the fact's own check that lacks it."""
    saved = saved_report(tmp_path, {name: fields})
    report = examine(load(plugins=False), Settings(), System(), saved)

    assert says in report.unavailable[name].detail
    assert {result.id: result.status for result in report.results}[check] in ("error", "pass")
    assert report.machine.hostname == saved.machine.hostname


BLOCKED = """
import asyncio, os, sys, threading
from dl_doctor.watching import Interruption

async def collect():
    print("blocked", flush=True)
    os.read(0, 1)

async def run():
    work = asyncio.ensure_future(collect())
    with Interruption().ends(work):
        await asyncio.wait({work})

asyncio.run(run())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("signals", "within_s"), [(1, 5), (2, 0.9)])
def test_a_collector_that_waits_in_the_kernel_does_not_keep_the_run_from_ending(
    number: signal.Signals, signals: int, within_s: float
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"blocked\n"
        begin_s = time.monotonic()
        for _ in range(signals):
            run.send_signal(number)
            time.sleep(0.2)
        code = run.wait(10)
        passed_s = time.monotonic() - begin_s

    assert code == -number
    assert passed_s < within_s


def test_after_a_run_signals_do_what_they_did_before(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    report_of(tmp_path, [Check(seen_right)], [Collector(right)])

    assert [signal.getsignal(number) for number in numbers] == before
