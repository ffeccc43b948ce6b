"""At which rung the GPUs are lost; what is promised, what was granted, and what is nobody's business."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_visible import CHECK
from dl_doctor.facts import TorchGpus
from dl_doctor.model import NO_GPU, Ended, Unavailable, Verdict
from tests.facts import gpu, gpu_access, gpu_grant, gpu_nodes, nvidia_driver, nvml, nvml_error, runtime, torch_gpus, visible_gpus

NO_NODES = Unavailable.absent("no nodes")
NOTHING = nvml_error("LIBRARY_NOT_FOUND")
QUICK = Unavailable.not_asked("needs --profile default")


def judge(
    driver: Any = None,
    access: Any = None,
    told: Any = None,
    *,
    grant: Any = None,
    where: str = "docker",
    devices: str | None = None,
    torch: Any = QUICK,
) -> Verdict:
    told, visible = told or nvml(), visible_gpus(told or nvml(), devices)
    return CHECK.judge(
        grant or gpu_grant(), driver or nvidia_driver(), access or gpu_access(), told, visible, runtime(where), torch
    )


@pytest.mark.parametrize("promised", [None, 1, 2])
@pytest.mark.parametrize("where", ["docker", "bare", "kubernetes"])
def test_all_is_well(promised: int | None, where: str) -> None:
    verdict = judge(grant=gpu_grant(promised=promised), where=where)

    assert (verdict.status, list(verdict.findings)) == ("pass", [])
    assert "2 listed" in verdict.seen


@pytest.mark.parametrize(
    ("driver", "access", "told", "where", "rung"),
    [
        (nvidia_driver(0), NO_NODES, NOTHING, "bare", "0 are on the PCI bus"),
        (nvidia_driver(0, pci=("0000:01:00.0",) * 2), NO_NODES, NOTHING, "bare", "driver is not loaded"),
        (nvidia_driver(0, pci=("0000:01:00.0",) * 2), NO_NODES, NOTHING, "docker", "0 have a node"),
        (nvidia_driver(0, pci=None), NO_NODES, NOTHING, "docker", "0 have a node"),  # no /sys in the container
        (nvidia_driver(2, nodes=gpu_nodes(1)), gpu_access(1), nvml(count=1), "docker", "1 have a node"),
        (nvidia_driver(2), gpu_access(2, errors={"nvidia1": "EPERM"}), nvml(count=1), "docker", "1 of the nodes in /dev open"),
        (nvidia_driver(2), gpu_access(2), NOTHING, "docker", "LIBRARY_NOT_FOUND"),
        (nvidia_driver(2), gpu_access(2), nvml_error("LIB_RM_VERSION_MISMATCH"), "bare", "different versions"),
        (nvidia_driver(2), gpu_access(2), nvml_error("UNKNOWN"), "docker", "was taken away"),
        (nvidia_driver(2), gpu_access(2), nvml_error("FOO"), "docker", "NVML says FOO"),
        (nvidia_driver(2), gpu_access(2), nvml(count=1), "docker", "NVML lists 1"),
        (nvidia_driver(0, platform="wsl", nodes=()), NO_NODES, NOTHING, "bare", "/dev/dxg"),
        (nvidia_driver(0, platform="wsl", nodes=("dxg",)), NO_NODES, NOTHING, "bare", "LIBRARY_NOT_FOUND"),
    ],
)
def test_a_promise_that_is_not_kept_names_the_rung(driver: Any, access: Any, told: Any, where: str, rung: str) -> None:
    verdict = judge(driver, access, told, grant=gpu_grant(promised=2), where=where)

    assert verdict.status == "fail"
    assert rung in verdict.findings[0].summary


@pytest.mark.parametrize(
    ("driver", "access", "told", "status"),
    [
        (nvidia_driver(2), gpu_access(2), NOTHING, "fail"),  # granted, for its nodes open
        (nvidia_driver(2), gpu_access(2), nvml_error("DRIVER_NOT_LOADED"), "fail"),
        (nvidia_driver(2), gpu_access(2), nvml(count=1), "fail"),
        (nvidia_driver(2), gpu_access(1), nvml(count=1), "pass"),  # the other node is another job's
        (nvidia_driver(2), gpu_access(1), nvml(count=2), "pass"),  # NVML lists all of a node whose devices are not constrained
        (nvidia_driver(2), gpu_access(0), nvml(gpu(0, errors={"nvmlDeviceGetHandleByIndex": "NO_PERMISSION"})), "pass"),
        (nvidia_driver(2, version=None, majors={}), gpu_access(2), nvml(), "pass"),  # a sandbox hides /proc/driver/nvidia
        (nvidia_driver(2, pci=None), gpu_access(2), nvml(), "pass"),
        (nvidia_driver(0, platform="wsl", nodes=("dxg",)), NO_NODES, nvml(count=1), "pass"),
    ],
)
def test_what_was_granted_without_a_promise(driver: Any, access: Any, told: Any, status: str) -> None:
    assert judge(driver, access, told).status == status


@pytest.mark.parametrize(
    ("driver", "where", "words"),
    [
        (nvidia_driver(0, pci=("0000:01:00.0",)), "docker", "was not given"),  # a container without GPUs on a machine with
        (nvidia_driver(2, nodes=()), "kubernetes", "was not given"),
        (nvidia_driver(0, pci=("0000:01:00.0",)), "bare", "cannot use"),  # nouveau drives the screen
    ],
)
def test_gpus_of_the_host_are_a_note(driver: Any, where: str, words: str) -> None:
    verdict = judge(driver, NO_NODES, NOTHING, where=where)

    assert [finding.level for finding in verdict.findings] == ["note"]
    assert words in verdict.findings[0].summary


@pytest.mark.parametrize(
    "driver",
    [
        nvidia_driver(0, version="550.90.07"),  # the driver waits for a card
        nvidia_driver(0, version="550.90.07", nodes=("nvidia-uvm", "nvidiactl")),
        nvidia_driver(0, platform="wsl", nodes=("dxg",)),  # WSL has /dev/dxg for any maker's card
        nvidia_driver(0, platform="wsl"),
    ],
)
def test_nothing_anywhere_and_nothing_promised(driver: Any) -> None:
    verdict = judge(driver, NO_NODES, NOTHING, where="bare")

    assert verdict.reason is not None
    assert (verdict.status, verdict.reason.detail) == ("skip", NO_GPU)


@pytest.mark.parametrize(
    ("devices", "grant", "level"),
    [
        ("", gpu_grant(), "note"),
        ("-1", gpu_grant(promised=2, source="Slurm's grant"), "note"),
        ("NoDevFiles", gpu_grant(), "note"),
        ("-1", gpu_grant(promised=2, source="--expect-gpus"), "fail"),
        ("0", gpu_grant(promised=2, source="--expect-gpus"), "fail"),
        ("0", gpu_grant(promised=2, source="Slurm's grant"), None),  # a rank that takes its own
        ("0", gpu_grant(promised=1, source="--expect-gpus"), None),
        ("0,1", gpu_grant(promised=2, source="--expect-gpus"), None),
        ("7", gpu_grant(), "fail"),  # hides all, and nobody meant it
    ],
)
def test_what_is_hidden(devices: str, grant: Any, level: str | None) -> None:
    levels = [finding.level for finding in judge(grant=grant, devices=devices).findings]

    assert levels == ([level] if level else [])


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"}, "has fallen off the bus"),
        ({"nvmlDeviceGetUUID": "GPU_IS_LOST"}, "has fallen off the bus"),
        ({"nvmlDeviceGetHandleByIndex": "UNKNOWN"}, "answers UNKNOWN"),
    ],
)
def test_a_gpu_that_is_lost_is_named(errors: dict[str, str], words: str) -> None:
    verdict = judge(told=nvml(gpu(0), gpu(1, errors=errors)), grant=gpu_grant(promised=2))

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [("fail", "gpu:1")]
    assert words in verdict.findings[0].summary


@pytest.mark.parametrize("error", ["NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND", "UNKNOWN"])
def test_a_call_that_is_not_answered_is_no_loss(error: str) -> None:
    assert judge(told=nvml(gpu(0), gpu(1, errors={"nvmlDeviceGetMigMode": error}))).status == "pass"


def test_slices_of_a_card_are_not_counted() -> None:
    """Seven instances were promised, all of one card."""
    verdict = judge(nvidia_driver(1), gpu_access(1), nvml(gpu(0, mig=True)), grant=gpu_grant(promised=7))

    assert verdict.status == "pass"


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(how="hung", step="nvmlDeviceGetCount"), "error"),
        (Ended(how="raised", error="ModuleNotFoundError: No module named 'pynvml'", step="import pynvml"), "error"),
        (Ended(how="exited", exit_code=1), "error"),
        (Ended(how="killed", signal="SIGKILL"), "error"),  # memory ran out
        (Ended(how="killed", signal="SIGSEGV", step="nvmlInit"), "fail"),
        (Ended(how="stuck", pid=7, state="D", wait_channel="os_acquire_mutex", step="nvmlInit"), "fail"),
    ],
)
def test_what_asking_did(ended: Ended, status: str) -> None:
    verdict = judge(told=nvml(ended=ended, count=0))
    told = verdict.findings[0].summary if verdict.findings else verdict.reason.detail if verdict.reason else ""

    assert verdict.status == status
    assert ended.in_words in told


def test_nodes_that_could_not_be_tried_do_not_hide_what_nvml_lists() -> None:
    assert judge(access=Unavailable.timeout("a test")).status == "pass"


FOR_CPUS = torch_gpus(0, torch_cuda=None)


@pytest.mark.parametrize(
    ("torch", "words", "cause"),
    [
        (FOR_CPUS, "it is built without CUDA", "torch-cuda-build"),
        (torch_gpus(0, init_code=None, driver_cuda=None), "libcuda.so.1 does not load", "gpu-libraries"),
        (torch_gpus(0, torch_cuda="13.0"), "it needs CUDA 13.0, and libcuda knows 12.4", "gpu-driver-floor"),
        (torch_gpus(0, init_code=34, driver_cuda=None), "cuInit gives 34, libcuda is a stub", "gpu-libraries"),
        (torch_gpus(0, init_code=803), "cuInit gives 803", "gpu-compat-library"),
        (torch_gpus(0, init_code=804, driver_cuda="12.8"), "compatibility package", "gpu-compat-library"),
        (torch_gpus(0, init_code=802), "fabric manager", "gpu-fabric"),
        (torch_gpus(0, init_code=999), "cuInit gives 999", "gpu-device-access"),
        (torch_gpus(0, init_code=4711), "cuInit gives 4711, CUDA does not begin", None),
        (torch_gpus(2, init_code=802), "PyTorch sees 0", "gpu-fabric"),  # PYTORCH_NVML_BASED_CUDA_CHECK=1 counts what NVML lists
        (torch_gpus(0), "CUDA itself begins", None),
    ],
)
def test_what_keeps_torch_from_seeing_them(torch: TorchGpus, words: str, cause: str | None) -> None:
    (finding,) = judge(torch=torch).findings

    assert (finding.level, finding.explained_by) == ("fail", cause)
    assert words in finding.summary
    assert finding.fixes or cause


def test_torchs_own_words_are_told() -> None:
    said = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."

    assert judge(torch=torch_gpus(0, driver_cuda="11.4", said=(said,))).findings[0].why == said


@pytest.mark.parametrize(
    ("torch", "case", "status"),
    [
        (torch_gpus(2), {}, "pass"),
        (torch_gpus(1), {}, "pass"),  # nobody named two
        (torch_gpus(1), {"grant": gpu_grant(promised=2)}, "fail"),
        (torch_gpus(1), {"grant": gpu_grant(promised=2, source="Slurm's grant"), "devices": "0"}, "pass"),  # a rank with its own
        (torch_gpus(0, init_code=100), {"devices": ""}, "pass"),  # hidden on purpose: a note
        (FOR_CPUS, {"grant": gpu_grant(promised=0, source="--expect-gpus")}, "pass"),
        (FOR_CPUS, {"driver": nvidia_driver(0, pci=("0000:01:00.0",)), "access": NO_NODES, "told": NOTHING}, "pass"),  # not ours
        (torch_gpus(1), {"told": nvml(gpu(0, mig=True), gpu(1, mig=True)), "grant": gpu_grant(promised=7)}, "pass"),  # instances
        (torch_gpus(0), {"told": nvml(gpu(0, mig=True), gpu(1, mig=True))}, "fail"),
        (Unavailable.absent("torch is not installed"), {}, "pass"),
        (Unavailable.absent("this Slurm job was granted no GPU"), {"access": gpu_access(0)}, "pass"),
        (Unavailable.failed("PyTorch cannot be asked"), {}, "error"),
        (Unavailable.timeout("did not fit"), {}, "error"),
        (Unavailable.failed("PyTorch cannot be asked"), {"told": nvml_error("UNKNOWN")}, "fail"),  # a lower rung decides
    ],
)
def test_torchs_own_count(torch: Any, case: dict[str, Any], status: str) -> None:
    assert judge(torch=torch, **case).status == status


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(how="killed", signal="SIGSEGV", step="cuInit"), "fail"),
        (Ended(how="stuck", pid=7, state="D", wait_channel="os_acquire_mutex", step="cuInit"), "fail"),
        (Ended(how="killed", signal="SIGKILL"), "error"),
        (Ended(how="hung", step="cuInit"), "error"),
        (Ended(how="raised", error="AttributeError: no cuInit", step="cuInit"), "error"),
    ],
)
def test_what_asking_torch_did(ended: Ended, status: str) -> None:
    verdict = judge(torch=TorchGpus(ended=ended))
    told = verdict.findings[0].summary if verdict.findings else verdict.reason.detail if verdict.reason else ""

    assert verdict.status == status
    assert ended.in_words in told
