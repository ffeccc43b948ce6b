"""How GPUs are: the real nvidia-ml-py asks an NVML of ours, and the checks judge what comes of it.

All rows of a table are GPUs of one machine, which is asked once.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.checks.gpu import gpu_fabric, gpu_health, gpu_idle, gpu_mode, gpu_precision
from dl_doctor.facts import gpu_states
from dl_doctor.facts.gpu_states import Fabric, GpuProcess, GpuState, GpuStates, RemappedRows
from dl_doctor.facts.wanted_precision import WantedPrecision
from dl_doctor.model import Unavailable, Verdict
from dl_doctor.probes import gpu_states as probe
from tests import facts
from tests.collected import collected
from tests.fakes import Fakes

ROWS = RemappedRows(corrected=0, uncorrected=0, pending=False, failed=False)
ABSENT = 4_194_305
"""No process has this pid: it is beyond Linux' largest."""


def asked(folder: Path, *lines: str, apart_s: float = 0.01) -> GpuStates:
    """What is told of the machine that these lines describe."""
    (folder / "gpus").write_text("".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder / "lib"))
        patch.setenv("FAKE_GPUS", str(folder / "gpus"))
        patch.setattr(gpu_states, "APART_S", apart_s)
        told = collected(gpu_states.collect, facts.nvml())
    assert isinstance(told, GpuStates)
    return told


def each_with(rows: list[dict[str, Any]]) -> list[str]:
    """Lines in which each row is a GPU of its own."""
    lines = [f"{index}.{key}={value}" for index, row in enumerate(rows) for key, value in row.items()]
    return [f"count={len(rows)}", *lines]


def levels(state: GpuState) -> dict[str, str]:
    """What the checks say of a machine with this GPU alone: the worst level, or how they ended without one."""
    states = facts.gpu_states(state)
    verdicts = {
        "health": gpu_health.CHECK.judge(states, facts.own_gpus(state.index)),
        "idle": gpu_idle.CHECK.judge(states, facts.own_gpus(state.index), facts.nvidia_driver()),
        "precision": gpu_precision.CHECK.judge(states, facts.own_gpus(state.index), WantedPrecision(False)),
        "mode": gpu_mode.CHECK.judge(states, facts.own_gpus(state.index), facts.gpu_sharing(), *[facts.UNKNOWN] * 4),
        "fabric": gpu_fabric.CHECK.judge(states, facts.torch_gpus()),
    }
    return {name: worst(verdict) or verdict.status for name, verdict in verdicts.items()}


def worst(verdict: Verdict) -> str:
    return min((finding.level for finding in verdict.findings), key=("fail", "warn", "note").index, default="")


HEALTHY: dict[str, str] = {"health": "pass", "idle": "pass", "precision": "pass", "mode": "pass", "fabric": "pass"}

ALL_SKIP = dict.fromkeys(HEALTHY, "skip")

SCENARIOS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    # a GPU's description, what is to be known of it, and what the checks are to say where that is no pass
    "healthy": (
        {"field.230": 0},
        {
            "pci_device": "2330",
            "pci_subsystem": "10de:16c1",
            "capability": (9, 0),
            "memory_version": 2,
            "memory_used_bytes": 0,
            "utilisation": (0, 0, 0),
            "processes_known": True,
            "ecc": True,
            "remapped_rows": ROWS,
            "recovery_action": 0,
            "compute_mode": "default",
            "virtualization": "none",
            "fabric": Fabric(state="completed", status="SUCCESS", health=1, health_mask=0),
            "slot_width_max": 16,
            "power_limit_w": 700.0,
            "memory_clock_max_mhz": 2619,
            "sm_clock_max_mhz": 1980,
            "slowdown_c": 87,
        },
        {},
    ),
    "the driver is older than recovery actions": ({}, {"recovery_action": None}, {}),
    "lost": (
        {"error.nvmlDeviceGetHandleByIndex_v2": 15},
        {"uuid": None, "errors": {"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}},
        {**ALL_SKIP, "health": "fail"},
    ),
    "lost meanwhile": ({"error.nvmlDeviceGetUtilizationRates": 15}, {"lost": True}, {"health": "fail", "mode": "skip"}),
    "another's": (
        {"error.nvmlDeviceGetHandleByIndex_v2": 4},
        {"errors": {"nvmlDeviceGetHandleByIndex": "NO_PERMISSION"}},
        ALL_SKIP,
    ),
    "needs a reset": ({"error.nvmlDeviceGetEccMode": 16}, {"ecc": None}, {"health": "fail"}),
    "corrected errors": ({"ecc_corrected": 12}, {}, {"health": "note"}),
    "contained errors": ({"ecc_uncorrected": 2}, {}, {"health": "warn"}),
    "errors in the SRAM": ({"sram_uncorrected": 1, "sram_parity": 1}, {}, {"health": "fail"}),
    "a worn chip": ({"sram_threshold_exceeded": 1}, {}, {"health": "warn"}),
    "errors in the SRAM by an older driver": (
        {"error.nvmlDeviceGetSramEccErrorStatus": 13, "sram_uncorrected": 3},
        {},
        {"health": "fail"},
    ),
    "a row waits": ({"remap_pending": 1, "remapped_uncorrected": 1}, {}, {"health": "warn"}),
    "rows used up": ({"remap_failed": 1}, {}, {"health": "fail"}),
    "V100": (
        {
            "capability": 70,
            "retired_pages": 0,
            "error.nvmlDeviceGetMigMode": 3,
            "error.nvmlDeviceGetRemappedRows": 3,
            "error.nvmlDeviceGetGpuFabricInfoV": 3,
        },
        {"remapped_rows": None, "retired_pages": 0, "retired_pages_pending": False, "mig": None, "fabric": None},
        {"precision": "note", "fabric": "skip"},
    ),
    "V100 with errors": (
        {"error.nvmlDeviceGetRemappedRows": 3, "retired_pages": 2, "ecc_uncorrected": 2},
        {"retired_pages": 2},
        {"health": "fail"},
    ),
    "V100 with a page that waits": ({"retired_pages": 1, "retired_pages_pending": 1}, {}, {"health": "warn"}),
    **{
        f"recovery action {action}": ({"field.230": action}, {"recovery_action": action}, {"health": level})
        for level, actions in (("fail", (1, 2, 6, 7)), ("warn", (3, 4, 5, 9)))  # there is no 9
        for action in actions
    },
    "divided": (
        {"mig": 1, "mig_instances": 2},
        {"mig": True, "mig_instances": 2},
        {"health": "skip", "idle": "skip", "mode": "note"},
    ),
    "to be divided": ({"mig": 1}, {"mig": True, "mig_instances": 0}, {"mode": "note"}),
    "exclusive": ({"compute_mode": 3}, {"compute_mode": "exclusive_process"}, {}),
    "prohibited": ({"compute_mode": 2}, {"compute_mode": "prohibited"}, {"mode": "fail"}),
    "a mode that is new": ({"compute_mode": 7}, {"compute_mode": "7"}, {}),
    "busy with an empty list": (
        {"memory_used": 70 << 30, "utilisation": "100 97 99"},
        {"processes": (), "processes_known": True, "utilisation": (1.0, 0.97, 0.99)},
        {"idle": "warn"},
    ),
    "used once": ({"utilisation": "100 0 100"}, {"utilisation": (1.0, 0.0, 1.0)}, {}),
    "of the host": ({"compute": ABSENT}, {"processes": (GpuProcess(pid=ABSENT, kind="compute"),)}, {"idle": "warn"}),
    "listed twice": (
        {"compute": f"{ABSENT}:1048576", "graphics": f"{ABSENT}:1048576"},
        {"processes": (GpuProcess(pid=ABSENT, kind="graphics", memory_bytes=1 << 20),)},
        {},
    ),
    "no version 2": (
        {"error.nvmlDeviceGetMemoryInfo_v2": 3},
        {"memory_version": 1, "memory_used_bytes": 600 << 20},  # the driver's own part is in it
        {},
    ),
    "vGPU": ({"virtualization": 2}, {"virtualization": "vgpu", "licensed": True}, {"mode": "note"}),
    "vGPU without a licence": ({"virtualization": 2, "licensed": 0}, {"licensed": False}, {"mode": "warn"}),
    "vGPU that needs none": ({"virtualization": 2, "licensable": 0}, {"licensed": None}, {"mode": "note"}),
    "in a virtual machine": ({"virtualization": 1}, {"virtualization": "passthrough", "licensed": None}, {}),
    "the fabric is not done": (
        {"fabric_state": 2, "fabric_health": 2},
        {"fabric": Fabric(state="in_progress", status="SUCCESS", health=2, health_mask=0)},
        {"fabric": "fail"},
    ),
    "an older driver's fabric": (
        {"fabric_version": 2, "fabric_status": 999},
        {"fabric": Fabric(state="completed", status="UNKNOWN", health=None, health_mask=0)},
        {"fabric": "fail"},
    ),
    "an RTX in a laptop": (
        {
            "name": "NVIDIA GeForce RTX 4060 Laptop GPU",
            "pci_device_id": "0x28e010de",
            "capability": 89,
            "memory": 8 << 30,
            "memory_used": 1200 << 20,
            "graphics": f"{ABSENT}:1153433600",
            "display_active": 1,
            "persistence": 0,
            **{
                f"error.nvmlDevice{name}": 3
                for name in (
                    *("GetEccMode", "GetTotalEccErrors", "GetSramEccErrorStatus", "GetMemoryErrorCounter", "GetRemappedRows"),
                    *("GetMigMode", "GetEnforcedPowerLimit", "GetPowerManagementDefaultLimit", "GetGpuFabricInfoV"),
                )
            },
        },
        {"pci_device": "28e0", "display_active": True, "persistence": False, "ecc": None, "memory_errors": None, "mig": None},
        {"health": "skip", "idle": "note", "fabric": "skip"},
    ),
}

# as nvidia-ml-py calls it, and as the library does; those that are asked under a condition are told apart
FUNCTIONS = {
    **{
        f"nvmlDeviceGet{name}": (f"nvmlDeviceGet{name}",)
        for name in (
            *("UUID", "Name", "CudaComputeCapability", "EccMode", "RetiredPages", "RetiredPagesPendingStatus", "ComputeMode"),
            *("MigMode", "VirtualizationMode", "PersistenceMode", "DisplayActive", "GpuMaxPcieLinkGeneration"),
            *("MaxPcieLinkGeneration", "MaxPcieLinkWidth", "EnforcedPowerLimit", "PowerManagementDefaultLimit", "MaxClockInfo"),
            *("MemoryBusWidth", "TemperatureThreshold", "TotalEccErrors", "SramEccErrorStatus", "RemappedRows", "FieldValues"),
            *("GpuFabricInfoV", "GraphicsRunningProcesses_v3", "MPSComputeRunningProcesses_v3", "ComputeRunningProcesses_v3"),
            *("UtilizationRates", "MemoryErrorCounter"),
        )
    },
    "nvmlDeviceGetPciInfo": ("nvmlDeviceGetPciInfo_v3",),
    "nvmlDeviceGetMemoryInfo": ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
}

CODES = {"NOT_SUPPORTED": 3, "NO_PERMISSION": 4, "GPU_IS_LOST": 15, "UNKNOWN": 999}

REFUSED = {"NOT_SUPPORTED": "skip", "NO_PERMISSION": "skip", "GPU_IS_LOST": "fail", "UNKNOWN": "error"}
"""What health is where all calls give this code."""

UNHEALTHY = {"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRetiredPages"}
"""Calls without which health is not known, where they should answer."""


UNSUPPORTED = {"nvmlDeviceGetRetiredPages": "NOT_SUPPORTED", "nvmlDeviceGetRetiredPagesPendingStatus": "NOT_SUPPORTED"}
"""On a healthy H100."""


def failing(code: int, *functions: str) -> dict[str, Any]:
    return {"field.230": 0} | {f"error.{name}": code for function in functions for name in FUNCTIONS[function]}


@pytest.fixture(scope="module")
def folder(fakes: Fakes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    fakes.install(folder / "lib")
    return folder


@pytest.fixture(scope="module")
def machine(folder: Path) -> GpuStates:
    """Its GPUs are the scenarios, and then those on which all calls give a code."""
    scenarios = [lines for lines, _, _ in SCENARIOS.values()]
    return asked(folder, *each_with([*scenarios, *(failing(code, *FUNCTIONS) for code in CODES.values())]), "confidential=1")


@pytest.fixture(scope="module")
def pieces(folder: Path) -> GpuStates:
    """Of each GPU one function fails."""
    return asked(folder, *each_with([failing(CODES["UNKNOWN"], function) for function in FUNCTIONS]))


def test_the_machine(machine: GpuStates) -> None:
    assert (machine.ended.how, machine.error, machine.confidential, machine.errors) == ("answered", None, True, {})
    assert machine.took_s is not None
    assert len(machine.gpus) == len(SCENARIOS) + len(CODES)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario(machine: GpuStates, name: str) -> None:
    _, known, said = SCENARIOS[name]
    state = machine.gpus[list(SCENARIOS).index(name)]

    assert {field: getattr(state, field) for field in known} == known
    assert levels(state) == {**HEALTHY, **said}


@pytest.mark.parametrize("code", CODES)
def test_all_calls_give_a_code(machine: GpuStates, code: str) -> None:
    state = machine.gpus[len(SCENARIOS) + list(CODES).index(code)]
    silent = GpuState(index=state.index, errors=dict.fromkeys(FUNCTIONS, code))

    assert state == silent
    shut = "error" if code == "UNKNOWN" else "skip"
    assert levels(state) == {**ALL_SKIP, "health": REFUSED[code], "mode": shut, "fabric": shut}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_call_fails_and_the_others_are_heard(pieces: GpuStates, function: str) -> None:
    state = pieces.gpus[list(FUNCTIONS).index(function)]

    if function == "nvmlDeviceGetMemoryErrorCounter":  # which is asked where the newer one does not answer
        assert state.errors == UNSUPPORTED
    elif function == "nvmlDeviceGetSramEccErrorStatus":
        assert state.memory_errors is not None
        assert state.memory_errors.sram_uncorrected == 0
    else:
        assert state.errors == {**UNSUPPORTED, function: "UNKNOWN"}
    assert levels(state)["health"] == ("error" if function in UNHEALTHY else "pass")


@pytest.fixture
def sleeper() -> Iterator[Any]:
    """Processes of this user that have nothing to do with us: the shell that has started them has ended."""
    started: list[int] = []

    def sleeping(streams: str) -> int:
        script = f"sleep 60 {streams} & echo $!"
        told = subprocess.run(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE, check=True).stdout
        started.append(int(told))
        return started[-1]

    yield sleeping
    for pid in started:
        os.kill(pid, signal.SIGKILL)


def test_whose_processes_they_are(folder: Path, sleeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes that count are /dev/null here. A pid that is the host's may be another process's in this namespace."""
    monkeypatch.setattr(gpu_states, "NODES", ("/dev/null",))
    with Path(os.devnull).open():
        ours, by_chance, caller = sleeper("</dev/null >/dev/null"), sleeper("<&- >&- 2>&-"), os.getpid()
        (state,) = asked(folder, "count=1", f"compute={ours}:1048576 {by_chance} {caller}:1073741824").gpus
    leftover, stranger, ourselves = state.processes

    assert (leftover.name, leftover.uid, leftover.ours, leftover.related) == ("sleep", os.getuid(), True, False)
    assert leftover.age_s is not None
    assert leftover.age_s < 30
    assert stranger == GpuProcess(pid=by_chance, kind="compute")
    assert (ourselves.ours, ourselves.related, ourselves.memory_bytes) == (True, True, 1 << 30)
    assert [process.stranger for process in state.processes] == [False, True, False]


BELOW_TORCHRUN = {
    50: (51, 53, 56),  # the probe, its interpreter, that one's guard
    51: (52, 53, 56),
    52: (53, 53, 56),
    53: (56, 53, 56),  # the doctor, in a rank's shell, which has something else in its background
    56: (20, 56, 56),
    57: (56, 57, 56),
    54: (20, 54, 54),  # another one, and its worker
    55: (54, 54, 54),
    20: (10, 20, 10),  # torchrun
    21: (10, 21, 10),  # another job of the same shell
    10: (1, 10, 10),
    1: (0, 1, 1),
}
"""Processes by number: their parent, group and session."""


@pytest.mark.parametrize(
    ("variables", "related"), [({"LOCAL_RANK": "0"}, {53, 56, 54, 55, 20, 10, 1}), ({}, {53, 56, 20, 10, 1})]
)
def test_other_ranks_are_of_the_family(variables: dict[str, str], related: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their GPUs are in use, and nobody is to be told to kill them."""
    for name in probe.RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    table = {pid: dict(zip(("parent", "group", "session"), known, strict=True)) for pid, known in BELOW_TORCHRUN.items()}
    monkeypatch.setattr(probe, "status_of", table.get)
    monkeypatch.setattr(os, "getpid", lambda: 50)
    ours = probe.Ours(("/dev/nvidia",))

    assert {pid for pid, known in table.items() if ours.related(pid, known)} - {50, 51, 52} == related


@pytest.mark.parametrize(
    ("card", "port", "known"),
    [
        ("16", "16", (16, 16)),
        ("16", "8", (16, 8)),  # a laptop, or a slot that shares its lanes
        ("16", "4", (16, 4)),  # a case with Thunderbolt
        ("16", None, (16, None)),  # right at the root, as in virtual machines
        ("255", "0", (None, None)),
        (None, None, (None, None)),
    ],
)
def test_lanes_of_card_and_port(
    card: str | None, port: str | None, known: tuple[int | None, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "pci0000:00/0000:00:01.0/0000:01:00.0"
    below.mkdir(parents=True)
    for folder, lanes in ((below, card), (below.parent, port)):
        if lanes is not None:
            (folder / "max_link_width").write_text(f"{lanes}\n")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices/0000:01:00.0").symlink_to(below)
    monkeypatch.setattr(probe, "PCI", str(tmp_path / "devices"))

    assert probe.lanes_of_both("0000:01:00.0") == known


def test_an_old_driver_lacks_functions(fakes: Fakes, tmp_path: Path) -> None:
    fakes.install(tmp_path / "lib", "384.81", old=True)
    states = asked(tmp_path, "count=1", "retired_pages=0", "ecc_uncorrected=1")
    (state,) = states.gpus

    assert states.errors == {"nvmlSystemGetConfComputeState": "FUNCTION_NOT_FOUND"}
    assert set(state.errors.values()) == {"FUNCTION_NOT_FOUND", "NOT_SUPPORTED"}
    assert (state.memory_version, state.utilisation, state.processes_known) == (1, (0, 0, 0), False)
    assert levels(state) == {**HEALTHY, "health": "fail", "precision": "skip", "fabric": "skip"}


def test_a_gpu_that_does_not_tell_of_its_use_is_not_waited_for(folder: Path) -> None:
    """Seconds apart, samples would not come in time."""
    states = asked(folder, "count=2", "error.nvmlDeviceGetUtilizationRates=3", apart_s=60)

    assert [state.utilisation for state in states.gpus] == [(), ()]


def test_a_crash_is_told_with_the_call(folder: Path) -> None:
    ended = asked(folder, "count=2", "1.crash.nvmlDeviceGetRemappedRows=1").ended

    assert (ended.how, ended.signal, ended.step) == ("killed", "SIGSEGV", "nvmlDeviceGetRemappedRows 1")


def test_a_call_that_never_returns_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_states, "DEADLINE_S", 0.5)
    ended = asked(folder, "count=2", "1.hang.nvmlDeviceGetGpuFabricInfoV=1").ended

    assert (ended.how, ended.step) == ("hung", "nvmlDeviceGetGpuFabricInfoV 1")


def test_nvml_that_does_not_begin_any_more(folder: Path) -> None:
    assert asked(folder, "error.nvmlInitWithFlags=9").error == "DRIVER_NOT_LOADED"


def test_without_gpus_nothing_is_started() -> None:
    """Not even a process: probes that cannot run would raise."""
    unused: Any = None
    told = asyncio.run(gpu_states.collect(unused, facts.nvml_error("LIBRARY_NOT_FOUND")))

    assert told == Unavailable.absent("NVML lists no GPU")
