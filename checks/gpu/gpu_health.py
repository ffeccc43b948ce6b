from collections.abc import Iterator

from dl_doctor.contract import Check
from dl_doctor.facts import GpuStates, OwnGpus
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Finding, Fix, Level, Owner, Reason, Unavailable, Verdict
from dl_doctor.units import count

ACTIONS: dict[int, tuple[Level, str]] = {
    1: ("fail", "be reset"),
    2: ("fail", "have its node rebooted"),
    3: ("warn", "have its peer-to-peer traffic drained"),
    4: ("warn", "be drained, and then reset"),
    5: ("warn", "have its IMEX domain recovered"),
    6: ("fail", "have its bus reset"),
    7: ("fail", "have its system rebooted"),
}
"""What the driver wants done, NVML_GPU_RECOVERY_ACTION_* of nvml.h, and whether work can go on until then; 0 is nothing. 3 to 5
let what runs there end."""

REBOOT = (2, 7)
"""Those that a reset of the GPU does not do."""

RECOVERY = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
HANDLE = "nvmlDeviceGetHandleByIndex"
ROWS = "nvmlDeviceGetRemappedRows"

NO_ROWS = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND")
"""What it gives where the GPU, or a driver from before there were such GPUs, has none to remap."""

SIGNS = {
    "recovery action": (RECOVERY, "nvmlDeviceGetFieldValues"),
    "remapped rows": (ROWS,),
    "memory errors": ("nvmlDeviceGetTotalEccErrors",),
    "retired pages": ("nvmlDeviceGetRetiredPages",),
}
"""What NVML tells of a GPU's health, and by which calls. No kind of GPU has all of them."""

NOT_HERE = frozenset(
    {
        *("NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION", "INVALID_ARGUMENT", "ARGUMENT_VERSION_MISMATCH"),
        *("VGPU_ECC_NOT_SUPPORTED", "DEPRECATED"),
    }
)
"""Codes that only say that this GPU, this driver or this user has no such thing."""

GONE = {"GPU_IS_LOST": "has fallen off the bus", "RESET_REQUIRED": "has to be reset"}
"""Codes of any call, by which the GPU is of no use; nvml.h."""

MEANT_FOR_MEMORY = (
    "NVIDIA's guide to GPU memory error management tells what each count means: rows are replaced at a reset, and until then "
    "what uses them may be ended."
)


def gpu_health(states: GpuStates, own: OwnGpus | Unavailable) -> Verdict:
    """The GPUs are in good health

    ## What it checks
    What NVML tells of each GPU's health: the recovery action that the driver wants, errors of its memory (ECC) since the driver
    was loaded, rows of its memory that were remapped, and pages that were retired.

    ## Why it matters
    A GPU can be seen and yet be ill: the job then ends with "uncorrectable ECC error encountered" or "unspecified launch failure"
    hours later, or hangs for all ranks.

    ## How it decides
    Fails: the driver wants a reset or a reboot, remapping has failed, errors in the chip's own memory (SRAM) that could not be
    corrected, and such errors in the GPU's memory where it cannot remap rows. Warns: a driver that wants the GPU drained, or
    something that is not known here; a remapping or a retirement that waits for a reset; uncorrected errors that were contained.
    Counts alone are a note: rows that were replaced are what spare rows are for. What a GPU does not support is left out, and one
    that tells of nothing is skipped. What is wrong with GPUs that are not this job's (CUDA_VISIBLE_DEVICES, Slurm's grant) is a
    note; one that does not say which it is counts as this job's.

    For example, an A100 with 2 uncorrected errors and a row that waits to be remapped warns: work may go on, and the row is
    replaced at the next reset.

    ## How to fix
    Take the node out of the scheduler, then reset the GPU or reboot. If it comes again, have the GPU replaced.

    ## Known limits
    Counts are since the driver was loaded. A GPU with all counts at zero can still compute wrongly. Instances (MIG) share the
    counts of the whole GPU, which they may not see: GPUs with instances are skipped.

    ## References
    NVIDIA's GPU memory error management guide, NVIDIA/DCGM#263, leptonai/gpud#80, leptonai/gpud#108, Azure/azurehpc#752
    """
    ended = states.ended
    if ended.how == "stuck":
        return Verdict("", [stuck(ended.in_words)])
    if ended.how != "answered":
        return Verdict.unknown(f"the GPUs cannot be asked how they are: the process for it {ended.in_words}")
    if states.error:
        return Verdict.skip(f"NVML does not begin any more: {states.error}")
    mine = [gpu for gpu in states.gpus if is_ours(gpu, own)]
    if not mine and isinstance(own, OwnGpus):
        return Verdict.skip(f"none of the GPUs is this job's, by {own.source}")
    whole = [gpu for gpu in mine if not gpu.divided]
    if not whole:
        return Verdict.skip("all GPUs are divided (MIG), and instances do not tell of the GPU's health")
    findings = [finding for gpu in whole for finding in judged(gpu)]
    told = [gpu for gpu in whole if signs_of(gpu)]
    wrong = [f"GPU {gpu.index} does not {failure}" for gpu in whole if not gone(gpu) for failure in failures(gpu)]
    if not told and not findings and not wrong:
        return Verdict.skip(f"the GPUs tell nothing of their health: {codes_of(whole)}")
    reason = Reason("failed", "; ".join(wrong)) if wrong else None
    others = [gpu for gpu in states.gpus if gpu not in mine and not gpu.divided]
    return Verdict(seen(whole, told, len(mine) - len(whole)), [*findings, *of_others(others)], reason)


def is_ours(gpu: GpuState, own: OwnGpus | Unavailable) -> bool:
    """Those that NVML does not even know a handle of may be anybody's."""
    return isinstance(own, Unavailable) or own.source == "NVML" or gpu.index in own.indices or HANDLE in gpu.errors


def of_others(gpus: list[GpuState]) -> Iterator[Finding]:
    wrong = [finding.summary for gpu in gpus for finding in judged(gpu) if finding.level != "note"]
    if wrong:
        summary = f"Of GPUs that are not this job's: {'; '.join(wrong)}"
        yield Finding(level="note", subject="other GPUs", summary=summary, owner="admin")


def signs_of(gpu: GpuState) -> list[str]:
    """What it tells of."""
    errors = gpu.memory_errors
    known = {
        "recovery action": gpu.recovery_action,
        "remapped rows": gpu.remapped_rows,
        "memory errors": errors and (errors.uncorrected if errors.uncorrected is not None else errors.sram_uncorrected),
        "retired pages": gpu.retired_pages,
    }
    return [name for name, value in known.items() if value is not None]


def failures(gpu: GpuState) -> list[str]:
    """What it should tell and does not, with the code."""
    codes = {f"tell of {name}": gpu.errors[call] for name, calls in SIGNS.items() for call in calls if call in gpu.errors}
    codes |= {"answer": gpu.errors[HANDLE]} if HANDLE in gpu.errors else {}
    return [f"{what}: {code}" for what, code in codes.items() if code not in NOT_HERE]


def codes_of(gpus: list[GpuState]) -> str:
    calls = {HANDLE, *(call for calls in SIGNS.values() for call in calls)}
    codes = sorted({code for gpu in gpus for call, code in gpu.errors.items() if call in calls})
    return " and ".join(codes) or "no answer"


def seen(whole: list[GpuState], told: list[GpuState], divided: int) -> str:
    names = [name for name in SIGNS if any(name in signs_of(gpu) for gpu in told)]
    what = f"{'tells' if len(whole) == 1 else 'tell'} of {', '.join(names) or 'nothing'}"
    left_out = f"; {divided} divided (MIG) left out" if divided else ""
    return f"{f'{len(told)} of ' if len(told) < len(whole) else ''}{count(len(whole), 'GPU')} {what}{left_out}"


def gone(gpu: GpuState) -> str | None:
    return next((code for code in GONE if code in gpu.errors.values()), None)


def judged(gpu: GpuState) -> Iterator[Finding]:
    if code := gone(gpu):
        why = f"NVML says {code}. What runs there ends, and CUDA often fails for all GPUs of a node meanwhile."
        yield found(gpu, "fail", GONE[code], why, explained_by="gpu-visible" if code == "GPU_IS_LOST" else None)
        return
    yield from by_action(gpu)
    yield from by_rows_and_pages(gpu)
    yield from by_errors(gpu)
    yield from counts(gpu)


def by_action(gpu: GpuState) -> Iterator[Finding]:
    if not gpu.recovery_action:
        return
    unknown: tuple[Level, str] = ("warn", f"have something done that is not known here ({gpu.recovery_action})")
    level, words = ACTIONS.get(gpu.recovery_action, unknown)
    why = "The driver asks for it: what begins here now fails or hangs." if level == "fail" else "What runs may go on until then."
    yield found(gpu, level, f"is to {words}", why)


def by_rows_and_pages(gpu: GpuState) -> Iterator[Finding]:
    rows = gpu.remapped_rows
    if rows and rows.failed:
        why = "A row with errors could not be replaced: the spare ones of its bank are used up."
        yield found(gpu, "fail", "could not remap a row of its memory", why, owner="vendor")
    if rows and rows.pending:
        yield found(gpu, "warn", "will remap a row of its memory at the next reset", f"Work may go on. {MEANT_FOR_MEMORY}")
    if gpu.retired_pages_pending:
        why = "Work may go on; the page has had errors and is used until then."
        yield found(gpu, "warn", "will retire a page of its memory at the next reset", why)


def by_errors(gpu: GpuState) -> Iterator[Finding]:
    errors = gpu.memory_errors
    if errors is None:
        return
    in_sram = errors.sram_uncorrected or 0
    if in_sram:
        why = "Caches and registers have no spare rows. What was computed meanwhile was ended, or may be wrong."
        yield found(gpu, "fail", f"had {count(in_sram, 'uncorrected error')} in the chip's own memory (SRAM)", why)
    if errors.sram_threshold_exceeded:
        why = "The driver counts such errors over the GPU's life, and this is its sign that the chip is worn."
        yield found(gpu, "warn", "has had too many errors in the chip's own memory (SRAM)", why, owner="vendor")
    in_memory = (errors.uncorrected or 0) - in_sram
    if in_memory <= 0:
        return
    summary = f"had {count(in_memory, 'uncorrected error')} in its memory since the driver was loaded"
    if gpu.errors.get(ROWS, "NOT_SUPPORTED") not in NO_ROWS:
        yield found(gpu, "warn", summary, f"NVML does not tell whether rows are to be remapped: {gpu.errors[ROWS]}.")
    elif gpu.remapped_rows is None:
        yield found(gpu, "fail", summary, "This GPU cannot remap rows: what used that memory was ended, and the next will be.")
    elif not (gpu.remapped_rows.failed or gpu.remapped_rows.pending):
        why = f"They were contained: what used that memory was ended, others were not. {MEANT_FOR_MEMORY}"
        yield found(gpu, "warn", summary, why)


def counts(gpu: GpuState) -> Iterator[Finding]:
    rows, errors = gpu.remapped_rows, gpu.memory_errors
    told = [
        (count(number, noun))
        for number, noun in (
            ((rows.corrected + rows.uncorrected) if rows else 0, "remapped row"),
            (gpu.retired_pages or 0, "retired page"),
            ((errors.corrected or 0) if errors else 0, "corrected error"),
        )
        if number
    ]
    if told:
        summary = f"GPU {gpu.index} has {' and '.join(told)}"
        why = "Nothing needs to be done: errors were corrected, and rows and pages replaced, as they should be."
        yield Finding(level="note", subject=gpu.label, summary=summary, why=why, owner="admin")


def found(
    gpu: GpuState, level: Level, summary: str, why: str, *, owner: Owner = "admin", explained_by: str | None = None
) -> Finding:
    return Finding(
        level=level,
        subject=gpu.label,
        summary=f"GPU {gpu.index}{f' ({gpu.pci})' if gpu.pci else ''} {summary}",
        why=why,
        owner=owner,
        fixes=mended(gpu, replaced=owner == "vendor"),
        explained_by=explained_by,
    )


def mended(gpu: GpuState, *, replaced: bool) -> tuple[Fix, ...]:
    reset = Fix(
        "Reset the GPU, or reboot the node",
        (f"nvidia-smi --gpu-reset -i {gpu.index}", "reboot"),
        risk="needs-root",
        note="On the host, where nothing runs on it. GPUs behind NVSwitches are reset together, without -i.",
    )
    new = Fix("If it stays so, have the GPU replaced", note="nvidia-bug-report.sh gathers what the vendor asks for.")
    return (
        Fix("Take the node out", ("kubectl cordon ...",), ("kubernetes",), "disruptive"),
        Fix("Take the node out", ("scontrol update nodename=... state=drain reason=gpu",), ("slurm",), "needs-root"),
        reboot() if gpu.recovery_action in REBOOT else reset,
        *((new,) if replaced else ()),
    )


def stuck(how: str) -> Finding:
    return Finding(
        level="fail",
        subject="driver",
        summary=f"NVIDIA's driver does not answer: a process that asked it {how}",
        why="The job would hang there too, and could not be ended.",
        owner="admin",
        fixes=(reboot(),),
    )


def reboot() -> Fix:
    return Fix("Reboot the node", ("reboot",), risk="needs-root", note="On the host.")


CHECK = Check(gpu_health, scope="node")
