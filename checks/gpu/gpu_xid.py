from dl_doctor.contract import Check
from dl_doctor.facts import GpuStates, KernelLog, NvidiaDriver, Nvml, OwnGpus, Runtime, Slurm
from dl_doctor.facts.kernel_log import Xid
from dl_doctor.facts.xids import XIDS, XidMeaning
from dl_doctor.model import Finding, Fix, Level, Unavailable, Verdict
from dl_doctor.units import count

MEANINGS = {meaning.code: meaning for meaning in XIDS}

FAILING = ("reset the GPU", "restart the node")
"""Actions without which the GPU is of no use."""

WARNING = ("look at the memory", "look at NVLink")
WARNING_CODES = (94,)
"""A contained memory error ends one program; the GPU should be reset when it is convenient (the catalogue's text)."""

GRANT = "Slurm's grant"
UNTOLD = Unavailable.absent("NVML lists no GPU that answers")

UNKNOWN = "a code that is not in the catalogue of this version"


def gpu_xid(
    log: KernelLog,
    driver: NvidiaDriver,
    nvml: Nvml | Unavailable,
    own: OwnGpus | Unavailable,
    states: GpuStates | Unavailable,
    runtime: Runtime | Unavailable,
    slurm: Slurm | Unavailable,
) -> Verdict:
    """The driver has told of no trouble with these GPUs

    ## What it checks
    NVIDIA's Xids in the kernel's log since the node was started: numbers by which the driver tells what happened to a GPU.
    Nothing else of the log is read into the report.

    ## Why it matters
    A GPU that has fallen off the bus, or whose memory could not be repaired, may still be listed, and the job ends as soon as it
    computes there. The log often knows before.

    ## How it decides
    By NVIDIA's catalogue: codes whose remedy is to reset the GPU (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156,
    158) or to restart the node (79) fail, unless the log tells afterwards that the driver was loaded again, or wants nothing
    done any more (Xid 154 with action None). Where the GPU itself tells now that it needs no recovery, by a driver that tells
    it of this code, it is a warning. A double bit error (48), NVLink errors (74, 144 to 150) and contained memory errors (94)
    warn. All others are notes: most are bugs of programs (13, 31, 43, 45). Xids of GPUs that are not this job's are notes too.

    For example, `NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.` with no later start of the driver fails.

    ## How to fix
    Have the node drained and the GPU reset (`nvidia-smi --gpu-reset`), or the node restarted. Where that has been done and the
    log does not tell, accept the finding.

    ## Known limits
    A reset by `nvidia-smi --gpu-reset` may leave no line in the log, which then fails until the node is restarted. An old log
    may have been overwritten; what is left is said. NVSwitches' SXids are not looked at. Not compared with a real driver's log
    of a reset.

    ## References
    NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), NVIDIA/open-gpu-kernel-modules#387, NVIDIA/NVSentinel#155,
    leptonai/gpud#604
    """
    if log.ended.how != "answered":
        return Verdict.unknown(f"the kernel's log cannot be read: the process for it {log.ended.in_words}")
    if not any(gpu.usable for gpu in (nvml.gpus if isinstance(nvml, Nvml) else ())):
        own = own if isinstance(own, OwnGpus) and own.source == GRANT else UNTOLD  # NVML lists none: whose they are is not known
    if isinstance(own, OwnGpus) and not own.indices:
        return Verdict.skip(f"no GPU here is this job's ({own.source})")
    ours = addresses(nvml, own, driver, whole_node=whole_node(runtime, slurm))
    mine = [xid for xid in log.xids if not ours or xid.pci in ours]
    others = [xid for xid in log.xids if xid not in mine]
    serious = [xid for xid in mine if level_of(xid, quiet=False) != "note"]
    quiet = quiet_gpus(states)
    return Verdict(seen(log, mine), [*(told(xid, log, quiet=xid.pci in quiet) for xid in serious), *notes(mine, others)])


def quiet_gpus(states: GpuStates | Unavailable) -> set[str]:
    """Those that tell now that they need no recovery."""
    gpus = states.gpus if isinstance(states, GpuStates) else ()
    return {gpu.pci.rpartition(".")[0] for gpu in gpus if gpu.pci and gpu.recovery_action == 0}


def whole_node(runtime: Runtime | Unavailable, slurm: Slurm | Unavailable) -> bool:
    """Whether all GPUs on the bus are this job's to use."""
    return isinstance(slurm, Unavailable) and isinstance(runtime, Runtime) and runtime.view in ("host", "virtual machine")


def addresses(nvml: Nvml | Unavailable, own: OwnGpus | Unavailable, driver: NvidiaDriver, *, whole_node: bool) -> set[str]:
    """Of our GPUs, as the driver writes them: without the function. One that is lost may be missing from NVML's list."""
    listed = nvml.gpus if isinstance(nvml, Nvml) else ()
    chosen = isinstance(own, OwnGpus) and own.source != "NVML"
    ours = [gpu.pci for gpu in listed if gpu.pci and (not isinstance(own, OwnGpus) or gpu.index in own.indices)]
    known = [*ours, *(driver.pci or ()), *driver.bound] if whole_node and not chosen else ours or driver.bound
    return {address.lower().rpartition(".")[0] for address in known}


def seen(log: KernelLog, mine: list[Xid]) -> str:
    span = ""
    if log.since_s is not None and log.now_s is not None:
        span = f", which goes back {ago(log.now_s - log.since_s)}"
    told = ", ".join(f"{xid.code} at {xid.pci}" for xid in mine) or "none"
    return f"Xids of these GPUs in the kernel's log ({log.source}{span}): {told}"


def ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return count(seconds // length, unit)
    return count(max(0.0, seconds) // 1, "second")


def meaning_of(xid: Xid) -> XidMeaning:
    return MEANINGS.get(xid.code) or XidMeaning(xid.code, UNKNOWN, "driver", "ask")


def level_of(xid: Xid, *, quiet: bool) -> Level:
    """`quiet`: the GPU tells now that it needs no recovery."""
    meaning = meaning_of(xid)
    if xid.over is not None:
        return "note"
    if meaning.action in FAILING:
        return "warn" if quiet and meaning.told_by_154 else "fail"
    return "warn" if meaning.action in WARNING or xid.code in WARNING_CODES else "note"


def told(xid: Xid, log: KernelLog, *, quiet: bool) -> Finding:
    meaning = meaning_of(xid)
    level = level_of(xid, quiet=quiet)
    times = f"{xid.count} times, last " if xid.count > 1 else ""
    when = f"{ago(log.now_s - xid.last_s)} ago" if log.now_s is not None and xid.last_s is not None else "at an unknown time"
    after = "; no reset is told after it" if level == "fail" else "; the GPU tells that it needs no recovery now" if quiet else ""
    return Finding(
        level=level,
        subject=xid.pci,
        summary=f"Xid {xid.code} of {xid.pci}: {meaning.meaning} ({times}{when})",
        why=f"NVIDIA's remedy: {meaning.action}{after}." + (f" The driver said: {xid.text}" if xid.text else ""),
        owner="admin",
        fixes=mended(meaning, xid),
    )


def mended(meaning: XidMeaning, xid: Xid) -> tuple[Fix, ...]:
    command = f"scontrol update NodeName=$(hostname) State=DRAIN Reason='Xid {xid.code}'"
    drain = Fix("Have the node drained", (command,), ("slurm",), "needs-root")
    cordon = Fix("Have the node cordoned", ("kubectl cordon ...",), ("kubernetes",), "disruptive")
    if meaning.action == "restart the node":
        restart = Fix("Have the node restarted, by power if need be", ("reboot",), risk="needs-root", note="On the host.")
        return (drain, cordon, restart)
    if meaning.action == "look at NVLink":
        return (Fix("Have the links looked at", ("nvidia-smi nvlink -e", "nvidia-smi nvlink -s"), note="On the host."),)
    commands = (f"nvidia-smi --gpu-reset -i {xid.pci}.0",)
    reset = Fix("Have the GPU reset, when nothing uses it", commands, risk="needs-root", note="On the host.")
    return (drain, cordon, reset) if meaning.action in FAILING else (reset,)


def notes(mine: list[Xid], others: list[Xid]) -> list[Finding]:
    found = []
    mild = [xid for xid in mine if level_of(xid, quiet=False) == "note"]
    for pci in dict.fromkeys(xid.pci for xid in mild):
        words = ", ".join(in_words(xid) for xid in mild if xid.pci == pci)
        found.append(Finding(level="note", subject=pci, summary=f"{pci} has told before: {words}"))
    serious = [xid for xid in others if level_of(xid, quiet=False) != "note"]
    if serious:
        words = ", ".join(f"{in_words(xid)} of {xid.pci}" for xid in serious)
        found.append(Finding(level="note", subject="other GPUs", summary=f"GPUs of this node that are not this job's: {words}"))
    return found


def in_words(xid: Xid) -> str:
    times = f", {xid.count} times" if xid.count > 1 else ""
    over = f"; over: {xid.over}" if xid.over else ""
    return f"Xid {xid.code} ({meaning_of(xid).meaning}{times}{over})"


CHECK = Check(gpu_xid, scope="node")
