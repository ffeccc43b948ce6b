"""A sweep in the terminal: the table, the way of a sample with its rates, what to set; and nothing where nothing was measured."""

import math
import re
from typing import Any

import msgspec
import pytest

from dl_doctor.model import Outcome, Report
from dl_doctor.redact import redact
from dl_doctor.reports import FORMATS, renderer
from dl_doctor.reports.html import render as render_html
from dl_doctor.reports.look import Look
from dl_doctor.reports.text import render
from tests.made import HOSTILE, SWEEP, measured

TOLD = {
    **SWEEP,
    "why": "set num_workers=12", "bottleneck": "ipc", "evidence": "the main process is busy",
    "current": 4, "ranks": 2, "took_s": 41.2, "complete": True,
    "recommendation": {
        **SWEEP["recommendation"],
        "line": "DataLoader(..., num_workers=12)",
        "memory_bytes": 3 << 30,
        "shared_memory_bytes": 616 << 20,
        "descriptors": 82,
    },
}  # fmt: skip


def of_a_sweep(plain: Report, fact: Any = TOLD, **fields: Any) -> Report:
    """The report as `dl-doctor sweep` would have it."""
    whole = measured(plain)
    run = msgspec.structs.replace(whole.run, settings={"sweep": {"budget_s": 60}})
    verdict = Outcome("go", 0, "set num_workers=12")
    facts = {**plain.facts, "loader_sweep": fact}
    return msgspec.structs.replace(whole, run=run, facts=facts, results=(), verdict=verdict, **fields)


def test_the_report_of_a_sweep(plain: Report, golden: Any) -> None:
    """Read it whole: it is what a user sees."""
    text = render(of_a_sweep(plain), Look())

    assert text == golden("sweep.txt", text)


def test_eighty_columns_are_enough(plain: Report) -> None:
    assert [line for line in render(of_a_sweep(plain), Look()).splitlines() if len(line) > 80] == []


def test_eighty_columns_are_enough_for_all_of_them(plain: Report) -> None:
    points = [{**point, "first_epoch_s": 20_000, "bottleneck": "straggler", "disturbed": True} for point in SWEEP["points"]]
    lines = render(of_a_sweep(plain, {**TOLD, "points": points}), Look()).splitlines()

    assert [line for line in lines if len(line) > 80 or "…" in line] == []


def test_a_check_shows_it_too(plain: Report) -> None:
    text = render(msgspec.structs.replace(of_a_sweep(plain), run=plain.run, results=plain.results), Look())

    assert "samples/s" in text
    assert "Conclusion  set num_workers=12" in text
    assert "✗ shm-size" in text


def test_what_is_not_known_takes_no_column(plain: Report) -> None:
    bare = {"points": [{"num_workers": 2, "samples_per_s": 10.5}], "recommendation": None}
    text = render(of_a_sweep(plain, bare), Look())

    assert "GPU fed" not in text
    assert "10.5" in text


@pytest.mark.parametrize(
    ("fields", "there", "missing"),
    [
        ({"disturbed": True}, "~798", "first one"),
        ({"disturbed": "yes"}, "798", "~"),
        ({"first_epoch_s": 2400}, "first one", "~"),
        ({"first_epoch_s": 2400}, "40 min", "~"),
        ({"first_epoch_s": 1700}, "26.7 min", "first one"),  # 6 % more, and the interval is 9 % wide
        ({"first_epoch_s": 2400, "epoch_s": None}, "798", "first one"),
    ],
)
@pytest.mark.parametrize("form", [render, render_html])
def test_what_is_worth_a_mark_or_a_column(plain: Report, form: Any, fields: dict[str, Any], there: str, missing: str) -> None:
    """Of the point at 8 workers; the page says `First epoch`."""
    points = [{**point, **(fields if point["num_workers"] == 8 else {})} for point in SWEEP["points"]]
    shown = form(of_a_sweep(plain, {**TOLD, "points": points}), Look())
    shown = " ".join(shown.split()).replace("First epoch", "first one")

    assert there in shown
    assert missing not in shown
    assert ("others used more of the CPUs" in shown) == (there == "~798")


@pytest.mark.parametrize("fact", [None, [], {}, {"points": 3}, {"points": [{"num_workers": "x"}], "recommendation": [1]}])
def test_where_nothing_was_measured(plain: Report, fact: Any) -> None:
    assert "samples/s" not in render(of_a_sweep(plain, fact), Look())


@pytest.mark.parametrize("name", HOSTILE)
def test_names_do_no_harm(plain: Report, name: str) -> None:
    hostile = {
        **TOLD, "bottleneck": name, "evidence": name,
        "points": [{**point, "bottleneck": name} for point in SWEEP["points"]],
        "recommendation": {**TOLD["recommendation"], "reason": name, "gain": name, "line": name, "start_method": name},
    }  # fmt: skip
    text = render(of_a_sweep(plain, hostile), Look())

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\r" not in text


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_the_table_and_what_to_set_are_in_every_page(plain: Report, format_: str) -> None:
    text = renderer(format_)(of_a_sweep(plain), Look())

    for words in ("1,040", "20.5 min", "main process", "16 workers bring 2", "DataLoader(..., num_workers=12)"):
        assert words in text, words


def test_a_ticket_holds_what_the_terminal_shows(plain: Report) -> None:
    text = renderer("markdown")(of_a_sweep(plain), Look())

    assert text.startswith("**✓ dl-doctor")
    assert "| → | 12 | 1,020 | 940 – 1,090 | 53.7 % |  | 20.9 min | 2.1 s | ipc |" in text
    assert "| now | 4 |" in text
    assert "- In the way: ipc: the main process is busy." in text
    assert "→ main process 2,650 →" in text
    assert "```\nDataLoader(..., num_workers=12)\n```" in text


@pytest.mark.parametrize("format_", ["github", "text"])
def test_the_last_line_is_the_conclusion(plain: Report, format_: str) -> None:
    assert "set num_workers=12 (exit 0)" in renderer(format_)(of_a_sweep(plain), Look()).splitlines()[-1]


ODD: dict[str, dict[str, Any]] = {
    "words": dict.fromkeys(TOLD, "x"),
    "lists": {name: [[[]]] for name in TOLD},
    "not finite": {**dict.fromkeys(TOLD, math.nan), "points": [{"num_workers": math.inf, "samples_per_s": math.nan}]},
    "too large": {
        **dict.fromkeys(TOLD, 1e308),
        "points": [{"num_workers": 1, "samples_per_s": 1e308}, {"num_workers": 10**400, "samples_per_s": 1}],
        "recommendation": {"num_workers": 1e308, "memory_bytes": 10**400, "line": 1e308},
    },
    "negative": {**TOLD, "points": [{"num_workers": -1, "samples_per_s": -5}, {"num_workers": 2, "samples_per_s": 0}]},
    "many": {**TOLD, "points": [{"num_workers": n, "samples_per_s": n, "bottleneck": "x" * 1000} for n in range(100_000)]},
    "nested": {**TOLD, "recommendation": {name: {"value": {"value": []}, "basis": {}} for name in TOLD["recommendation"]}},
}
"""What a stranger's report may hold for a sweep."""


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("odd", ODD)
def test_a_strangers_sweep_does_no_harm(plain: Report, format_: str, odd: str) -> None:
    if format_ == "json":
        return
    text = renderer(format_)(of_a_sweep(plain, ODD[odd]), Look())

    assert not re.search(r"\bnan\b|\binf\b|e\+308", text)
    assert len(text) < 300_000


def test_no_name_gets_out_with_it(plain: Report) -> None:
    """What the loader raised, or a step is called, may hold a home."""
    named = msgspec.structs.replace(plain, identity=msgspec.structs.replace(plain.identity, users=("gertrude",)))
    fact = {**TOLD, "evidence": "it reads /home/gertrude/data", "why": "the loader broke: /home/gertrude/x"}
    text = renderer("markdown")(redact(of_a_sweep(named, fact)), Look())

    assert "it reads /home/user-1/data" in text
    assert "gertrude" not in text
