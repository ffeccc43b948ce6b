"""The terminal report: worst first, the verdict in the last line, harmless whatever names it shows."""

import builtins
from typing import Any

import msgspec
import pytest

from dl_doctor.model import Finding, Fix, Python, Quantity, Reason, Report, Tool
from dl_doctor.reports.look import Look, amount, printable
from dl_doctor.reports.text import render
from tests.made import result, with_results


def finding(level: Any = "fail", **fields: Any) -> Finding:
    return Finding(level=level, subject="x", summary=fields.pop("summary", "it is broken"), **fields)


def test_a_notebook_gets_the_same_text(plain: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rich finds itself in one it shows what it is asked for, and gives nothing."""
    monkeypatch.setattr(builtins, "get_ipython", type("ZMQInteractiveShell", (), {}), raising=False)

    assert render(plain, Look()).startswith("dl-doctor")


def test_eighty_columns_are_enough_but_for_commands(plain: Report) -> None:
    lines = render(plain, Look(detail="full")).splitlines()
    commands = {f"           {command}" for r in plain.results for f in r.findings for fix in f.fixes for command in fix.commands}

    assert [line for line in lines if len(line) > 80 and line not in commands] == []
    assert commands <= set(lines)


def test_ascii(plain: Report) -> None:
    text = render(plain, Look(ascii=True, detail="full"))

    assert text.isascii()
    assert "X shm-size" in text
    assert "\\u" not in text


def test_color_changes_nothing_but_color(plain: Report) -> None:
    colored = render(plain, Look(color=True))
    import re  # noqa: PLC0415

    bare = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()]
    assert "\x1b[" in colored
    assert bare == render(plain, Look()).splitlines()


def test_worst_first(plain: Report) -> None:
    report = with_results(
        plain,
        result("a-warning", "warn", finding("warn")),
        result("an-error", "error", reason=Reason("failed", "the file is damaged", "mounts")),
        result("a-failure", "fail", finding()),
        result("another-error", "error", reason=Reason("failed", "the file is damaged", "mounts")),
        result("a-pass", "pass", finding("note", summary="worth knowing")),
    )
    text = render(report, Look())
    places = [text.index(word) for word in ("✗ a-failure", "? an-error, another-error", "! a-warning", "do not start here")]

    assert places == sorted(places)
    assert " ".join(text.split()).endswith("(exit 1)")
    assert ["worth knowing" in render(report, Look(detail=detail)) for detail in ("quiet", "normal", "full")] == [
        False,
        True,
        True,
    ]


def test_a_consequence_comes_below_its_cause(plain: Report) -> None:
    report = with_results(
        plain,
        result("an-effect", "fail", finding(summary="first in order", explained_by="the-cause")),
        result("the-cause", "fail", finding(summary="the root"), finding(summary="and more"), finding("warn", summary="less")),
    )
    text = render(report, Look())

    assert text.index("the root") < text.index("first in order")
    assert text.count("first in order") == 1
    assert "the-cause explains it" in text


def test_a_chain_of_causes_hangs_below_the_first(plain: Report) -> None:
    chain = {"a-last": "b-middle", "b-middle": "c-root", "c-root": None}
    results = (result(name, "fail", finding(summary=f"found by {name}", explained_by=cause)) for name, cause in chain.items())
    text = render(with_results(plain, *results), Look())

    assert text.index("found by c-root") < min(text.index("found by a-last"), text.index("found by b-middle"))


@pytest.mark.parametrize("causes", [("none", "none"), ("two", "one"), ("two", "three"), ("one", "three")])
def test_no_failure_is_hidden_behind_a_cause_that_is_not_shown(plain: Report, causes: tuple[str, str]) -> None:
    """Nobody, each other, a chain, itself, or one that is accepted: a report may say anything."""
    one, two = (finding(summary=f"finding {number}", explained_by=cause) for number, cause in enumerate(causes))
    report = with_results(
        plain, result("one", "fail", one), result("two", "fail", two), result("three", "pass", finding(accepted="for now"))
    )
    text = render(report, Look())

    assert [text.count(f"finding {number}") for number in (0, 1)] == [1, 1]


def test_what_needs_more_is_told_in_the_last_line(plain: Report) -> None:
    needs = Reason("not_asked", "needs --dataset", "dataset_trial")
    report = with_results(plain, result("a", "not_run", reason=needs), result("b", "not_run", reason=needs), result("c", "pass"))

    assert "2 need --dataset" in " ".join(render(report, Look()).splitlines()[-2:])


def test_one_check_needs(plain: Report) -> None:
    needs = Reason("not_asked", "needs --batch-size", "batches")
    others = [result(name, "not_run", reason=Reason("not_asked", f"the run was interrupted at {name}")) for name in "bc"]
    last = " ".join(render(with_results(plain, result("a", "not_run", reason=needs), *others), Look()).splitlines()[-2:])

    assert "1 needs --batch-size, 2 not run" in last


def test_with_all_details_the_seconds_and_the_traceback_are_told(plain: Report) -> None:
    broken = msgspec.structs.replace(result("a", "fail", finding()), trace='  File "/job/train.py", line 2, in make')
    report = with_results(plain, broken)
    report = msgspec.structs.replace(
        report, run=msgspec.structs.replace(report.run, collected_s={"quick": 0.001, "loader": 1.234})
    )
    full, normal = render(report, Look(detail="full")), render(report, Look())

    assert 'File "/job/train.py", line 2, in make' in full
    assert "facts took" in full
    assert "loader 1.23 s" in full
    assert "quick" not in full.partition("facts took")[2].splitlines()[0]
    assert "train.py" not in normal


@pytest.mark.parametrize("detail", ["quiet", "normal", "full"])
def test_names_do_no_harm(plain: Report, detail: Any) -> None:
    """Escape sequences, control characters, directions, Rich's markup, newlines: from names of files, hosts and plugins."""
    evil = "\x1b[2J\x1b]0;owned\x07[red]\u202e\r\n\x9b31m\ud800\u2028"
    nasty = finding(
        summary=evil, why=evil, measured=Quantity(1, "bytes", evil), fixes=(Fix(evil, (evil,), note=evil),), accepted=None
    )
    report = with_results(
        plain,
        result("a", "fail", nasty),
        result("b", "error", reason=Reason("failed", evil)),
        msgspec.structs.replace(result("c", "pass"), area=evil, seen=evil),
        result(evil, "warn", finding("warn", owner=evil, measured=Quantity(1, evil, ""), expected=Quantity(2, evil, ""))),
        result(evil, "fail", finding(fixes=(Fix("x", risk=evil),))),
        msgspec.structs.replace(result("d", "error", reason=Reason("failed", "a bug")), trace=f"one\n{evil}"),
    )
    report = msgspec.structs.replace(
        report, tool=Tool(evil, evil), run=msgspec.structs.replace(report.run, python=Python(evil, evil))
    )
    report = msgspec.structs.replace(report, verdict=msgspec.structs.replace(report.verdict, status="unknown", reason=evil))
    report = msgspec.structs.replace(report, machine=msgspec.structs.replace(report.machine, hostname=evil, os=evil))
    text = render(report, Look(detail=detail))

    assert not set(text) & set("\x1b\x07\r\x9b\u202e\ud800\u2028")
    assert "[red]" in text


@pytest.mark.parametrize(
    ("quantity", "words"),
    [
        (Quantity(64 << 20, "bytes", ""), "64 MiB"),
        (Quantity(1, "CPUs", ""), "1 CPU"),
        (Quantity(0.5, "CPUs", ""), "0.5 CPUs"),
        (Quantity(3, "workers", ""), "3 workers"),
        (Quantity(1, "batches", ""), "1 batch"),
        (Quantity(1, "s", ""), "1 s"),
        (Quantity(1024, "descriptors", ""), "1024 descriptors"),
    ],
)
def test_amounts(quantity: Quantity, words: str) -> None:
    assert amount(quantity) == words


@pytest.mark.parametrize(("text", "shown"), [("a\tb\nc", "a b c"), ("é✓", "é✓"), ("\x1b", "\\x1b"), ("\u202e", "\\u202e")])
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
