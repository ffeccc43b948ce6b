"""Which Xids fail, which warn, which are bugs of programs; of which GPUs; and what has been mended since."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_xid import CHECK, MEANINGS, level_of
from dl_doctor.facts import GpuStates
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.facts.xids import ARCHIVE, XIDS
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import ANSWERED, UNKNOWN, gpu, kernel_log, nvidia_driver, nvml, nvml_error, own_gpus, runtime, slurm, xid

NO_SLURM = Unavailable.absent("no Slurm")
NO_STATES = Unavailable.failed("a test")

RESET = {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}
RESTART = {79}
WARNING = {48, 74, 94, *range(144, 151)}

OTHERS = "0000:99:00"
"""A GPU that is on no bus of ours."""


def judge(
    *xids: Any,
    told: Any = None,
    own: Any = None,
    where: str = "bare",
    job: Any = NO_SLURM,
    states: Any = NO_STATES,
    **fields: Any,
) -> Verdict:
    mine = own or UNKNOWN
    return CHECK.judge(kernel_log(*xids, **fields), nvidia_driver(), told or nvml(), mine, states, runtime(where), job)


def levels(verdict: Verdict) -> list[str]:
    return [finding.level for finding in verdict.findings]


def test_the_catalogues_actions_decide() -> None:
    by_level = {level: {code for code in MEANINGS if level_of(xid(code), quiet=False) == level} for level in ("fail", "warn")}

    assert by_level == {"fail": RESET | RESTART, "warn": WARNING}


def test_the_catalogue_is_plausible() -> None:
    codes = [meaning.code for meaning in XIDS]

    assert codes == sorted(set(codes))
    assert {meaning.code for meaning in XIDS if meaning.action == "restart the node"} == RESTART
    assert {meaning.code for meaning in XIDS if meaning.action == "reset the GPU"} == RESET
    assert all(meaning.cause == "application" for meaning in XIDS if meaning.code in (13, 31, 43, 45))
    assert all(meaning.source == ARCHIVE for meaning in XIDS if meaning.code in (16, 56, 57, 58, 61))
    assert all(meaning.meaning and not meaning.meaning.endswith(".") for meaning in XIDS)


def test_no_xid() -> None:
    verdict = judge(since_s=100.0, now_s=10_000.0)

    assert (verdict.status, levels(verdict)) == ("pass", [])
    assert verdict.seen == "Xids of these GPUs in the kernel's log (/dev/kmsg, which goes back 2 hours): none"


@pytest.mark.parametrize(
    ("xids", "expected"),
    [
        ([xid(79)], ["fail"]),
        ([xid(119), xid(119, pci="0000:02:00")], ["fail", "fail"]),
        ([xid(79, over="the driver was loaded again")], ["note"]),
        ([xid(48), xid(63)], ["warn", "note"]),
        ([xid(13), xid(31, count=40), xid(43), xid(45)], ["note"]),  # one line for a GPU's small ones
        ([xid(154)], ["note"]),
        ([xid(999)], ["note"]),  # a code of tomorrow
        ([xid(79, pci=OTHERS)], ["note"]),  # another tenant's
        ([xid(31, pci=OTHERS)], []),
    ],
)
def test_levels(xids: list[Any], expected: list[str]) -> None:
    assert levels(judge(*xids)) == expected


@pytest.mark.parametrize(
    ("where", "told", "job", "level"),
    [
        ("bare", nvml(gpu(1)), NO_SLURM, "fail"),  # lost: NVML does not list it any more
        ("bare", nvml(gpu(0, pci=None, errors={"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}), gpu(1)), NO_SLURM, "fail"),
        ("docker", nvml(gpu(1)), NO_SLURM, "note"),  # the container has the other one
        ("docker", Unavailable.failed("a test"), NO_SLURM, "fail"),  # by what the driver shows there
        ("bare", nvml(gpu(1)), slurm(gpus=("1",)), "note"),
        ("bare", nvml(gpu(0)), slurm(gpus=("0",)), "fail"),
    ],
)
def test_whose_gpu_it_is(where: str, told: Any, job: Any, level: str) -> None:
    assert levels(judge(xid(79), told=told, where=where, job=job)) == [level]


@pytest.mark.parametrize(
    ("own", "level"),
    [
        (own_gpus(0, 1), "fail"),
        (own_gpus(0, source="Slurm's grant"), "fail"),
        (own_gpus(1, source="Slurm's grant"), "note"),
        (own_gpus(1, source="CUDA_VISIBLE_DEVICES"), "note"),  # who hides a GPU has his reasons
    ],
)
def test_gpus_that_nvml_lists_may_be_others(own: Any, level: str) -> None:
    assert levels(judge(xid(79), own=own)) == [level]


@pytest.mark.parametrize("source", ["Slurm's grant", "CUDA_VISIBLE_DEVICES"])
def test_a_job_without_gpus(source: str) -> None:
    assert judge(xid(79), own=own_gpus(source=source)).status == "skip"


@pytest.mark.parametrize(("source", "status"), [("NVML", "fail"), ("CUDA_VISIBLE_DEVICES", "fail"), ("Slurm's grant", "skip")])
def test_nvml_that_lists_no_gpu_any_more(source: str, status: str) -> None:
    """The log may say why."""
    assert judge(xid(79), told=nvml_error("UNKNOWN"), own=own_gpus(source=source)).status == status


@pytest.mark.parametrize(
    ("code", "action", "level"),
    [
        (62, 0, "warn"),  # the GPU says that all is well, which is how it looks after a reset
        (62, 1, "fail"),
        (62, None, "fail"),  # a driver that does not tell
        (119, 0, "fail"),  # of this code no driver tells it
        (48, 0, "warn"),
    ],
)
def test_what_the_gpu_says_of_itself(code: int, action: int | None, level: str) -> None:
    states = GpuStates(ended=ANSWERED, gpus=(GpuState(index=0, pci="0000:01:00.0", recovery_action=action),))

    assert levels(judge(xid(code), states=states)) == [level]


def test_it_is_told_how_often_when_and_what_helps() -> None:
    (finding,) = judge(xid(79, count=3)).findings

    assert finding.summary == "Xid 79 of 0000:01:00: the GPU has fallen off the bus (3 times, last 1 minute ago)"
    assert "The driver said: GPU has fallen off the bus." in finding.why
    assert finding.fix_for("slurm").commands[0].startswith("scontrol update")
    assert ("reboot",) in [fix.commands for fix in finding.fixes]


def test_a_log_without_times() -> None:
    (finding,) = judge(xid(109, last_s=None), since_s=None, source="syslog(2)").findings

    assert "at an unknown time" in finding.summary
    assert "nvidia-smi --gpu-reset -i 0000:01:00.0" in finding.fixes[-1].commands


def test_a_probe_that_hangs() -> None:
    assert judge(ended=Ended(how="hung")).status == "error"
