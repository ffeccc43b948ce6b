from dl_doctor.contract import Check
from dl_doctor.facts import CudaSmoke, GpuGrant, Limits
from dl_doctor.facts.cuda_errors import BUSY, ERRORS, OUT_OF_MEMORY, RESET, CudaError
from dl_doctor.facts.cuda_smoke import SmokedGpu, Tried
from dl_doctor.model import Ended, Finding, Fix, Level, Owner, Quantity, Reason, Unavailable, Verdict
from dl_doctor.units import count, plain

ADDRESSES = Fix("Lift the limit on addresses", ("ulimit -v unlimited",), note="Some schedulers set it from the memory asked for.")


def cuda_smoke(smoke: CudaSmoke, grant: GpuGrant | Unavailable, limits: Limits | Unavailable) -> Verdict:
    """The GPUs compute, and compute right

    ## What it checks
    On each GPU of this job, by the job's own PyTorch in a process of its own: a copy, a small product, an addition and a small
    convolution, against the same on a CPU. A rank tries the GPU of its own number, which its launcher says; without ranks all
    that are visible are tried.

    ## Why it matters
    GPUs that are listed, open and well by all counters still fail at the first kernel: a driver that does not fit the kernel, a
    fabric manager that does not run, a build without code for this GPU, a GPU that waits for a reset. Only computing shows it.

    ## How it decides
    An error fails, and so does a single value that is wrong: all numbers are small and whole, so that every format holds them
    exactly, and only a convolution may round. The finding says what the error's code means. After an error the other GPUs are
    tried in another process, because CUDA may give the same error for all that follows. A process that dies, or is stuck in the
    kernel, fails too; one that does not come back in time is an error, told with its pid, its state and what it waits for.

    A GPU that another process holds in exclusive mode, that computes for somebody else or has no GiB of memory left is left
    alone, and then this check is skipped. One that raises "out of memory" all the same is an error: it may be full, or ill. An
    integrated GPU beside one that computes only warns.

    For example, PyTorch of CUDA 13 on a V100 (compute capability 7.0) fails with code 209: it has no code for this kind of GPU.

    ## How to fix
    By the code: another build of PyTorch, another driver, the daemon that is missing, or a reset of the GPU.

    ## Known limits
    It takes a moment and some MiB: a GPU that errs when it is hot, or in memory that was not touched, passes. Two processes on an
    exclusive GPU, of which this is one, are in each other's way while it runs.

    ## References
    NVIDIA/open-gpu-kernel-modules#797, scitix/sichek#121, NVIDIA/DCGM#263, pytorch/pytorch#31285, pytorch/pytorch#53738,
    NVIDIA/cuda-python#2458; the CUDA driver API's page of data types
    """
    if not smoke.gpus:
        return nothing_tried(smoke, grant)
    well = [gpu for gpu in smoke.gpus if gpu.right]
    findings = [finding for gpu in smoke.gpus for finding in judged(gpu, limits, beside_another=bool(well))]
    return Verdict(seen(smoke, well), findings, not_told(smoke, limits))


def nothing_tried(smoke: CudaSmoke, grant: GpuGrant | Unavailable) -> Verdict:
    """CUDA did not begin, or torch saw no GPU."""
    ended = smoke.ended
    if brought_down(ended):
        return Verdict("", [died("torch", f"CUDA cannot be used: a process that began it {ended.in_words}", ended)])
    if ended.how != "answered":
        return Verdict.unknown(f"whether CUDA begins cannot be told: a process {ended.in_full}")
    promised = isinstance(grant, GpuGrant) and bool(grant.promised)
    if smoke.backend == "hip" and not promised:
        return Verdict.skip("PyTorch sees no GPU of AMD's, and none was promised")
    error = ERRORS.get(smoke.init_code or 0)
    gives = f"cuInit gives {smoke.init_code}, {error.meaning if error else 'which is none of the usual codes'}"
    return Verdict(
        "",
        [
            Finding(
                level="fail",
                subject="torch",
                summary=f"PyTorch sees no GPU{f': {gives}' if smoke.init_code else ''}",
                why=" ".join(smoke.said) or "The job runs on CPUs, or ends at its first call of CUDA.",
                owner=owner_of(error),
                fixes=error.fixes if error else (RESET,),
                explained_by="gpu-visible",
            )
        ],
    )


def seen(smoke: CudaSmoke, well: list[SmokedGpu]) -> str:
    own = "" if smoke.rank is None else f" (that of rank {smoke.rank})"
    right = f"{len(well)} of {count(len(smoke.gpus), 'GPU')} tried{own} computed right"
    begin = [gpu.copy.took_s for gpu in well if gpu.copy and gpu.copy.took_s is not None]
    slowest = f"; beginning took {plain(max(begin))} s at most" if begin else ""
    left = [f"; {gpu.label} left alone: {gpu.skipped}" for gpu in smoke.gpus if gpu.skipped]
    return f"{right}{slowest}{''.join(left)}"


def not_told(smoke: CudaSmoke, limits: Limits | Unavailable) -> Reason | None:
    """What keeps this from being a pass where nothing is broken: each GPU is to be seen computing."""
    late = [gpu for gpu in smoke.gpus if gpu.ended and not brought_down(gpu.ended)]
    if late:
        told = "; ".join(f"{gpu.label}: a process {gpu.ended.in_full}" for gpu in late if gpu.ended)
        return Reason("failed", f"whether it computes cannot be told. {told}")
    if smoke.stopped or smoke.ended.how not in ("answered", "killed", "exited"):
        return Reason("failed", f"not all GPUs were tried: the last process {smoke.ended.in_full}")
    full = [gpu.label for gpu in smoke.gpus if out_of_memory(gpu, limits)]
    if full:
        return Reason(
            "failed", f"whether it computes cannot be told, because it is full or ill: {', '.join(full)}: out of memory"
        )
    held = [f"{gpu.label}: {why}" for gpu in smoke.gpus if (why := gpu.skipped or held_by_another(gpu))]
    return Reason("absent", f"not tried, because it is in use: {'; '.join(held)}") if held else None


def held_by_another(gpu: SmokedGpu) -> str | None:
    """Why an error only says that another process has this GPU, if so."""
    held = code_of(gpu) == BUSY and gpu.exclusive
    return "another process holds it, in exclusive mode" if held else None


def out_of_memory(gpu: SmokedGpu, limits: Limits | Unavailable) -> bool:
    """Whether it may have filled up meanwhile, or be ill: one that was full before is left alone."""
    return code_of(gpu) == OUT_OF_MEMORY and not limited(limits)


def code_of(gpu: SmokedGpu) -> int | None:
    broken = broken_in(gpu)
    return broken[1].code if broken else None


def limited(limits: Limits | Unavailable) -> bool:
    return isinstance(limits, Limits) and limits.address_space_bytes is not None


def broken_in(gpu: SmokedGpu) -> tuple[str, Tried] | None:
    """The computation that raised."""
    return next(((what, tried) for what, tried in gpu.tried.items() if tried.error), None)


def judged(gpu: SmokedGpu, limits: Limits | Unavailable, *, beside_another: bool) -> list[Finding]:
    if gpu.ended and brought_down(gpu.ended):
        return [died(gpu.label, f"{named(gpu)} cannot be used: a process that computed on it {gpu.ended.in_words}", gpu.ended)]
    level: Level = "warn" if gpu.integrated and beside_another else "fail"
    if (broken := broken_in(gpu)) and not (held_by_another(gpu) or out_of_memory(gpu, limits)):
        return [raised(gpu, *broken, level, limits)]
    return [miscomputed(gpu, what, tried.wrong) for what, tried in gpu.tried.items() if tried.wrong]


def raised(gpu: SmokedGpu, what: str, tried: Tried, level: Level, limits: Limits | Unavailable) -> Finding:
    code = tried.code
    error = ERRORS.get(code) if code is not None else None
    first = (tried.error or "").partition("\n")[0].rstrip(".")
    arch = f" It is {gpu.arch}; PyTorch's build must name it." if gpu.arch else ""
    addresses = code == OUT_OF_MEMORY and limited(limits)
    return Finding(
        level=level,
        subject=gpu.label,
        summary=f"{named(gpu)} fails at a {what}: {f'{error.meaning} (code {code})' if error else f'it raises {first}'}",
        why=f"{first}.{arch}",
        owner=owner_of(error),
        fixes=(ADDRESSES,) if addresses else (*(error.fixes if error else (RESET,)), *around(gpu, level)),
        explained_by=error.cause if error else "cuda-libraries" if what == "convolution" else None,
    )


def around(gpu: SmokedGpu, level: Level) -> tuple[Fix, ...]:
    hide = "HIP_VISIBLE_DEVICES" if gpu.arch else "CUDA_VISIBLE_DEVICES"
    return (Fix("Show the job the other GPU only", (f"export {hide}=...",)),) if level == "warn" else ()


def miscomputed(gpu: SmokedGpu, what: str, wrong: float | None) -> Finding:
    return Finding(
        level="fail",
        subject=gpu.label,
        summary=f"{named(gpu)} computes wrong: {plain(100 * (wrong or 0))} % of the values of a {what} are not those of a CPU",
        measured=Quantity(100 * (wrong or 0), "%", f"values of a {what} that differ"),
        expected=Quantity(0, "%", "whole numbers, which every format holds"),
        relation="at_most",
        why="No format rounds here. Whatever trains on it learns from wrong numbers, and nothing says so.",
        owner="admin",
        fixes=(Fix("Take it out of use and reset it, or have it replaced", RESET.commands, risk="needs-root"),),
    )


def died(subject: str, summary: str, ended: Ended) -> Finding:
    stuck = " It cannot be killed, and only a restart of the node ends it." if ended.how == "stuck" else ""
    return Finding(
        level="fail",
        subject=subject,
        summary=summary,
        why=f"The job will end so too: the driver or a GPU is ill, or a library does not fit.{stuck}",
        owner="admin",
        fixes=(RESET,),
        explained_by="gpu-visible" if subject == "torch" else None,
    )


def brought_down(ended: Ended) -> bool:
    """Whether computing ended the process, or never comes back from the kernel. SIGKILL is the kernel's, out of memory."""
    return ended.how in ("killed", "stuck") and ended.signal != "SIGKILL"


def named(gpu: SmokedGpu) -> str:
    return f"GPU {gpu.index}{f' ({gpu.name})' if gpu.name else ''}"


def owner_of(error: CudaError | None) -> Owner:
    return "admin" if not error or any(fix.risk == "needs-root" for fix in error.fixes) else "you"


CHECK = Check(cuda_smoke, essential=True, scope="node")
