"""A mode in which no program, or only one, can use the GPU; MPS without a daemon; and what is a part of a GPU."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_mode import CHECK, COMPUTE_MODE
from dl_doctor.facts import GpuStates, Ranks
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import ANSWERED, gpu_sharing, nvml, own_gpus, slurm, torch_gpus, visible_gpus

QUICK = Unavailable.not_asked("needs --profile default")
NO_SLURM = Unavailable.absent("no Slurm")
NOT_SUPPORTED = {COMPUTE_MODE: "NOT_SUPPORTED"}


def card(index: int = 0, mode: str | None = "default", **fields: Any) -> GpuState:
    return GpuState(**{"index": index, "compute_mode": mode, "mig": False, "virtualization": "none", **fields})


def judge(
    *gpus: GpuState,
    sharing: Any = None,
    ranks: int = 1,
    own: Any = None,
    job: Any = NO_SLURM,
    told: str | None = None,
    torch: Any = QUICK,
    **fields: Any,
) -> Verdict:
    states = GpuStates(**{"ended": ANSWERED, "gpus": gpus, **fields})
    known = nvml(count=max(1, len(gpus)))
    here = Ranks(on_node=ranks, in_task=ranks, source="a test")
    mine = own or own_gpus(*range(len(gpus)))
    return CHECK.judge(states, mine, sharing or gpu_sharing(), here, job, visible_gpus(known, told), torch)


def levels(verdict: Verdict) -> list[str]:
    return [finding.level for finding in verdict.findings]


def test_nothing_special() -> None:
    verdict = judge(card(0), card(1), ranks=2)

    assert (verdict.status, levels(verdict)) == ("pass", [])
    assert verdict.seen == "compute mode default, 0 of 2 divided into instances, no MPS"


@pytest.mark.parametrize(
    ("modes", "ranks", "told", "daemon", "expected"),
    [
        (["prohibited"], 1, None, None, ["fail"]),
        (["default", "prohibited"], 2, None, None, ["fail"]),
        (["default", "prohibited"], 1, "0", None, ["warn"]),  # of several models, of which CUDA's number 0 may be either
        (["default", "prohibited"], 2, "0,1", None, ["fail"]),
        (["exclusive_process"], 1, None, None, []),  # what most Slurm sites choose
        (["exclusive_process", "exclusive_process"], 2, None, None, []),
        (["exclusive_process"], 4, None, None, ["warn"]),
        (["exclusive_thread"], 2, None, None, ["warn"]),
        (["exclusive_process"], 4, None, "listens", ["note"]),  # what MPS wants: its server is the one process
        (["exclusive_process"], 4, None, "refuses", ["warn", "fail"]),
        (["default"], 4, None, None, []),
    ],
)
def test_compute_modes(modes: list[str], ranks: int, told: str | None, daemon: str | None, expected: list[str]) -> None:
    gpus = [card(index, mode) for index, mode in enumerate(modes)]

    assert levels(judge(*gpus, ranks=ranks, told=told, sharing=gpu_sharing(daemon))) == expected


def test_other_jobs_gpus_are_nobodys_business() -> None:
    gpus = card(0), card(1, "prohibited")

    assert judge(*gpus, own=own_gpus(0)).status == "pass"
    assert judge(*gpus, own=own_gpus(1)).status == "fail"
    assert judge(*gpus, own=Unavailable.failed("a test")).status == "fail"
    assert judge(*gpus, own=own_gpus()).status == "skip"


def test_each_rank_may_see_one_gpu_of_several() -> None:
    gpus = [card(index, "exclusive_process") for index in range(4)]

    assert judge(*gpus, ranks=4, own=own_gpus(2), told="2").status == "pass"  # by CUDA_VISIBLE_DEVICES
    assert judge(gpus[0], ranks=4, job=slurm(gpus=("0", "1", "2", "3"))).status == "pass"  # by control groups


@pytest.mark.parametrize(
    ("sharing", "torch", "level", "words"),
    [
        (gpu_sharing("refuses"), QUICK, "fail", "its socket is still in /tmp/nvidia-mps"),
        (gpu_sharing("refuses", folder="/mps", said=True), torch_gpus(0, init_code=805), "fail", "has gone"),
        (gpu_sharing("refuses"), torch_gpus(), "note", "CUDA begins all the same"),
        (gpu_sharing("denied"), QUICK, "warn", "may not be reached by this user"),
        (gpu_sharing("denied"), torch_gpus(), "note", "CUDA begins all the same"),
        (gpu_sharing("absent", folder="/mps", said=True), QUICK, "note", "CUDA goes on without MPS"),
        (gpu_sharing("absent", folder="/dev/null", said=True), QUICK, None, ""),  # keeps MPS away on purpose
        (gpu_sharing("unknown"), QUICK, None, ""),
        (Unavailable.failed("a test"), QUICK, None, ""),
    ],
)
def test_mps(sharing: Any, torch: Any, level: str | None, words: str) -> None:
    findings = judge(card(), sharing=sharing, torch=torch).findings

    assert [finding.level for finding in findings] == ([level] if level else [])
    assert all(words in finding.summary for finding in findings)


@pytest.mark.parametrize(
    ("gpu", "sharing", "expected"),
    [
        (card(mig=True, mig_instances=3), gpu_sharing(), ["note"]),
        (card(mig=True), gpu_sharing(), ["note"]),  # none is made, or none is this job's
        (card(virtualization="vgpu", licensed=True), gpu_sharing(), ["note"]),
        (card(virtualization="vgpu", licensed=False), gpu_sharing(), ["warn"]),
        (card(virtualization="passthrough"), gpu_sharing(), []),  # a whole GPU in a virtual machine
        (card(), gpu_sharing(shims=("libvgpu.so is preloaded by /etc/ld.so.preload (HAMi)",)), ["note"]),
        (card(), gpu_sharing("listens", thread_percentage=30.0), ["note"]),
        (card(), gpu_sharing(thread_percentage=30.0), []),  # without MPS it does nothing
    ],
)
def test_a_part_of_a_gpu(gpu: GpuState, sharing: Any, expected: list[str]) -> None:
    assert levels(judge(gpu, sharing=sharing)) == expected


@pytest.mark.parametrize(
    ("gpus", "fields", "status", "words"),
    [
        ((card(mode=None, mig=None, virtualization=None, errors={COMPUTE_MODE: "UNKNOWN"}),), {}, "error", "UNKNOWN"),
        ((card(mode=None, mig=None, virtualization=None, errors=NOT_SUPPORTED),), {}, "skip", "NOT_SUPPORTED"),
        ((card(mode=None, mig=None, virtualization=None, errors={"nvmlDeviceGetUUID": "GPU_IS_LOST"}),), {}, "skip", "answers"),
        ((), {"ended": Ended(how="hung", step="nvmlInit")}, "error", "did not come back in time at: nvmlInit"),
    ],
)
def test_what_is_not_told(gpus: Any, fields: dict[str, Any], status: str, words: str) -> None:
    verdict = judge(*gpus, **fields)

    assert verdict.status == status
    assert verdict.reason is not None
    assert words in verdict.reason.detail


def test_modes_that_are_not_told_hide_no_trouble_of_mps() -> None:
    silent = card(mode=None, mig=None, virtualization=None, errors=NOT_SUPPORTED)

    assert judge(silent, sharing=gpu_sharing("refuses")).status == "fail"
