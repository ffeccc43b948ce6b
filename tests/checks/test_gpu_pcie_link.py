from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_pcie_link import CHECK
from tests.facts import runtime
from tests.gpus import node


@pytest.mark.parametrize(
    ("states", "link", "levels"),
    [
        ({}, {}, []),
        ({}, {"link_width": 4}, ["fail"]),
        ({}, {"link_width": 8}, ["fail"]),
        ({"slot_width_max": 8}, {"link_width": 8}, ["note"]),  # the machine is built so
        ({"slot_width_max": 8}, {"link_width": 4}, ["fail"]),
        ({"slot_width_max": None}, {"link_width": 8}, ["warn"]),  # the slot may have no more
        ({"link_width_max": 8, "slot_width_max": 8}, {"link_width": 8}, []),  # built with 8
        ({"link_width_max": None}, {"link_width": 8}, ["fail"]),  # what card and slot can is known
        ({"link_width_max": None, "slot_width_max": None}, {"link_width": 8}, []),
        ({}, {"link_width": 0, "link_gen": 0}, []),  # no answer
        ({}, {"link_gen": 1}, ["warn"]),
        ({}, {"link_gen": 3}, ["warn"]),
        ({"slot_gen_max": 3}, {"link_gen": 3}, []),  # an older machine
        ({"slot_gen_max": 3}, {"link_gen": None}, []),
        ({}, {"link_width": 4, "link_gen": 1}, ["fail", "warn"]),
        ({}, {"replays": 80}, []),
        ({}, {"replays": 4000}, ["warn"]),
        ({}, {"replays": None}, []),
    ],
)
def test_lanes_and_generation(states: dict[str, Any], link: dict[str, Any], levels: list[str]) -> None:
    verdict = node("A100").told(**states).under("host copies", **link).judge(CHECK)

    assert [finding.level for finding in verdict.findings] == levels


def test_a_link_at_rest_is_not_judged() -> None:
    """It wakes up when copies run: what was seen while the GPU computed does not count."""
    verdict = node("A100").under("products", link_gen=1, link_width=1).judge(CHECK)

    assert (verdict.status, verdict.seen) == ("pass", "gpu:0: 16 lanes of generation 4 while copying, at best 16 of 4")


@pytest.mark.parametrize(
    ("name", "states", "gpu", "words"),
    [
        ("A100", {"virtualization": "passthrough"}, {}, "virtual machine"),
        ("A100", {"virtualization": "vgpu"}, {}, "virtual machine"),
        ("GH200", {}, {}, "NVLink-C2C"),
        ("A100", {}, {"integrated": True}, "shares its memory with the CPU"),
        ("A100", {}, {"nvml_index": None}, "NVML does not tell of it"),
        ("MI300X", None, {}, "NVML does not tell of it"),
    ],
)
def test_where_it_says_nothing(name: str, states: dict[str, Any] | None, gpu: dict[str, Any], words: str) -> None:
    facts = node(name).seen(**gpu)
    if states is not None:
        facts.told(**states).under("host copies", link_width=4, link_gen=1)
    verdict = facts.judge(CHECK)

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert words in verdict.reason.detail


@pytest.mark.parametrize("fields", [{"view": "virtual machine"}, {"sandbox": "wsl"}, {"sandbox": "gvisor"}])
def test_nor_where_the_machine_is_made_up(fields: dict[str, Any]) -> None:
    verdict = node("A100").under("host copies", link_width=1).judge(CHECK, runtime=runtime("bare", **fields))

    assert verdict.status == "skip"


def test_one_of_four() -> None:
    verdict = node("H100", 4).under("host copies", index=2, link_width=4).judge(CHECK)
    (finding,) = verdict.findings

    assert (finding.level, finding.subject, finding.owner) == ("fail", "gpu:2", "admin")
    assert finding.summary == "gpu:2: the link has 4 lanes, card and slot have 16"
    assert verdict.seen == (
        "gpu:0, gpu:1, gpu:3: 16 lanes of generation 5 while copying, at best 16 of 5; "
        "gpu:2: 4 lanes of generation 5 while copying, at best 16 of 5"
    )
    assert finding.why == "Copies to and from it take 4 times as long."
    assert any("lspci -vv -s 0000:03:00.0" in command for fix in finding.fixes for command in fix.commands)
