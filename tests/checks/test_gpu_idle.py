"""What is in use, by whom, and what of it is as it should be."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_idle import CHECK
from dl_doctor.facts.gpu_states import RemappedRows
from dl_doctor.model import Ended, Verdict
from dl_doctor.units import GIB, MIB
from tests.facts import gpu_process, gpu_state, gpu_states, nvidia_driver, own_gpus

MINE, FAMILY = {"uid": 1000, "ours": True}, {"uid": 1000, "ours": True, "related": True}
FULL = {"memory_used_bytes": 12 * GIB}
BUSY = (0.97, 1.0, 0.4)
LAPTOP = {"name": "NVIDIA GeForce RTX 4060 Laptop GPU", "memory_total_bytes": 8 * GIB, "display_active": True}
WSL = nvidia_driver(1, platform="wsl")


def judge(*states: Any, mine: tuple[int, ...] = (0, 1), driver: Any = None, **fields: Any) -> Verdict:
    return CHECK.judge(gpu_states(*states, **fields), own_gpus(*mine), driver or nvidia_driver())


@pytest.mark.parametrize(
    ("state", "levels"),
    [
        ({}, []),
        ({"memory_used_bytes": 2 * GIB}, []),  # 3 % of 80 GiB are more
        ({"memory_used_bytes": 3 * GIB}, ["warn"]),
        ({"memory_used_bytes": 1100 * MIB, "memory_total_bytes": 16 * GIB}, ["warn"]),
        ({"memory_used_bytes": 700 * MIB, "memory_version": 1}, []),  # the driver's own, which version 1 counts
        # an empty list proves nothing: whoever it is, is in another PID namespace
        (FULL, ["warn"]),
        ({**FULL, "processes_known": False}, ["warn"]),
        ({"utilisation": BUSY}, ["warn"]),
        ({"utilisation": (0.97, 0.05, 1.0)}, []),  # somebody's nvidia-smi
        ({"utilisation": (0.1, 0.1, 0.1)}, []),
        ({"utilisation": ()}, []),
        ({"memory_used_bytes": None}, []),  # a GB10 has no memory of its own
        ({"memory_used_bytes": None, "utilisation": BUSY}, ["warn"]),
        # others
        ({"processes": (gpu_process(memory=300 * MIB),)}, ["warn"]),
        ({"processes": (gpu_process(memory=None, uid=None, name=None, age_s=None),)}, ["warn"]),  # of the host
        ({"processes": (gpu_process(kind="mps", memory=300 * MIB),)}, ["warn"]),
        ({"processes": (gpu_process(memory=30 * MIB, uid=0, name="nvidia-cuda-mps"),)}, []),  # the server, without clients
        # one's own
        ({**FULL, "processes": (gpu_process(**MINE),)}, ["warn"]),
        ({"memory_used_bytes": 500 * MIB, "processes": (gpu_process(memory=496 * MIB, **MINE),)}, ["note"]),
        ({"processes": (gpu_process(memory=30 * MIB, name="nvidia-cuda-mps", **MINE),)}, []),
        ({**FULL, "processes": (gpu_process(**FAMILY),)}, []),  # the notebook that asks
        ({**FULL, "processes": (gpu_process(**FAMILY),), "utilisation": BUSY}, []),  # another rank of this job
        ({**FULL, "processes": (gpu_process(memory=2 * GIB, **FAMILY),)}, ["warn"]),  # and somebody else
        # desktops
        ({**LAPTOP, "memory_used_bytes": 2 * GIB, "processes": (gpu_process(kind="graphics", memory=1800 * MIB),)}, ["note"]),
        ({**LAPTOP, "memory_used_bytes": 2 * GIB, "processes": (gpu_process(kind="graphics", memory=None),)}, ["note"]),
        ({**LAPTOP, "memory_used_bytes": 400 * MIB, "utilisation": BUSY}, ["note"]),  # a film
        # a game on the GPU of a laptop whose screen is the other one's, and somebody's renderer on a server
        ({**FULL, "display_active": False, "processes": (gpu_process(kind="graphics", uid=1000, ours=True),)}, ["note"]),
        ({**FULL, "display_active": False, "processes": (gpu_process(kind="graphics"),)}, ["warn"]),
        ({**LAPTOP, "memory_used_bytes": 6 * GIB, "processes": (gpu_process(kind="graphics", memory=GIB),)}, ["warn"]),
        ({**LAPTOP, **FULL, "processes": (gpu_process(**MINE), gpu_process(1, "graphics", memory=GIB))}, ["warn"]),
        # Xorg of a server without screens explains 4 MiB of it
        ({**FULL, "processes": (gpu_process(kind="graphics", memory=4 * MIB, uid=0, name="Xorg"),)}, ["warn"]),
        ({"utilisation": BUSY, "processes": (gpu_process(kind="graphics", memory=4 * MIB, uid=0, name="Xorg"),)}, ["warn"]),
        # instances of others are no trouble
        ({**FULL, "mig": True, "mig_instances": 2}, []),
        ({**FULL, "mig": True}, ["warn"]),
    ],
)
def test_who_uses_it(state: dict[str, Any], levels: list[str]) -> None:
    verdict = judge(gpu_state(0, **state), gpu_state(1))

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [(level, "gpu:0") for level in levels]
    assert verdict.reason is None


def test_windows_uses_it_beside_wsl() -> None:
    assert [finding.level for finding in judge(gpu_state(0, **FULL, utilisation=BUSY), driver=WSL).findings] == ["note"]


@pytest.mark.parametrize(
    ("case", "status", "words"),
    [
        ({"mine": ()}, "skip", "none of the GPUs is this job's"),
        ({"mine": (1,)}, "pass", "1 GPU: at most 4 MiB of memory in use, 0 % of the time in use, processes: 0"),
        ({"ended": Ended(how="hung", step="nvmlDeviceGetEccMode 3")}, "error", "did not come back in time"),
        ({"error": "DRIVER_NOT_LOADED"}, "skip", "DRIVER_NOT_LOADED"),
    ],
)
def test_what_is_not_judged(case: dict[str, Any], status: str, words: str) -> None:
    verdict = judge(gpu_state(0, **FULL), gpu_state(1), **case)

    assert verdict.status == status
    assert words in (verdict.reason.detail if verdict.reason else verdict.seen)


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "GPU_IS_LOST"])
def test_an_empty_list_of_processes_is_no_pass(code: str) -> None:
    errors = {"nvmlDeviceGetMemoryInfo": code, "nvmlDeviceGetUtilizationRates": code}
    verdict = judge(gpu_state(memory_used_bytes=None, utilisation=(), errors=errors))

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert verdict.reason.detail.endswith(code)


def test_divided_gpus_are_left_out() -> None:
    assert judge(gpu_state(mig=True, mig_instances=7)).status == "skip"


@pytest.mark.parametrize(
    "ill",
    [
        {"compute_mode": "prohibited"},
        {"recovery_action": 1},
        {"remapped_rows": RemappedRows(corrected=0, uncorrected=9, pending=False, failed=True)},
        {"errors": {"nvmlDeviceGetName": "GPU_IS_LOST"}},
    ],
)
def test_no_gpu_is_named_instead_that_is_of_no_use(ill: dict[str, Any]) -> None:
    (finding,) = judge(gpu_state(0, memory_used_bytes=23 * GIB), gpu_state(1, **ill), gpu_state(2), mine=(0, 1, 2)).findings

    assert finding.fixes[0].commands == ("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2",)


def test_a_left_over_process_is_named() -> None:
    found = gpu_process(**MINE), gpu_process(4712, memory=11 * GIB, **MINE, age_s=100.0)
    (finding,) = judge(gpu_state(0, memory_used_bytes=23 * GIB, processes=found), gpu_state(1)).findings

    assert finding.summary == (
        "GPU 0 is in use: 23 GiB of 80 GiB of memory; "
        "python (pid 4711, yours, for 3 h) with 12 GiB, python (pid 4712, yours, for 100 s) with 11 GiB"
    )
    assert finding.owner == "you"
    assert [command for fix in finding.fixes for command in fix.commands] == [
        "kill 4711 4712",
        "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1",
    ]


def test_somebody_elses_process_is_not_ours_to_end() -> None:
    (finding,) = judge(gpu_state(0, processes=(gpu_process(),))).findings

    assert "python (pid 4711, of user 1005, for 3 h)" in finding.summary
    assert finding.owner == "admin"
    assert not any("kill" in command for fix in finding.fixes for command in fix.commands)


def test_of_many_processes_the_largest_are_named() -> None:
    many = tuple(gpu_process(pid, memory=pid * MIB) for pid in range(100, 108))
    (finding,) = judge(gpu_state(0, processes=many)).findings

    assert finding.summary.count("pid") == 3
    assert "pid 107" in finding.summary
    assert finding.summary.endswith("and 5 more")


def test_an_old_gpu_without_persistence_may_only_seem_to_be_in_use() -> None:
    (finding,) = judge(gpu_state(0, utilisation=(0.99, 0.99, 0.99), persistence=False)).findings

    assert "With persistence off" in finding.why
