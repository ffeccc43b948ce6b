"""The look at NVML while something runs: the real probe and nvidia-ml-py, and an NVML of our own."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts.gpu_load import Load, Phase, loads_of
from dl_doctor.facts.gpu_probe import looks_at
from dl_doctor.model import Ended
from dl_doctor.probes import gpu_watch
from dl_doctor.probing import Probed, Probes
from dl_doctor.system import System
from tests.fakes import Fakes

FUNCTION_NOT_FOUND, NOT_SUPPORTED = "FUNCTION_NOT_FOUND", 3


@pytest.fixture
def machine(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with the fake NVML, and GPUs as these lines describe them."""

    def described(*lines: str, old: bool = False) -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib", old=old)))
        (tmp_path / "gpus").write_text("".join(f"{line}\n" for line in lines))
        monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus"))

    return described


def watched(most_s: float = 0.3, *, pid: int | None = None, deadline_s: float = 25, only: int | None = None) -> Probed:
    """What it tells of so much time; the process that it waits for is ours, unless a test says otherwise."""

    async def run() -> Probed:
        system = System()
        probes = Probes(system, system.clock_s() + 30)
        try:
            given = {"pid": pid or os.getpid(), "most_s": most_s, "only": only}
            return await probes.run("gpu_watch", given, deadline_s=deadline_s)
        finally:
            probes.close()
            probes.see_off()

    return asyncio.run(run())


def load_of(probed: Probed, pci: str) -> Load:
    assert probed.answer is not None, probed.ended
    (load,) = loads_of(looks_at(probed.answer, pci), [Phase(phase="products", index=0, begin_s=0, end_s=float("inf"))])
    return load


def test_it_looks_at_each_gpu(machine: Any) -> None:
    machine(
        "count=2",
        "1.sm_clock=1200",
        "1.reasons=0x28",
        "1.temperature=88",
        "1.field.269_per_s=500000000",
        "1.link_width=4",
        "0.link_idle_ms=100",
        "0.replays_per_s=100",
        "0.reasons=4",
    )
    told = watched(0.6)
    healthy, hot = (load_of(told, f"0000:0{bus}:00.0") for bus in (1, 2))

    assert healthy.samples >= 3
    assert (healthy.sm_mhz, healthy.memory_mhz, healthy.power_w, healthy.temperature_c) == (1755, 2619, 400, 55)
    assert (healthy.reasons, healthy.counted) == ({"power_cap": 1.0}, {})
    assert (healthy.link_gen, healthy.link_width) == (5, 16)  # generation 1 at first
    assert healthy.replays
    assert (hot.sm_mhz, hot.temperature_c, hot.link_width, hot.replays) == (1200, 88, 4, 0)
    assert hot.reasons == {"hw_slowdown": 1.0, "sw_thermal": 1.0}
    assert hot.counted == {"sw_thermal": pytest.approx(0.5, abs=0.1)}
    assert told.answer is not None
    assert {look[6] for look in told.answer["gpus"][0]["looks"]} == {1, 5}


def test_an_old_driver_counts_heat_by_policies(machine: Any) -> None:
    machine("count=1", "reasons=0x40", "violation.1_per_s=800000000", old=True)
    told = watched(0.5)
    load = load_of(told, "0000:01:00.0")

    assert load.reasons == {"hw_thermal": 1.0}
    assert load.counted == {"thermal": pytest.approx(0.8, abs=0.15)}
    assert told.answer is not None
    assert told.answer["gpus"][0]["errors"] == {"nvmlDeviceGetCurrentClocksEventReasons": FUNCTION_NOT_FOUND}


def test_what_is_not_supported_is_none_and_told_once(machine: Any) -> None:
    functions = ("ClockInfo", "PowerUsage", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "FieldValues")
    functions += ("ViolationStatus", "PcieReplayCounter")
    machine(
        "count=3",
        *(f"error.nvmlDeviceGet{name}={NOT_SUPPORTED}" for name in functions),
        "1.error.nvmlDeviceGetHandleByIndex_v2=15",
    )
    told = watched(only=2)
    load = load_of(told, "0000:03:00.0")

    assert told.answer is not None
    assert [gpu["index"] for gpu in told.answer["gpus"]] == [2]
    assert told.answer["gpus"][0]["errors"] == dict.fromkeys([f"nvmlDeviceGet{name}" for name in functions], "NOT_SUPPORTED")
    assert (load.sm_mhz, load.power_w, load.reasons, load.counted, load.replays) == (None, None, {}, {}, None)
    assert (load.temperature_c, load.link_gen) == (55, 5)


def test_it_ends_with_the_process(machine: Any) -> None:
    machine("count=1")
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.2)"]) as process:
        begin_s = time.monotonic()
        told = watched(20, pid=process.pid)

    assert told.ended.how == "answered"
    assert time.monotonic() - begin_s < 15  # not after its own 20 s


@pytest.mark.parametrize("states", [("S", "R", "Z"), ("S", "")])
def test_the_end_of_a_process_without_pidfds(monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...]) -> None:
    """Before Linux 5.3. One that has ended and is not reaped yet is a zombie."""
    to_come = iter(states)
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(gpu_watch, "state_of", lambda _: next(to_come))
    ended = gpu_watch.ending_of(4711)

    assert [ended() for _ in states] == [False] * (len(states) - 1) + [True]


def test_the_state_of_a_process() -> None:
    assert gpu_watch.state_of(os.getpid()) == "R"
    assert gpu_watch.state_of(0) == ""


def test_a_call_that_never_returns_is_named(machine: Any) -> None:
    machine("count=1", "hang.nvmlDeviceGetPowerUsage=1")
    ended: Ended = watched(deadline_s=1.5).ended

    assert (ended.how, ended.step) == ("hung", "nvmlDeviceGetPowerUsage 0")


def test_nvml_that_does_not_begin(machine: Any) -> None:
    machine("error.nvmlInitWithFlags=9")

    assert watched().answer == {"error": "DRIVER_NOT_LOADED"}
