from dl_doctor.contract import Check
from dl_doctor.facts import GpuStates, TorchGpus
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.units import count

NOT_READY = 802
"""cuInit: system not yet initialized; CUresult in cuda.h."""

UNWELL = {2: "unhealthy", 3: "of limited capacity"}
"""NVML_GPU_FABRIC_HEALTH_SUMMARY_*."""

DEGRADED = 1
"""The two lowest bits of the mask: NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE."""

NOT_HERE = frozenset({"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION", "GPU_IS_LOST", "ARGUMENT_VERSION_MISMATCH"})
"""What only says that this GPU, this driver or this user has no such thing, or what other checks tell."""

FUNCTIONS = ("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo")


def gpu_fabric(states: GpuStates, asked: TorchGpus) -> Verdict:
    """GPUs behind NVSwitches are part of their fabric

    ## What it checks
    Whether each GPU has been registered in the fabric of NVSwitches that it stands in, as NVML tells from Hopper on, and whether
    CUDA begins.

    ## Why it matters
    In a machine with NVSwitches a service of the host, the fabric manager, makes them known to each other. Without it, or with
    one of another version than the driver, nvidia-smi shows all GPUs and no program begins CUDA: error 802, "system not yet
    initialized".

    ## How it decides
    A GPU whose registration is not completed, or did not succeed, fails; so does CUDA's error 802. Divided into instances (MIG)
    a GPU is not in the fabric: a note. A fabric that the driver calls unhealthy, or slower than it should be, warns. Where NVML
    tells of no fabric (cards without NVSwitch, A100, older drivers) nothing is judged, unless CUDA says 802: then it fails.

    For example, eight H100 in state `in_progress` after the fabric manager was ended fail.

    ## How to fix
    Start the fabric manager of the driver's own version, on the host; in a virtual machine, whoever runs the host.

    ## Known limits
    Just after the node has started the registration takes up to a minute; another run tells. Which NVLinks are up is not looked
    at.

    ## References
    pytorch/pytorch#35710, dstackai/dstack#2348, leptonai/gpud#1147, Azure/azhpc-images#506, NVIDIA's Fabric Manager User Guide
    """
    waiting = asked.init_code == NOT_READY
    if states.ended.how != "answered" and not waiting:
        return Verdict.unknown(f"the fabric cannot be asked for: the process for it {states.ended.in_words}")
    inside = [gpu for gpu in states.gpus if gpu.fabric is not None and gpu.fabric.state != "not_supported"]
    if not inside and not waiting:
        told = ", ".join(sorted({without(gpu) for gpu in states.gpus}))
        reason = f"NVML tells of no fabric: {told or states.error}"
        return Verdict.skip(reason) if all(map(not_here, states.gpus)) else Verdict.unknown(reason)
    findings = [*unregistered(inside, begun=asked.init_code == 0), *unwell(inside)]
    if waiting and not any(finding.level == "fail" for finding in findings):
        findings.append(not_ready(inside))
    return Verdict(seen(inside, asked), findings)


def not_here(gpu: GpuState) -> bool:
    """Whether nothing should have been told: any other code should not have come."""
    return {gpu.errors[function] for function in FUNCTIONS if function in gpu.errors} <= NOT_HERE


def without(gpu: GpuState) -> str:
    if gpu.fabric is not None:
        return "not supported"
    return next((f"{function} {gpu.errors[function]}" for function in FUNCTIONS if function in gpu.errors), "no answer")


def seen(inside: list[GpuState], asked: TorchGpus) -> str:
    done = sum(registered(gpu) for gpu in inside)
    begun = "cuInit not asked" if asked.init_code is None else f"cuInit gives {asked.init_code}"
    return f"{done} of {len(inside)} GPUs in a fabric are registered, {begun}" if inside else f"NVML tells of no fabric, {begun}"


def registered(gpu: GpuState) -> bool:
    return gpu.fabric is not None and gpu.fabric.state == "completed" and gpu.fabric.status == "SUCCESS"


def unregistered(inside: list[GpuState], *, begun: bool) -> list[Finding]:
    found = []
    why = 'CUDA does not begin then: error 802, "system not yet initialized".'
    if begun:
        why = "CUDA begins, and GPUs that are to reach each other over NVLink may not."
    for divided in (False, True):
        gpus = [gpu for gpu in inside if not registered(gpu) and bool(gpu.mig) is divided]
        told = sorted({f"{gpu.fabric.state}, {gpu.fabric.status}" for gpu in gpus if gpu.fabric})
        if gpus:
            found.append(
                Finding(
                    level="note" if divided else "fail",
                    subject=", ".join(gpu.label for gpu in gpus),
                    summary=f"{count(len(gpus), 'GPU')} not registered in the fabric ({'; '.join(told)})"
                    + (": they are divided into instances" if divided else ""),
                    why="" if divided else why,
                    owner="admin",
                    fixes=() if divided else start_manager(),
                )
            )
    return found


def unwell(inside: list[GpuState]) -> list[Finding]:
    return [
        Finding(
            level="warn",
            subject=gpu.label,
            summary=f"{gpu.label}: the fabric is {trouble}",
            why="GPUs reach each other more slowly, or not at all.",
            owner="admin",
            fixes=(Fix("Have the switches and links looked at", ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e")),),
        )
        for gpu in inside
        if registered(gpu) and (trouble := trouble_of(gpu))
    ]


def trouble_of(gpu: GpuState) -> str | None:
    if gpu.fabric is None:
        return None
    if gpu.fabric.health in UNWELL:
        return UNWELL[gpu.fabric.health]
    return "slower than it should be" if ((gpu.fabric.health_mask or 0) & 3) == DEGRADED else None


def not_ready(inside: list[GpuState]) -> Finding:
    return Finding(
        level="fail",
        subject="fabric",
        summary="CUDA does not begin: error 802, system not yet initialized"
        + (", although NVML calls the fabric complete" if inside else ""),
        why="GPUs behind NVSwitches wait for the fabric manager, a service of the host.",
        owner="admin",
        fixes=start_manager(),
    )


def start_manager() -> tuple[Fix, ...]:
    commands = ("systemctl start nvidia-fabricmanager", "nv-fabricmanager --version  # is to be the driver's")
    return (Fix("Start the fabric manager", commands, risk="needs-root", note="On the host: no container can."),)


CHECK = Check(gpu_fabric, scope="node")
