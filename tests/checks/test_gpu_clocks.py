from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_clocks import CHECK
from dl_doctor.checks.gpu.gpu_pcie_link import CHECK as LINK
from dl_doctor.model import Ended
from tests.gpus import node


@pytest.mark.parametrize(
    ("load", "levels"),
    [
        ({}, []),  # at its own power limit, as most are under full load
        ({"reasons": {}, "counted": {}}, []),
        ({"reasons": {"idle": 1.0}}, []),  # between phases
        ({"reasons": {"hw_thermal": 0.125}}, []),  # one look of eight: it flickers
        ({"reasons": {"hw_thermal": 0.25}}, ["fail"]),
        ({"counted": {"hw_thermal": 0.12}}, ["fail"]),  # between two looks, by the counter
        ({"counted": {"hw_thermal": 0.04}}, []),
        ({"reasons": {"sw_thermal": 0.5}}, ["warn"]),
        ({"counted": {"thermal": 0.5}}, ["warn"]),  # an old driver does not say whose slowdown
        ({"reasons": {"power_brake": 1.0, "hw_slowdown": 1.0}}, ["fail"]),  # one cause, two bits
        ({"reasons": {"hw_slowdown": 1.0}}, ["fail"]),
        ({"reasons": {"hw_thermal": 0.5, "power_brake": 0.5}}, ["fail", "fail"]),
        ({"reasons": {"applications_clocks": 1.0}, "sm_mhz": 1200.0}, ["warn"]),
        ({"reasons": {"display_clocks": 1.0}, "sm_mhz": 1200.0}, ["warn"]),
        ({"reasons": {"applications_clocks": 1.0}, "sm_mhz": 1395.0}, []),  # set, to almost the highest
        ({"reasons": {"sync_boost": 1.0}}, []),  # they go together, as an admin wants
    ],
)
def test_what_slows_it(load: dict[str, Any], levels: list[str]) -> None:
    verdict = node("A100").under(**load).judge(CHECK)

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("name", "limit", "load", "levels"),
    [
        ("A100", 250.0, {"reasons": {"power_cap": 1.0}}, ["note"]),
        ("A100", 396.0, {"reasons": {"power_cap": 1.0}}, []),  # drivers round
        ("A100", 250.0, {"reasons": {}, "counted": {}}, []),  # it is not what sets the clock
        ("A100", 500.0, {"reasons": {"power_cap": 1.0}}, []),
        ("4090 Laptop", 40.0, {"reasons": {"power_cap": 1.0}}, []),  # it moves all the time
    ],
)
def test_a_power_limit_is_the_admins_choice(name: str, limit: float, load: dict[str, Any], levels: list[str]) -> None:
    facts = node(name).told(power_limit_w=limit)
    for phase in ("products", "fp32", "copy"):
        facts.under(phase, **load)

    assert [finding.level for finding in facts.judge(CHECK).findings] == levels


@pytest.mark.parametrize(
    ("reason", "level"), [("power_brake", "warn"), ("hw_slowdown", "warn"), ("hw_thermal", "fail"), ("sw_thermal", "warn")]
)
def test_a_laptop_on_battery(reason: str, level: str) -> None:
    """It brakes its GPU on purpose; heat is heat."""
    facts = node("4090 Laptop").under(sm_mhz=600.0, reasons={reason: 1.0}, counted={})
    (finding,) = facts.judge(CHECK).findings

    assert finding.level == level
    assert ("on battery" in finding.why) == (reason in ("power_brake", "hw_slowdown"))


@pytest.mark.parametrize(
    ("phase", "drawn", "levels"),
    [
        ("sustained", 240.0, ["warn"]),
        ("sustained", 380.0, []),
        ("products", 240.0, []),  # the mean of the last second, most of which it was idle
    ],
)
def test_capped_far_below_the_limit(phase: str, drawn: float, levels: list[str]) -> None:
    facts = node("A100").under(phase, power_w=drawn, sm_mhz=900.0, reasons={"power_cap": 1.0}, counted={})

    assert [finding.level for finding in facts.judge(CHECK).findings] == levels


def test_the_link_is_another_matter() -> None:
    """While copies run the GPU is idle, and says so."""
    facts = node("A100").under("host copies", reasons={"idle": 1.0, "sw_thermal": 1.0}, sm_mhz=210.0)

    assert facts.judge(CHECK).findings == []


def test_a_pass_tells_clock_watts_and_heat() -> None:
    one = "gpu:0: 1,365 of 1,410 MHz, up to 388 W, up to 58 °C, power limit"
    many = "8 GPUs: 1,290 to 1,365 of 1,410 MHz, up to 388 W, up to 71 °C, power limit on 7"

    assert node("A100").judge(CHECK).seen == one
    assert node("A100", 8).under(index=3, sm_mhz=1290.0, temperature_c=71.0, reasons={}, counted={}).judge(CHECK).seen == many


def test_the_finding_tells_what_to_do() -> None:
    facts = node("H100").told(power_limit_w=310.0).under(sm_mhz=990.0, reasons={"power_cap": 1.0})
    (finding,) = facts.judge(CHECK).findings

    assert finding.summary == "gpu:0: its power limit is 310 W, by default 700 W, and sets the clock: 990 of 1,980 MHz"
    assert (finding.owner, finding.fixes[0].risk) == ("admin", "needs-root")
    assert finding.fixes[0].commands == ("nvidia-smi -i 0000:01:00.0 -pl 700",)


def test_looks_that_told_nothing_are_no_pass() -> None:
    """As in virtual machines whose driver keeps it to itself."""
    assert node("A100").under(sm_mhz=None, reasons={}, counted={}).judge(CHECK).status == "skip"


def test_a_gpu_that_tells_nothing_beside_others_is_named() -> None:
    facts = node("A100", 2)
    facts.loads[1] = {}

    assert facts.judge(CHECK).seen.endswith("power limit; gpu:1: NVML told nothing")
    assert facts.judge(LINK).seen.endswith("at best 16 of 4; gpu:1: not judged: NVML told nothing of it while copies ran")


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"watch_error": "LIBRARY_NOT_FOUND"}, "skip", "LIBRARY_NOT_FOUND"),
        ({"watched": Ended(how="killed", signal="SIGSEGV")}, "error", "SIGSEGV"),
        ({"watched": Ended(how="hung", step="nvmlDeviceGetPowerUsage 0")}, "error", "nvmlDeviceGetPowerUsage 0"),
        ({}, "skip", "NVML told nothing"),
    ],
)
def test_nothing_seen_is_no_pass(fields: dict[str, Any], status: str, words: str) -> None:
    verdict = node("H100").unwatched().whole(**fields).judge(CHECK)

    assert verdict.status == status
    assert verdict.reason is not None
    assert words in verdict.reason.detail
