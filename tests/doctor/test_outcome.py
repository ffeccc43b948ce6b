"""One table decides the exit code; the order when several apply is: failure, could not tell, go."""

from typing import Any

import msgspec
import pytest

from dl_doctor.model import NO_GPU, Finding, Owner, Reason, Result, Status
from dl_doctor.outcome import of_a_run_without_report, outcome_of, outcome_of_a_sweep
from dl_doctor.settings import Settings


def result(id_: str, status: Status, *findings: Finding) -> Result:
    return Result(id=id_, area="a", scope="job", title="", status=status, seen="", reason=None, findings=findings, duration_s=0.0)


def failed(owner: Owner, **fields: Any) -> Finding:
    return Finding(level="fail", subject="x", summary="it is broken", owner=owner, **fields)


@pytest.mark.parametrize(
    ("statuses", "settings", "code", "status"),
    [
        ({"plain": "pass", "vital": "pass"}, {}, 0, "go"),
        ({"plain": "warn", "vital": "pass"}, {}, 0, "go"),
        ({"plain": "warn"}, {"fail_on": "warn"}, 1, "stop"),
        ({"plain": "fail", "vital": "error"}, {}, 1, "stop"),
        ({"plain": "fail"}, {"fail_on": "never"}, 0, "stop"),
        ({"plain": "error", "vital": "pass"}, {}, 0, "go"),  # told in a line, and no reason to stop
        ({"plain": "pass", "vital": "error"}, {}, 3, "unknown"),
        ({"plain": "pass", "vital": "error"}, {"fail_on": "never"}, 0, "unknown"),
        ({"plain": "pass", "vital": "skip"}, {}, 0, "go"),
        ({"plain": "pass", "vital": "skip"}, {"require": ("vital",)}, 3, "unknown"),
        ({"plain": "not_run", "vital": "pass"}, {"require": ("plain",)}, 3, "unknown"),
        ({"plain": "error", "vital": "pass"}, {"require": ("plain",)}, 3, "unknown"),
        ({"plain": "pass"}, {"require": ("vital",), "select": ("plain",)}, 3, "unknown"),  # required, and left out
        ({"plain": "skip"}, {"select": ("plain",)}, 3, "unknown"),  # all skipped reads as healthy elsewhere
        ({"plain": "not_run"}, {}, 3, "unknown"),
    ],
)
def test_exit_codes(statuses: dict[str, Status], settings: dict[str, Any], code: int, status: str) -> None:
    results = [result(id_, value) for id_, value in statuses.items()]

    outcome = outcome_of(results, essential={"vital"}, settings=Settings(**settings))

    assert (outcome.exit_code, outcome.status) == (code, status)


@pytest.mark.parametrize(("signal", "code"), [(2, 130), (15, 143)])
def test_an_interrupted_run_says_so_whatever_was_found(signal: int, code: int) -> None:
    outcome = outcome_of([result("a", "fail")], essential=set(), settings=Settings(fail_on="never"), interrupted_by=signal)

    assert (outcome.status, outcome.exit_code) == ("unknown", code)


@pytest.mark.parametrize(
    ("conclusion", "statuses", "signal", "code"),
    [
        ("change", {"worker-count": "warn"}, None, 0),
        ("keep", {}, None, 0),
        ("broke", {}, None, 1),
        ("too_noisy", {}, None, 3),
        ("nothing", {}, None, 3),
        (None, {"dataset-loads": "error"}, None, 3),  # there is nothing of that name
        (None, {"dataset-loads": "fail"}, None, 1),
        ("keep", {}, 2, 130),
    ],
)
def test_exit_codes_of_a_sweep(conclusion: str | None, statuses: dict[str, Status], signal: int | None, code: int) -> None:
    results = [result(id_, value) for id_, value in statuses.items()]

    assert outcome_of_a_sweep(results, conclusion, "why", interrupted_by=signal).exit_code == code


def test_the_reason_names_the_first_and_counts_the_others() -> None:
    outcome = outcome_of([result(f"c{n}", "fail") for n in range(6)], essential=set(), settings=Settings())

    assert outcome.reason == "c0 and c1 and c2 and 3 more said no"


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ([], 0),
        ([("gpu", "skip")], 0),
        ([("gpu", "not_run")], 0),  # of a higher profile
        ([("gpu", "error")], 3),
        ([("shm", "skip")], 3),  # something else was asked for, too
    ],
)
def test_checks_of_gpus_alone_are_content_where_there_are_none(others: list[tuple[str, Status]], code: int) -> None:
    without = msgspec.structs.replace(result("gpu-visible", "skip"), area="gpu", reason=Reason("absent", NO_GPU))
    results = [without, *(msgspec.structs.replace(result("c", status), area=area) for area, status in others)]
    outcome = outcome_of(results, essential={"gpu-visible"}, settings=Settings(select=("gpu",)))

    assert outcome.exit_code == code
    assert code or outcome.reason == NO_GPU


def test_a_gpu_that_is_required_and_not_there_is_not_content() -> None:
    without = msgspec.structs.replace(result("gpu-order", "skip"), area="gpu", reason=Reason("absent", NO_GPU))

    assert outcome_of([without], essential=set(), settings=Settings(require=("gpu-order",))).exit_code == 3


@pytest.mark.parametrize(
    ("results", "gate", "prolog", "nagios"),
    [
        ([result("a", "pass")], 0, 0, 0),
        ([result("a", "warn")], 0, 0, 1),
        ([result("a", "fail", failed("you"))], 1, 0, 2),  # the job's trouble drains no node
        ([result("a", "fail", failed("admin"))], 1, 1, 2),
        ([result("a", "fail", failed("vendor"))], 1, 1, 2),
        ([result("a", "fail", failed("you")), result("b", "fail", failed("admin"))], 1, 1, 2),
        ([result("a", "fail", failed("you")), result("b", "pass", failed("admin", accepted="known"))], 1, 0, 2),
        ([result("vital", "error")], 3, 0, 3),
        ([result("a", "skip")], 3, 0, 3),  # nothing was judged
    ],
)
def test_codes_for_whoever_calls(results: list[Result], gate: int, prolog: int, nagios: int) -> None:
    def code(exit_codes: Any) -> int:
        return outcome_of(results, essential={"vital"}, settings=Settings(exit_codes=exit_codes)).exit_code

    assert [code(mode) for mode in ("gate", "prolog", "nagios", None)] == [gate, prolog, nagios, gate]


@pytest.mark.parametrize("code", [2, 70, 130, 143])
def test_our_own_troubles_drain_no_node(code: int) -> None:
    assert [of_a_run_without_report(code, mode) for mode in (None, "gate", "prolog", "nagios")] == [code, code, 0, 3]
