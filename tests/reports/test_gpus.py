"""What the probe of the GPUs measured: a line for each in the terminal, a table in tickets, nothing where it did not run."""

import math
import re
from typing import Any, get_args

import msgspec
import pytest

from dl_doctor.facts.gpu_yardsticks import Link, Reason, Yardstick
from dl_doctor.model import Report
from dl_doctor.redact import redact
from dl_doctor.reports import FORMATS, renderer
from dl_doctor.reports.gpus import HELD_BY, figures, gpus_of, span
from dl_doctor.reports.look import Look
from dl_doctor.reports.text import render
from tests.made import HOSTILE, gpu_facts, measured


def probed(plain: Report, facts: Any) -> Report:
    return msgspec.structs.replace(plain, facts={**plain.facts, **facts})


def lines_of(report: Report, **look: Any) -> list[str]:
    """The lines about GPUs, from the heading of the first model on."""
    lines = render(report, Look(**look)).splitlines()
    starts = [place for place, line in enumerate(lines) if re.match("[0-9]+ [×x] ", line)]
    return lines[starts[0] : lines.index("", starts[-1])] if starts else []


def test_a_line_for_each_gpu(plain: Report) -> None:
    """Read it as a user does: what it is measured against, the columns, and what holds one of them back."""
    heading, columns, *rows, caption = lines_of(measured(plain))

    assert heading == "8 × NVIDIA H100 80GB HBM3, achieved of what the datasheet says"
    assert columns.split() == ["bf16", "TFLOP/s", "memory", "TB/s", "host", "GB/s", "MHz", "°C", "W"]
    assert rows[0] == "gpu:0    742 of 989  75 %  2.91 of 3.35  55.1 of 63  1,755  61  690 of 700"
    assert [row.split()[0] for row in rows if "!" not in row] == [f"gpu:{index}" for index in range(8)]
    assert rows[4] == "       ! held back: heat, link x8 of x16"
    assert caption == "Host is the slower direction of the link; heat may not show in so short a time."


@pytest.mark.parametrize("width", [80, 100, 60, 40])
def test_lines_are_as_wide_as_the_terminal(plain: Report, width: int) -> None:
    """What does not fit is left out, from the right; what was achieved never."""
    lines = lines_of(measured(plain), width=width)

    assert [line for line in lines[1:] if len(line) > width] == []
    assert any("742 of 989" in line for line in lines)


def test_in_ascii(plain: Report) -> None:
    lines = lines_of(measured(plain), ascii=True)

    assert all(line.isascii() for line in lines)
    assert lines[0].startswith("8 x NVIDIA H100")
    assert "\\x" not in "".join(lines)


def test_all_details_tell_the_other_types(plain: Report) -> None:
    raised = {"fp8": "NotImplementedError: no kernel"}
    facts = gpu_facts(2, changed=1, launch_us=4.6, wait_us=11.2, overlap=0.93, sustained=0.97, raised=raised)
    full, normal = (" ".join(lines_of(probed(plain, facts), detail=detail)) for detail in ("full", "normal"))

    assert "tf32 391 of 495 TFLOP/s, fp32 51.4 of 66.9 TFLOP/s, host to device 55.4 of 63 GB/s" in " ".join(full.split())
    assert "launch 4.6 µs, launch and wait 11.2 µs" in " ".join(full.split())
    assert "fp8 on gpu:1  not measured: NotImplementedError: no kernel" in full
    assert "tf32" not in normal
    assert "fp8" not in normal


ALIKE = [{"gpu": f"gpu:{index}", "what": "bf16", "unit": "TFLOP/s", "achieved": 742.0, "possible": 989.0} for index in range(4)]


@pytest.mark.parametrize(
    ("facts", "rows"),
    [
        (gpu_facts(3), ["gpu:0", "gpu:1", "gpu:2"]),  # they differ in watts
        ({"gpu_probe": {"rates": ALIKE}}, ["gpu:0–3"]),
        ({"gpu_probe": {"rates": [ALIKE[0], ALIKE[1], ALIKE[3]]}}, ["gpu:0–1", "gpu:3"]),
        ({"gpu_probe": {"rates": [ALIKE[2], ALIKE[1]]}}, ["gpu:2", "gpu:1"]),  # as they come
        ({"gpu_probe": {"rates": [ALIKE[0], {**ALIKE[1], "achieved": 741.0}]}}, ["gpu:0", "gpu:1"]),
        ({"gpu_probe": {"rates": [{**ALIKE[0], "gpu": "a"}, {**ALIKE[0], "gpu": "b"}]}}, ["a", "b"]),  # numbers tell neighbours
        ({"gpu_probe": {"gpus": [{"gpu": f"gpu:{index}", "skipped": "busy"} for index in range(8)]}}, ["gpu:0–7"]),
        ({"gpu_probe": {"gpus": [{"gpu": f"gpu:{index}", "skipped": f"busy: {index}"} for index in "01"]}}, ["gpu:0", "gpu:1"]),
    ],
)
def test_only_what_is_equal_in_all_is_told_in_one_line(facts: Any, rows: list[str]) -> None:
    gpus = gpus_of(facts)

    assert gpus is not None
    assert [row.gpu for row in gpus.rows] == rows


def test_why_one_was_not_measured_is_told(plain: Report) -> None:
    report = probed(plain, gpu_facts(3, changed=1, skipped="busy: python (pid 4711) computes on it, and has done so for an hour"))
    lines = lines_of(report)

    assert "gpu:1  not measured: busy: python (pid 4711) computes on it, and has done so for" in lines
    assert [line.split()[0] for line in lines if line.startswith("gpu:")] == ["gpu:0", "gpu:1", "gpu:2"]
    assert "| gpu:1 |  |  |  |  |  |  | not measured: busy: python (pid 4711)" in renderer("markdown")(report, Look())
    assert "not measured: busy: python (pid 4711)" in renderer("html")(report, Look())


def test_one_that_does_not_begin_is_told_too(plain: Report) -> None:
    """It has no rates; one that raised for one type alone has the others."""
    facts = gpu_facts(2, changed=1, raised={"begin": "AcceleratorError: CUDA error: uncorrectable ECC error encountered"})
    bare = {**facts["gpu_probe"], "rates": [rate for rate in facts["gpu_probe"]["rates"] if rate["gpu"] == "gpu:0"]}
    lines = lines_of(probed(plain, {**facts, "gpu_probe": bare}))

    assert "gpu:1  not measured: AcceleratorError: CUDA error: uncorrectable ECC error" in lines
    assert "not measured" not in "".join(lines_of(probed(plain, facts)))


def test_two_models_have_a_table_each(plain: Report) -> None:
    """A V100 has no bf16, and no data sheet here."""
    facts = gpu_facts(1)
    facts["gpu_probe"]["gpus"] += [{"gpu": "gpu:1", "name": "Tesla V100-SXM2-16GB", "index": 1}]
    facts["gpu_probe"]["rates"] += [
        {"gpu": "gpu:1", "what": "fp16", "achieved": 101, "possible": 125, "unit": "TFLOP/s", "basis": "formula"},
        {"gpu": "gpu:1", "what": "copy", "achieved": 790, "possible": None, "unit": "GB/s", "basis": None},
    ]
    lines = lines_of(probed(plain, facts))
    text = "\n".join(lines)

    assert "1 × NVIDIA H100 80GB HBM3, achieved of what the datasheet says" in lines
    assert "1 × Tesla V100-SXM2-16GB, achieved of what the formula for its kind says: it is in no table" in lines
    assert "fp16 TFLOP/s" in text
    assert "gpu:1    101 of 125  81 %         0.79" in text
    assert "Tesla V100-SXM2-16GB" in renderer("markdown")(probed(plain, facts), Look())


def held(**limits: Any) -> tuple[str, ...]:
    facts = gpu_facts(1)
    facts["gpu_yardsticks"]["gpus"][0] |= limits
    gpus = gpus_of(facts)

    assert gpus is not None
    return gpus.rows[0].held


LINK = {"gen": 5, "width": 16, "card_gen": 5, "card_width": 16, "slot_gen": 5, "slot_width": 16}


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, ()),
        ({"brakes": [{"reason": "overheated"}, {"reason": "hot"}]}, ("heat",)),  # one word for both
        ({"brakes": [{"reason": "power brake"}]}, ("power brake",)),
        ({"brakes": [{"reason": "power limit"}]}, ()),  # at its default: normal under full load
        ({"brakes": [{"reason": "lowered limit"}], "power_limit_w": 400.0}, ("power limit 400 W, by default 700 W",)),
        ({"brakes": [{"reason": "a reason of a later version"}, 7, None]}, ()),
        ({"brakes": "much"}, ()),
        ({"link": {**LINK, "width": 4}}, ("link x4 of x16",)),
        ({"link": {**LINK, "gen": 1}}, ("link generation 1 of 5",)),
        ({"link": {**LINK, "width": 8, "slot_width": 8}}, ()),  # the slot has no more, and it is all in use
        ({"link": {**LINK, "width": 8, "slot_width": None}}, ("link x8 of x16",)),
        ({"link": {**LINK, "width": 4}, "no_link": "a virtual machine makes it up"}, ()),
        ({"link": {**LINK, "width": None, "gen": None}}, ()),
        ({"link": {}}, ()),
    ],
)
def test_what_held_it_back_is_a_word(limits: dict[str, Any], told: tuple[str, ...]) -> None:
    assert held(**limits) == told


def test_each_reason_has_its_word() -> None:
    """Reports read facts as plain values: what a fact is called there is looked at here."""
    assert {*HELD_BY, "lowered limit", "power limit"} == {*get_args(Reason)}
    assert {"gen", "width", "card_gen", "card_width", "slot_gen", "slot_width"} <= {*Link.__struct_fields__}
    assert {"gpu", "brakes", "link", "no_link", "power_limit_w", "power_limit_default_w"} <= {*Yardstick.__struct_fields__}


def test_more_than_possible_is_told_as_it_is(plain: Report) -> None:
    """GeForce boosts beyond its data sheet; a bar ends at its end."""
    rate = {**ALIKE[0], "achieved": 1039.0, "basis": "datasheet"}
    html = renderer("html")(probed(plain, {"gpu_probe": {"rates": [rate]}}), Look())

    assert "<b>105 %</b>" in html
    assert 'class="bar" width="100.0"' in html


@pytest.mark.parametrize(
    "fact", [None, [], {}, 7, {"rates": 3, "gpus": "x"}, {"rates": [{"gpu": "gpu:0"}], "gpus": [{"gpu": 1}]}]
)
@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_where_nothing_was_measured_nothing_is_told(plain: Report, fact: Any, format_: str) -> None:
    bare = renderer(format_)(plain, Look())

    assert renderer(format_)(probed(plain, {"gpu_probe": fact, "gpu_yardsticks": fact}), Look()) == bare


ODD: dict[str, Any] = {
    "texts": dict.fromkeys(("rates", "gpus", "length"), "x"),
    "lists": {"rates": [[[]], None], "gpus": [[[]], None]},
    "not finite": {"rates": [{**ALIKE[0], "achieved": math.nan}, {**ALIKE[1], "possible": math.inf}]},
    "too large": {"rates": [{**ALIKE[0], "achieved": 1e14, "possible": 1e-300}], "gpus": [{"gpu": "gpu:0", "launch_us": 1e308}]},
    "negative": {"rates": [{**ALIKE[0], "achieved": -1}, {**ALIKE[1], "possible": -1}], "gpus": [{"gpu": "-1", "skipped": "x"}]},
    "odd types": {
        "rates": [{**ALIKE[0], "gpu": {"a": 1}}, {**ALIKE[0], "what": None}, {**ALIKE[0], "unit": [1], "basis": {"b": 2}}],
        "gpus": [{"gpu": "gpu:0", "name": [], "loads": 3, "raised": 4, "nvml_index": "x", "skipped": {"a": 1}},
                 {"gpu": "gpu:1", "loads": [1, {"phase": "products", "sm_mhz": "fast", "reasons": 3}], "raised": {"fp8": None}}],
    },
    "many": {
        "rates": [{**ALIKE[0], "gpu": f"gpu:{index}", "what": f"type {index}"} for index in range(100_000)],
        "gpus": [{"gpu": f"gpu:{index}", "skipped": "x" * 9_000, "raised": {"y" * 9_000: "z" * 900}} for index in range(10_000)],
    },
    "names": {
        "rates": [{**ALIKE[0], "gpu": name, "what": name, "unit": name, "basis": name} for name in HOSTILE],
        "gpus": [{"gpu": name, "name": name, "skipped": name, "raised": {name: name}} for name in HOSTILE],
    },
}  # fmt: skip
"""What a stranger's report may hold for the probe."""


@pytest.mark.parametrize("format_", [format_ for format_ in FORMATS if format_ != "json"])
@pytest.mark.parametrize("odd", ODD)
def test_a_strangers_probe_does_no_harm(plain: Report, format_: str, odd: str) -> None:
    text = renderer(format_)(probed(plain, {"gpu_probe": ODD[odd], "gpu_yardsticks": ODD[odd]}), Look())

    assert not re.search(r"\bnan\b|\binf\b|e\+308", text)
    assert not set(text) & set("\x1b\x07\r\x00\u202e\u2066\ud800\u2028")
    assert len(text) < 300_000
    assert "<script>alert" not in text or format_ not in ("html", "markdown")


def test_a_ticket_has_a_table(plain: Report) -> None:
    text = renderer("markdown")(measured(plain), Look())

    assert (
        "| GPU | bf16 TFLOP/s | tf32 TFLOP/s | fp32 TFLOP/s | copy TB/s | host to device GB/s | device to host GB/s | Meanwhile |"
        in text
    )
    assert "| gpu:0 | 742 of 989 (75 %) | 391 of 495 (79 %) |" in text
    assert "| **heat, link x8 of x16**; 1,095 MHz, 91 °C, 431 of 700 W |" in text


def test_no_uuid_gets_out(plain: Report) -> None:
    """Those of the probe and of the states, also where NVML's own list is not there."""
    states = {"gpu_states": {"gpus": [{"index": 0, "uuid": "GPU-abcdef01-2222-3333-4444-555555555555", "serial": "x"}]}}
    report = redact(probed(plain, {**gpu_facts(8), **states}))
    text = renderer("json")(report, Look())

    assert "00000000-0000" not in text
    assert "GPU-nr001" in text
    assert "abcdef01" not in text


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        (["gpu:0"], "gpu:0"),
        (["gpu:0", "gpu:1", "gpu:2", "gpu:5"], "gpu:0–2, gpu:5"),
        (["a", "b"], "a, b"),
        (["gpu:1", "x", "gpu:2"], "gpu:1, x, gpu:2"),
    ],
)
def test_spans(gpus: list[str], told: str) -> None:
    assert span(gpus) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (742.3, "742"),
        (989.4, "989"),
        (2.912, "2.91"),
        (55.1, "55.1"),
        (1755.0, "1,760"),
        (0.0, "0"),
        (63.0, "63"),
        (1e12, "1e+12"),
    ],
)
def test_three_figures(value: float, told: str) -> None:
    assert figures(value) == told
