from dl_doctor.contract import Check
from dl_doctor.facts import GpuStates, NvidiaDriver, OwnGpus
from dl_doctor.facts.gpu_states import GpuProcess, GpuState
from dl_doctor.model import Finding, Fix, Level, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size, count, percent

MOST_NAMED = 3
"""Processes that a sentence names."""

UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))
"""In seconds."""


def gpu_idle(states: GpuStates, own: OwnGpus, driver: NvidiaDriver | Unavailable) -> Verdict:
    """Nobody else uses this job's GPUs

    ## What it checks
    Memory in use, processes, and three samples of utilisation a third of a second apart, of the GPUs that are this job's:
    those in CUDA_VISIBLE_DEVICES, else those of Slurm's grant, else all.

    ## Why it matters
    A process that was left over from a job that crashed keeps its memory: the next one ends with "CUDA out of memory" on a GPU
    that should be empty. One that computes halves the speed, and nothing in the job tells why.

    ## How it decides
    A GPU warns of which more than 1 GiB and more than 3 % are in use (without what the driver keeps for itself), that is in use
    for more than 10 % of the time in all three samples, or on which a process of another user computes. Memory decides where no
    process is to be seen: NVML lists none of another container's. What a desktop takes, small processes of your own, and all of
    it in WSL are notes. Processes that the doctor was called from, such as a notebook or other ranks of this job, do not count.
    On a GPU that is in use nothing is measured.

    For example, python with pid 4711, yours, for 3 h, with 12 GiB of 80 GiB: it warns, with `kill 4711`.

    ## How to fix
    End what is left over, choose another GPU, or ask whose it is.

    ## Known limits
    Somebody who begins a second later is not seen. Drivers before 510 count the driver's own memory as used, and list no
    processes here. With persistence off, some old GPUs tell of utilisation when they are idle. GPUs that are divided (MIG) are
    left out, because what other instances do is no trouble.

    ## References
    NVIDIA/nvidia-docker#179, NVIDIA/nvidia-docker#1483, wookayin/gpustat#117, pytorch/pytorch#4293
    """
    if states.ended.how != "answered":
        return Verdict.unknown(f"the GPUs cannot be asked who uses them: the process for it {states.ended.in_words}")
    if states.error:
        return Verdict.skip(f"NVML does not begin any more: {states.error}")
    mine = [gpu for gpu in states.gpus if gpu.index in own.indices]
    if not mine:
        return Verdict.skip(f"none of the GPUs is this job's, by {own.source}")
    whole = [gpu for gpu in mine if not gpu.divided]
    known = [gpu for gpu in whole if gpu.memory_used_bytes is not None or gpu.utilisation]
    if not whole:
        return Verdict.skip("all of this job's GPUs are divided (MIG): what other instances do is no trouble")
    if not known:
        return Verdict.skip(f"NVML does not tell who uses them: {why_not(whole[0])}")
    wsl = isinstance(driver, NvidiaDriver) and driver.platform == "wsl"
    elsewhere = [gpu.index for gpu in known if of_use(gpu)]
    findings = [found for gpu in known if (found := judged(gpu, elsewhere, wsl=wsl))]
    return Verdict(seen(known, len(mine) - len(known)), findings)


def of_use(gpu: GpuState) -> bool:
    """Whether a job that looks for another GPU can take this one."""
    worn = gpu.remapped_rows is not None and gpu.remapped_rows.failed
    return not (gpu.in_use or gpu.lost or gpu.recovery_action or worn or gpu.compute_mode == "prohibited")


def why_not(gpu: GpuState) -> str:
    codes = [gpu.errors[name] for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates") if name in gpu.errors]
    return " and ".join(dict.fromkeys(codes)) or ", ".join(sorted(set(gpu.errors.values()))) or "no figures"


def seen(gpus: list[GpuState], others: int) -> str:
    used = [gpu.memory_used_bytes for gpu in gpus if gpu.memory_used_bytes is not None]
    samples = [min(gpu.utilisation) for gpu in gpus if gpu.utilisation]
    parts = [
        f"at most {binary_size(max(used))} of memory in use" if used else "memory in use not told",
        f"{percent(max(samples))} of the time in use" if samples else "utilisation not told",
        f"processes: {sum(len(gpu.processes) for gpu in gpus)}",
    ]
    left_out = f"; {others} not told of" if others else ""
    return f"{count(len(gpus), 'GPU')}: {', '.join(parts)}{left_out}"


def judged(gpu: GpuState, elsewhere: list[int], *, wsl: bool) -> Finding | None:
    leftovers = [process for process in gpu.processes if process.leftover]
    if not gpu.taken and not leftovers:
        return None
    why = "What it takes of memory and time is missing here, and nothing that is measured on it means anything."
    if gpu.utilised and not gpu.filled and gpu.persistence is False:
        why += " With persistence off, some old drivers tell of utilisation where nothing runs."
    return Finding(
        level=level_of(gpu, wsl=wsl),
        subject=gpu.label,
        summary=f"GPU {gpu.index} is {'in use' if gpu.taken else 'not empty'}: {use_of(gpu)}; {whose(gpu)}",
        measured=Quantity(gpu.memory_used_bytes, "bytes", "NVML") if gpu.filled and gpu.memory_used_bytes else None,
        expected=Quantity(gpu.allowed_bytes, "bytes", "an idle GPU") if gpu.filled else None,
        relation="at_most" if gpu.filled else None,
        why=why,
        owner="you" if leftovers else "admin",
        fixes=fixes_of(leftovers, elsewhere),
    )


def level_of(gpu: GpuState, *, wsl: bool) -> Level:
    """A desktop, and all that Windows has beside WSL, is as it should be; so is a small process of one's own."""
    if wsl or not gpu.taken:
        return "note"
    if any(process.stranger or process.leftover for process in gpu.processes):
        return "warn"
    return "note" if of_a_desktop(gpu) else "warn"


def of_a_desktop(gpu: GpuState) -> bool:
    """Whether what draws on a screen explains it all."""
    drawing = [process for process in gpu.processes if process.kind == "graphics"]
    if gpu.utilised and not gpu.display_active:
        return False
    if not gpu.filled:
        return True
    if not gpu.display_active and any(process.uid and not process.ours for process in drawing):
        return False  # another user's program draws without a screen, and is no desktop
    if any(process.memory_bytes is None for process in drawing):
        return bool(gpu.display_active)
    explained = sum(process.memory_bytes or 0 for process in drawing) + gpu.related_bytes
    return (gpu.memory_used_bytes or 0) - explained <= gpu.allowed_bytes


def use_of(gpu: GpuState) -> str:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    of_all = f" of {binary_size(total)}" if total else ""
    parts = [f"{binary_size(used)}{of_all} of memory"] if used is not None else []
    if gpu.utilised:
        parts.append(f"at least {percent(min(gpu.utilisation))} of the time")
    return ", ".join(parts)


def whose(gpu: GpuState) -> str:
    """Those that hold the most first."""
    others = sorted((one for one in gpu.processes if not one.related), key=lambda one: one.memory_bytes or 0, reverse=True)
    if not others:
        listed = "NVML lists no process" if gpu.processes_known else "NVML does not tell of processes"
        return f"{listed}: whoever it is, is in another container or out of sight"
    more = f", and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return ", ".join(map(in_words, others[:MOST_NAMED])) + more


def in_words(process: GpuProcess) -> str:
    if process.uid is None:
        return f"pid {process.pid}, which is not to be seen here"
    user = "yours" if process.ours else f"of user {process.uid}"
    size = f" with {binary_size(process.memory_bytes)}" if process.memory_bytes is not None else ""
    draws = ", drawing" if process.kind == "graphics" else ""
    age = f", for {duration(process.age_s)}" if process.age_s is not None else ""
    return f"{process.name} (pid {process.pid}, {user}{draws}{age}){size}"


def duration(seconds: float) -> str:
    """`119 s`, `5 min`, `3 h`, `2 days`: whole ones, and two at least."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= 2 * size), (1, "s"))
    return f"{seconds // size:.0f} {unit}"


def fixes_of(leftovers: list[GpuProcess], elsewhere: list[int]) -> tuple[Fix, ...]:
    pids = " ".join(str(process.pid) for process in leftovers)
    end = (Fix("End what is left over, if nobody wants it", (f"kill {pids}",), risk="disruptive"),) if pids else ()
    take = f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={','.join(map(str, elsewhere))}"
    move = (Fix("Take GPUs that are idle", (take,)),) if elsewhere else ()
    look = Fix("See whose it is, on the host and outside all containers", ("nvidia-smi",), note="Its list names all processes.")
    return (*end, *move, *(() if leftovers else (look,)))


CHECK = Check(gpu_idle, scope="node")
