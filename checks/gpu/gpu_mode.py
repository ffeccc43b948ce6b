from dl_doctor.contract import Check
from dl_doctor.facts import GpuSharing, GpuStates, OwnGpus, Ranks, Slurm, TorchGpus, VisibleGpus
from dl_doctor.facts.gpu_sharing import Mps
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count

COMPUTE_MODE = "nvmlDeviceGetComputeMode"

NOT_HERE = frozenset({"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION", "no answer"})
"""What only says that this GPU, this driver or this user has no such thing; any other code should not have come."""

EXCLUSIVE = ("exclusive_process", "exclusive_thread")

UNLICENSED_MIN = 20
"""Minutes after which a vGPU without a licence is slowed down; NVIDIA's Virtual GPU Client Licensing User Guide."""


def gpu_mode(
    states: GpuStates,
    own: OwnGpus | Unavailable,
    sharing: GpuSharing | Unavailable,
    ranks: Ranks | Unavailable,
    slurm: Slurm | Unavailable,
    visible: VisibleGpus | Unavailable,
    asked: TorchGpus | Unavailable,
) -> Verdict:
    """The GPUs are in a mode in which this job can use them

    ## What it checks
    Each GPU's compute mode, whether it is divided into instances (MIG) or a part of a GPU (vGPU, and its licence), the daemon
    through which processes share GPUs (MPS), and libraries that catch CUDA's calls to give out parts of a GPU.

    ## Why it matters
    A GPU in prohibited mode is listed and cannot be used; one in exclusive mode takes one process: the second rank on it ends in
    "all CUDA-capable devices are busy or unavailable". Every program that begins CUDA looks for MPS; where its socket is there
    and nobody listens, CUDA ends with error 805. And what is measured on a part of a GPU tells nothing of the GPU.

    ## How it decides
    Only this job's GPUs are judged. Prohibited mode fails; it is a warning where CUDA_VISIBLE_DEVICES leaves out GPUs of several
    models, which CUDA counts in an order of its own. Exclusive mode warns where more ranks than GPUs are on the node and no MPS
    runs. MPS fails where its socket is there and nobody listens, and warns where this user may not use it; if CUDA has begun all
    the same, which the default profile tries, it is a note. A folder without a socket is a note: CUDA goes on without MPS.
    /dev/null there keeps MPS away on purpose. A vGPU without a licence warns. vGPUs, MPS, and catching libraries are notes:
    `gpu-throughput` then gives numbers and no verdict. So are instances, which it holds against their part of the GPU. What the
    driver does not tell is skipped.

    For example, /tmp/nvidia-mps of the host, bound into a container after the daemon was ended, fails: no job there has MPS in
    mind, and none begins CUDA.

    ## How to fix
    `nvidia-smi -c DEFAULT` as the admin; start the daemon of MPS, or end it and remove its folder; license the vGPU.

    ## Known limits
    Who has an exclusive GPU already is told by gpu-idle. What CUDA does where the socket of MPS is refused was read in public
    threads and not tried. Whether the daemon of MPS serves this user, and whether its container
    shares memory with this one, a run on the GPU tells. Time slicing by Kubernetes' device plugin leaves no trace here.

    ## References
    NVIDIA/nvidia-container-toolkit#714, bottlerocket-os/bottlerocket-kernel-kit#415, pytorch/pytorch#3871,
    NVIDIA/DIGITS#2005, Project-HAMi/HAMi-core, NVIDIA's pages on MPS and on vGPU licensing
    """
    if states.ended.how != "answered":
        return Verdict.unknown(f"the GPUs' modes cannot be asked: the process for it {states.ended.in_words}")
    mine = {gpu.index for gpu in states.gpus} if isinstance(own, Unavailable) else set(own.indices)
    gpus = [gpu for gpu in states.gpus if gpu.index in mine and not gpu.lost]
    if not gpus:
        return Verdict.skip("no GPU of this job's answers; gpu-visible says why")
    mps = sharing.mps if isinstance(sharing, GpuSharing) else None
    findings = [
        *prohibited(gpus, visible),
        *crowded(gpus, mps, ranks, max(len(states.gpus), len(slurm.gpus) if isinstance(slurm, Slurm) else 0)),
        *unlicensed(gpus),
        *unreachable(mps, asked),
        *shared(gpus, sharing),
    ]
    told = [gpu for gpu in gpus if gpu.compute_mode is not None or gpu.mig is not None or gpu.virtualization is not None]
    if not told and not findings:
        codes = sorted({gpu.errors.get(COMPUTE_MODE, "no answer") for gpu in gpus})
        reason = f"the driver tells no mode of these GPUs ({COMPUTE_MODE}: {', '.join(codes)})"
        return Verdict.skip(reason) if set(codes) <= NOT_HERE else Verdict.unknown(reason)
    return Verdict(seen(gpus, mps), findings)


def seen(gpus: list[GpuState], mps: Mps | None) -> str:
    modes = sorted({(gpu.compute_mode or "unknown").replace("_", " ") for gpu in gpus})
    divided = sum(gpu.divided for gpu in gpus)
    parts = [f"compute mode {', '.join(modes)}", f"{divided} of {len(gpus)} divided into instances"]
    parts += sorted({f"virtualization {gpu.virtualization}" for gpu in gpus if gpu.virtualization not in (None, "none")})
    parts.append(f"MPS: {mps.folder} {mps.daemon}" if mps else "no MPS")
    return ", ".join(parts)


def labels(gpus: list[GpuState]) -> str:
    return ", ".join(gpu.label for gpu in gpus)


def prohibited(gpus: list[GpuState], visible: VisibleGpus | Unavailable) -> list[Finding]:
    closed = [gpu for gpu in gpus if gpu.compute_mode == "prohibited"]
    if not closed:
        return []
    chosen = isinstance(visible, VisibleGpus) and visible.told is not None and len(visible.taken) < len(gpus)
    return [
        Finding(
            level="warn" if chosen else "fail",
            subject=labels(closed),
            summary=f"{labels(closed)} in prohibited mode: no program can compute there"
            + (", unless CUDA_VISIBLE_DEVICES leaves it out" if chosen else ""),
            why='CUDA ends in "all CUDA-capable devices are busy or unavailable".',
            owner="admin",
            fixes=(default_mode(closed),),
        )
    ]


def crowded(gpus: list[GpuState], mps: Mps | None, ranks: Ranks | Unavailable, usable: int) -> list[Finding]:
    """More ranks than GPUs that take one process each. Each rank may see one of those that all of them may use."""
    single = [gpu for gpu in gpus if gpu.compute_mode in EXCLUSIVE]
    served = mps is not None and mps.daemon == "listens"
    if not single or served or isinstance(ranks, Unavailable) or ranks.on_node <= usable:
        return []
    return [
        Finding(
            level="warn",
            subject=labels(single),
            summary=f"{labels(single)} in exclusive mode, and {ranks.on_node} ranks share {count(usable, 'GPU')}",
            measured=Quantity(usable, "GPUs", "NVML and Slurm's grant"),
            expected=Quantity(ranks.on_node, "GPUs", ranks.source),
            relation="at_least",
            why='A GPU takes one process then; the next one ends in "all CUDA-capable devices are busy or unavailable".',
            fixes=(
                Fix("Start as many ranks as there are GPUs", (f"torchrun --nproc-per-node={usable} ...",)),
                default_mode(single),
            ),
        )
    ]


def default_mode(gpus: list[GpuState]) -> Fix:
    numbers = ",".join(str(gpu.index) for gpu in gpus)
    return Fix("Have the mode set back", (f"nvidia-smi -i {numbers} -c DEFAULT",), risk="needs-root", note="On the host.")


def unlicensed(gpus: list[GpuState]) -> list[Finding]:
    bare = [gpu for gpu in gpus if gpu.virtualization == "vgpu" and gpu.licensed is False]
    if not bare:
        return []
    return [
        Finding(
            level="warn",
            subject=labels(bare),
            summary=f"{labels(bare)}: a vGPU without a licence",
            why=f"NVIDIA's driver slows it down when it has run for {UNLICENSED_MIN} minutes.",
            owner="admin",
            fixes=(Fix("Have it licensed", ("nvidia-smi -q | grep -i -A1 license", "systemctl restart nvidia-gridd")),),
        )
    ]


def unreachable(mps: Mps | None, asked: TorchGpus | Unavailable) -> list[Finding]:
    if mps is None or mps.daemon in ("listens", "unknown") or mps.folder.startswith("/dev/"):
        return []
    begun = isinstance(asked, TorchGpus) and asked.init_code == 0
    words = {
        "absent": f"CUDA_MPS_PIPE_DIRECTORY={mps.folder} has no daemon's socket: CUDA goes on without MPS",
        "refuses": f"The daemon of MPS has gone, and its socket is still in {mps.folder}",
        "denied": f"The daemon of MPS may not be reached by this user: {mps.folder}",
    }
    failing = {"refuses": "fail", "denied": "warn"}.get(mps.daemon, "note")
    remove = f"rm -r {mps.folder}" if not mps.said else "unset CUDA_MPS_PIPE_DIRECTORY"
    return [
        Finding(
            level="note" if begun or failing == "note" else "fail" if failing == "fail" else "warn",
            subject=mps.folder,
            summary=words[mps.daemon] + (", and CUDA begins all the same" if begun and mps.daemon != "absent" else ""),
            why="Every program that begins CUDA looks for it there; error 805 (mpsConnectionFailed) where it does not answer.",
            fixes=(
                Fix("Start the daemon, as the user whose job this is", ("nvidia-cuda-mps-control -d",)),
                Fix("Or do without it, where nothing else uses it", (remove,)),
                Fix("Or do not bind it into the container", (), ("docker", "podman", "compose", "kubernetes", "apptainer")),
            ),
        )
    ]


def shared(gpus: list[GpuState], sharing: GpuSharing | Unavailable) -> list[Finding]:
    """What is a part of a GPU."""
    reasons = [*(sharing.without_verdict if isinstance(sharing, GpuSharing) else ())]
    found = [note("sharing", f"What is measured here tells nothing of the GPU: {'; '.join(reasons)}")] if reasons else []
    for gpu in gpus:
        if gpu.mig and gpu.mig_instances:
            found.append(note(gpu.label, f"{gpu.label} is divided into instances (MIG), {gpu.mig_instances} of them seen here"))
        elif gpu.mig:
            found.append(note(gpu.label, f"{gpu.label} is in MIG mode, and no instance is seen: CUDA shows nothing of it"))
        if gpu.virtualization == "vgpu" and gpu.licensed is not False:
            found.append(note(gpu.label, f"{gpu.label} is a part of a GPU (vGPU)"))
    return found


def note(subject: str, summary: str) -> Finding:
    why = "Rates of a part are not held against those of a whole GPU."
    return Finding(level="note", subject=subject, summary=summary, why=why)


CHECK = Check(gpu_mode, scope="node")
