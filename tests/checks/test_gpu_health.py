"""What a GPU tells of its own health, and what it does not support."""

from typing import Any

import pynvml
import pytest

from dl_doctor.checks.gpu.gpu_health import ACTIONS, CHECK, NOT_HERE, SIGNS
from dl_doctor.facts.gpu_states import MemoryErrors, RemappedRows
from dl_doctor.model import Ended, Verdict
from tests.facts import UNKNOWN, gpu_state, gpu_states, own_gpus

NOTHING = {"memory_errors": None, "remapped_rows": None, "retired_pages": None, "recovery_action": None}


def judge(*states: Any, **fields: Any) -> Verdict:
    return CHECK.judge(gpu_states(*states, **fields), own_gpus(*range(len(states))))


def errors(**counts: Any) -> dict[str, Any]:
    known = {"corrected": 0, "uncorrected": 0, "sram_uncorrected": 0, "sram_threshold_exceeded": False}
    return {"memory_errors": MemoryErrors(**{**known, **counts})}


def rows(**counts: Any) -> dict[str, Any]:
    return {"remapped_rows": RemappedRows(**{"corrected": 0, "uncorrected": 0, "pending": False, "failed": False, **counts})}


def codes(code: str) -> dict[str, Any]:
    """A GPU that gives this code wherever it is asked for its health."""
    return {**NOTHING, "errors": {call: code for calls in SIGNS.values() for call in calls}}


V100 = {
    **NOTHING,
    "retired_pages": 0,
    "retired_pages_pending": False,
    **errors(sram_uncorrected=None, sram_threshold_exceeded=None),
}
"""It retires pages, and remaps nothing."""


@pytest.mark.parametrize(
    ("state", "levels"),
    [
        ({}, []),
        (V100, []),
        # what the driver wants done
        ({"recovery_action": 0}, []),
        ({"recovery_action": 1}, ["fail"]),
        ({"recovery_action": 2}, ["fail"]),
        ({"recovery_action": 3}, ["warn"]),
        ({"recovery_action": 4}, ["warn"]),
        ({"recovery_action": 5}, ["warn"]),
        ({"recovery_action": 6}, ["fail"]),
        ({"recovery_action": 7}, ["fail"]),
        ({"recovery_action": 8}, ["warn"]),  # of a driver that is newer than we
        # rows
        (rows(corrected=3, uncorrected=1), ["note"]),
        (rows(uncorrected=1, pending=True), ["warn", "note"]),
        (rows(uncorrected=8, failed=True), ["fail", "note"]),
        # pages, of a V100
        ({**V100, "retired_pages": 4}, ["note"]),
        ({**V100, "retired_pages_pending": True}, ["warn"]),
        # errors
        (errors(corrected=12), ["note"]),
        (errors(uncorrected=2), ["warn"]),  # contained: there are rows to remap
        ({**errors(uncorrected=2), **rows(uncorrected=1, pending=True)}, ["warn", "note"]),  # told once
        ({**V100, **errors(uncorrected=2)}, ["fail"]),
        ({**V100, **errors(uncorrected=2), "errors": {"nvmlDeviceGetRemappedRows": "NOT_SUPPORTED"}}, ["fail"]),
        # an A100 of which this user may not see the rows
        ({**V100, **errors(uncorrected=2), "errors": {"nvmlDeviceGetRemappedRows": "NO_PERMISSION"}}, ["warn"]),
        (errors(uncorrected=1, sram_uncorrected=1), ["fail"]),  # one error, not two
        (errors(uncorrected=3, sram_uncorrected=1), ["fail", "warn"]),
        (errors(uncorrected=None, corrected=None, sram_uncorrected=1), ["fail"]),
        (errors(sram_threshold_exceeded=True), ["warn"]),
        # of no use at all
        ({"errors": {"nvmlDeviceGetEccMode": "RESET_REQUIRED"}}, ["fail"]),
        ({**NOTHING, "errors": {"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}}, ["fail"]),
        ({"errors": {"nvmlDeviceGetUtilizationRates": "GPU_IS_LOST"}, **rows(failed=True)}, ["fail"]),
        # instances do not tell of the whole
        ({**rows(failed=True), "mig": True, "mig_instances": 7}, []),
        ({**rows(failed=True), "mig": True}, ["fail"]),  # divided by nobody yet
        ({"errors": {"nvmlDeviceGetFanSpeed": "UNKNOWN"}}, []),  # nothing of its health
    ],
)
def test_one_of_two_gpus(state: dict[str, Any], levels: list[str]) -> None:
    verdict = judge(gpu_state(0), gpu_state(1, **state))

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [(level, "gpu:1") for level in levels]
    assert verdict.reason is None


@pytest.mark.parametrize("code", sorted(NOT_HERE))
def test_what_is_not_supported_is_no_pass_and_no_failure(code: str) -> None:
    """A GeForce of a laptop, a vGPU, an old driver, a user who may not look."""
    verdict = judge(gpu_state(**codes(code)))

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert code in verdict.reason.detail


@pytest.mark.parametrize("code", sorted(NOT_HERE))
def test_what_is_left_is_judged(code: str) -> None:
    """A GeForce with a driver that has recovery actions, and nothing else."""
    verdicts = [judge(gpu_state(**{**codes(code), "recovery_action": action})) for action in (0, 1)]

    assert [verdict.status for verdict in verdicts] == ["pass", "fail"]
    assert verdicts[0].seen == "1 GPU tells of recovery action"


@pytest.mark.parametrize("code", ["UNKNOWN", "TIMEOUT", "MEMORY", "4711"])
def test_what_cannot_be_told_is_no_pass(code: str) -> None:
    ill = gpu_state(1, errors={"nvmlDeviceGetRemappedRows": code}, remapped_rows=None)
    alone = judge(gpu_state(**codes(code)))
    beside = judge(gpu_state(0), ill)

    assert (alone.status, beside.status) == ("error", "error")
    assert beside.reason is not None
    assert beside.reason.detail == f"GPU 1 does not tell of remapped rows: {code}"


def test_a_failure_stands_beside_what_cannot_be_told() -> None:
    ill = gpu_state(1, errors={"nvmlDeviceGetRemappedRows": "UNKNOWN"}, remapped_rows=None, recovery_action=1)

    assert judge(gpu_state(0), ill).status == "fail"


def test_a_gpu_that_does_not_answer_is_no_pass() -> None:
    silent = gpu_state(1, **NOTHING, errors={"nvmlDeviceGetHandleByIndex": "UNKNOWN"})

    assert judge(gpu_state(0), silent).status == "error"


def test_a_lost_gpu_is_explained_by_what_knows_more() -> None:
    (finding,) = judge(gpu_state(3, errors={"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"})).findings

    assert finding.explained_by == "gpu-visible"
    assert finding.summary == "GPU 3 (0000:04:00.0) has fallen off the bus"


@pytest.mark.parametrize(
    ("ended", "status", "words"),
    [
        (Ended(how="stuck", pid=7, state="D", wait_channel="os_acquire_mutex", step="nvmlInit"), "fail", "stuck in the kernel"),
        (Ended(how="hung", step="nvmlDeviceGetEccMode 3"), "error", "nvmlDeviceGetEccMode 3"),
        (Ended(how="killed", signal="SIGSEGV", step="nvmlDeviceGetEccMode 3"), "error", "SIGSEGV"),
    ],
)
def test_a_driver_that_does_not_answer(ended: Ended, status: str, words: str) -> None:
    verdict = judge(ended=ended)

    assert verdict.status == status
    assert words in (verdict.reason.detail if verdict.reason else verdict.findings[0].summary)


def test_nvml_that_does_not_begin_any_more() -> None:
    assert judge(error="DRIVER_NOT_LOADED").status == "skip"


def test_all_divided() -> None:
    assert judge(gpu_state(mig=True, mig_instances=2, **rows(failed=True))).status == "skip"


@pytest.mark.parametrize(
    ("own", "status", "levels"),
    [
        (own_gpus(0, 1), "fail", ["fail", "note"]),  # NVML's: all that it lists
        (own_gpus(0, 1, source="Slurm's grant"), "fail", ["fail", "note"]),
        (own_gpus(0, source="Slurm's grant"), "pass", ["note"]),  # a prolog of a job that gets the other one
        (own_gpus(0, source="CUDA_VISIBLE_DEVICES"), "pass", ["note"]),  # hidden, perhaps because of it
        (own_gpus(source="CUDA_VISIBLE_DEVICES"), "skip", []),
        (UNKNOWN, "fail", ["fail", "note"]),
    ],
)
def test_others_gpus_are_a_note(own: Any, status: str, levels: list[str]) -> None:
    verdict = CHECK.judge(gpu_states(gpu_state(0), gpu_state(1, **rows(failed=True, uncorrected=8))), own)

    assert (verdict.status, [finding.level for finding in verdict.findings]) == (status, levels)


def test_a_lost_gpu_may_be_anybodys() -> None:
    """It does not even tell its address."""
    lost = gpu_state(1, errors={"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"})

    assert CHECK.judge(gpu_states(gpu_state(0), lost), own_gpus(0, source="Slurm's grant")).status == "fail"


def test_the_fixes() -> None:
    (failed, _) = judge(gpu_state(2, **rows(uncorrected=8, failed=True))).findings

    assert failed.owner == "vendor"
    assert failed.fix_for("kubernetes").commands == ("kubectl cordon ...",)
    assert failed.fix_for("slurm").commands == ("scontrol update nodename=... state=drain reason=gpu",)
    assert ("nvidia-smi --gpu-reset -i 2", "reboot") in [fix.commands for fix in failed.fixes]


def test_where_a_reset_does_not_do() -> None:
    (finding,) = judge(gpu_state(2, recovery_action=2)).findings

    assert finding.fixes[-1].commands == ("reboot",)


def test_the_table_of_actions_is_nvmls() -> None:
    """By nvidia-ml-py's constants; it may know newer ones."""
    prefix = "NVML_GPU_RECOVERY_ACTION_"
    numbers = {value for name, value in vars(pynvml).items() if name.startswith(prefix)}

    assert {0, *ACTIONS} <= numbers
