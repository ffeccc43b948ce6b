from dl_doctor.contract import Check
from dl_doctor.facts import GpuAccess, GpuGrant, NvidiaDriver, Nvml, Runtime, TorchGpus, VisibleGpus
from dl_doctor.facts.cuda_errors import ERRORS, RESET
from dl_doctor.fixes import give_gpus
from dl_doctor.model import NO_GPU, Ended, Finding, Fix, Quantity, Reason, Unavailable, Verdict

CAUSES = {
    "LIBRARY_NOT_FOUND": ("NVIDIA's libraries are not here", "gpu-libraries"),
    "LIB_RM_VERSION_MISMATCH": ("the driver's library and its kernel module are of different versions", "gpu-libraries"),
    "DRIVER_NOT_LOADED": ("NVIDIA's kernel module does not answer", "gpu-device-access"),
    "NO_PERMISSION": ("this user may not use the device nodes", "gpu-device-access"),
    "UNKNOWN": ("most often this container's right to the device nodes was taken away", "gpu-device-access"),
}
"""What nvmlInit's codes mean, and the check that knows more."""

TROUBLES = {
    "GPU_IS_LOST": "has fallen off the bus",
    "INSUFFICIENT_POWER": "lacks a power cable",
    "IRQ_ISSUE": "gets no interrupts",
}
"""Codes of a single GPU, in words; nvml.h."""

HOST = ("bare", "slurm", "container")


def gpu_visible(
    grant: GpuGrant,
    driver: NvidiaDriver,
    access: GpuAccess | Unavailable,
    nvml: Nvml,
    visible: VisibleGpus,
    runtime: Runtime | Unavailable,
    torch: TorchGpus | Unavailable,
) -> Verdict:
    """The GPUs that this job was given can be seen

    ## What it checks
    Every rung between a card and PyTorch: the bus, NVIDIA's driver, the device nodes and whether they open, the management
    library (NVML), CUDA_VISIBLE_DEVICES and, unless the profile is quick, whether CUDA begins in a process that has imported
    torch, and how many GPUs torch counts there.

    ## Why it matters
    A job that sees no GPU ends at once, or trains on the CPU for days. PyTorch only says "no CUDA GPUs are available", whichever
    rung it is that is broken.

    ## How it decides
    GPUs are promised by --expect-gpus, by Slurm's grant, by indices or UUIDs in NVIDIA_VISIBLE_DEVICES, or by --require
    gpu-visible. `all`, `void` and `none` promise nothing: images carry them to machines without GPUs. Fewer GPUs than promised
    fail, and the finding names the rung where they are lost. So does a GPU whose node opens and that NVML does not list, one
    that NVML lists as lost, and a PyTorch that sees none of those that are listed: the finding then says what is in the way, a
    build for CPUs, a driver that is too old, or the code that cuInit gives. GPUs of the host that this job was not given, or that
    were hidden on purpose, are a note. Without any sign of a GPU and without a promise there is nothing to judge.

    For example, with `--expect-gpus 8`, eight open nodes and seven GPUs in NVML, one is lost between driver and NVML: it fails.

    ## How to fix
    Start the container or the step with GPUs, load or update the driver, or restart what lost its rights: the rung decides.

    ## Known limits
    Instances of a divided GPU (MIG) are not counted: one card is enough for any number of them. A Jetson has no NVML to ask.
    torch.cuda.device_count() asks NVML, so fewer GPUs than NVML lists are noticed only where none is left or more were promised.
    That a GPU computes is not shown by its being seen.

    ## References
    NVIDIA/nvidia-container-toolkit#48, NVIDIA/nvidia-docker#1085, NVIDIA/deepops#1102, microsoft/WSL#5663, ray-project/ray#1044,
    pytorch/pytorch#35710, microsoft/lisa#2823
    """
    if nvml.ended.how != "answered" and not brought_down(nvml.ended):
        return Verdict.unknown(f"NVML cannot be asked: its process {nvml.ended.in_words}")
    opened = access.opened if isinstance(access, GpuAccess) else ()
    if driver.platform == "wsl" and not grant.promised and nvml.error == "LIBRARY_NOT_FOUND":
        return Verdict.skip(NO_GPU)
    if not (promised_or_there(grant, driver) or nvml.usable):
        return Verdict.skip(NO_GPU)
    seen = ladder(driver, opened, nvml, visible, torch)
    promised = min(1, grant.promised or 0) if nvml.divided else grant.promised or 0
    findings = [broken("nvml", "NVIDIA's management library", nvml.ended)] if brought_down(nvml.ended) else dead(nvml)
    if not findings and promised > len(nvml.usable):
        findings = [unmet(promised, grant, driver, opened, nvml, runtime)]
    if not findings and len(opened) > len(nvml.usable):
        findings = [unlisted(opened, nvml)]
    if not findings:
        findings = [*unshown(promised, grant, nvml, visible), *ungranted(driver, opened, nvml, runtime)]
    wanted = wanted_of_torch(promised, grant, nvml, visible)
    return Verdict(seen, findings) if findings or not wanted else by_torch(seen, wanted, torch, nvml)


def promised_or_there(grant: GpuGrant, driver: NvidiaDriver) -> bool:
    """A driver alone is loaded in virtual machines that wait for a card, and seen from a container that was given none."""
    return bool(grant.promised or driver.pci or driver.bound or driver.gpu_nodes or driver.platform == "wsl")


def ladder(
    driver: NvidiaDriver, opened: tuple[str, ...], nvml: Nvml, visible: VisibleGpus, torch: TorchGpus | Unavailable
) -> str:
    """All rungs in a line."""
    asked = nvml.ended.in_words if nvml.ended.how != "answered" else nvml.error or f"{len(nvml.usable)} listed"
    told = "not set" if visible.told is None else repr(visible.told)
    bus = "not to be seen" if driver.pci is None else f"{len(driver.pci)} GPUs"
    nodes = f"{len(driver.gpu_nodes)} nodes, {len(opened)} of them opened"
    native = f"bus: {bus}; driver: {driver.version or 'none'}; {nodes}; "
    counted = f"; torch: {torch.usable} seen" if isinstance(torch, TorchGpus) and torch.count is not None else ""
    return f"{native if driver.platform == 'native' else ''}NVML: {asked}; CUDA_VISIBLE_DEVICES: {told}{counted}"


def brought_down(ended: Ended) -> bool:
    """Whether a call ended its process, or never comes back from the kernel. SIGKILL is the kernel's, out of memory."""
    return ended.how in ("killed", "stuck") and ended.signal != "SIGKILL"


def broken(subject: str, library: str, ended: Ended) -> Finding:
    """A call that brings its process down, or never comes back from the kernel, does the same to the job."""
    return Finding(
        level="fail",
        subject=subject,
        summary=f"{library} cannot be used: a process that asked it {ended.in_words}",
        why="The job's own calls will end so too. The driver or a GPU is ill, or the library does not fit the driver.",
        owner="admin",
        fixes=(RESET,),
    )


def dead(nvml: Nvml) -> list[Finding]:
    return [
        Finding(
            level="fail",
            subject=f"gpu:{gpu.index}",
            summary=f"GPU {gpu.index}{f' ({gpu.pci})' if gpu.pci else ''} {TROUBLES.get(trouble, f'answers {trouble}')}",
            why=f"NVML says {trouble}. CUDA often fails for all GPUs of a node while one is in this state.",
            owner="admin",
            fixes=(RESET,),
        )
        for gpu in nvml.gpus
        if (trouble := gpu.trouble)
    ]


def unmet(
    promised: int, grant: GpuGrant, driver: NvidiaDriver, opened: tuple[str, ...], nvml: Nvml, runtime: Runtime | Unavailable
) -> Finding:
    found = len(nvml.usable)
    rung, cause, fixes = lost_at(promised, driver, opened, nvml, runtime)
    return Finding(
        level="fail",
        subject="gpus",
        summary=f"Of {in_words(promised)} promised by {grant.source}, {found} can be seen: {rung}",
        measured=Quantity(found, "GPUs", "NVML"),
        expected=Quantity(promised, "GPUs", grant.source),
        relation="at_least",
        why='PyTorch will say "no CUDA GPUs are available" or see fewer than it should.',
        owner="admin" if cause or rung.startswith("NVIDIA's driver") else "you",
        fixes=fixes,
        explained_by=cause,
    )


def lost_at(
    wanted: int, driver: NvidiaDriver, opened: tuple[str, ...], nvml: Nvml, runtime: Runtime | Unavailable
) -> tuple[str, str | None, tuple[Fix, ...]]:
    """The lowest rung with fewer than wanted: in words, the check that knows more of it, and what mends it."""
    inside = isinstance(runtime, Runtime) and runtime.view == "container"
    if driver.platform == "wsl":
        if "dxg" not in driver.nodes:
            return "/dev/dxg, by which WSL reaches the GPU, is not there", None, (*give_gpus(wanted), update_wsl())
        return init_in_words(nvml), cause_of(nvml), (*give_gpus(wanted), update_wsl())
    if driver.pci is not None and len(driver.pci) < wanted and not driver.gpu_nodes:
        return f"{len(driver.pci)} are on the PCI bus of this machine", None, give_gpus(wanted)
    if driver.version is None and not driver.gpu_nodes and not inside:
        return "NVIDIA's driver is not loaded", None, (load_the_driver(),)
    if len(driver.gpu_nodes) < wanted:
        return f"{len(driver.gpu_nodes)} have a node in /dev", None, give_gpus(wanted)
    if len(opened) < wanted:
        return f"{len(opened)} of the nodes in /dev open", "gpu-device-access", give_gpus(wanted)
    cause = cause_of(nvml)
    return init_in_words(nvml), cause, (*give_gpus(wanted), *(() if cause else (RESET,)))


def cause_of(nvml: Nvml) -> str | None:
    """The check that knows more of why NVML did not begin."""
    return CAUSES[nvml.error][1] if nvml.error in CAUSES else None


def in_words(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def init_in_words(nvml: Nvml) -> str:
    if nvml.error is None:
        return f"NVML lists {len(nvml.usable)}"
    return f"NVML says {nvml.error}: {CAUSES[nvml.error][0]}" if nvml.error in CAUSES else f"NVML says {nvml.error}"


def unlisted(opened: tuple[str, ...], nvml: Nvml) -> Finding:
    """Granted, for its node opens, and yet not listed."""
    found, cause = len(nvml.usable), cause_of(nvml)
    return Finding(
        level="fail",
        subject="gpus",
        summary=f"Of {in_words(len(opened))} whose nodes open, {found} can be seen: {init_in_words(nvml)}",
        measured=Quantity(found, "GPUs", "NVML"),
        expected=Quantity(len(opened), "GPUs", "nodes in /dev that open"),
        relation="at_least",
        why="This job was given the nodes, and something between them and CUDA is broken.",
        owner="admin",
        fixes=give_gpus() if cause else (RESET,),
        explained_by=cause,
    )


def unshown(promised: int, grant: GpuGrant, nvml: Nvml, visible: VisibleGpus) -> list[Finding]:
    """What CUDA_VISIBLE_DEVICES hides. Only who said how many there should be wants to see them whatever it says."""
    if visible.count is None or visible.told is None or not nvml.usable:
        return []
    strict = grant.source == "--expect-gpus" and visible.count < promised
    if not strict and visible.count != 0:
        return []
    expected = Quantity(promised, "GPUs", grant.source) if strict else None
    return [
        Finding(
            level="fail" if strict or not visible.hidden else "note",
            subject="CUDA_VISIBLE_DEVICES",
            summary=f"CUDA_VISIBLE_DEVICES={visible.told} shows {visible.count} of {in_words(len(nvml.usable))}",
            measured=Quantity(visible.count, "GPUs", "CUDA_VISIBLE_DEVICES"),
            expected=expected,
            relation="at_least" if strict else None,
            why="Whoever set it hides GPUs from this process: you, or Slurm or Ray for a task that asked for none.",
            fixes=(Fix("Show them all, if that was not meant", ("unset CUDA_VISIBLE_DEVICES",)),),
            explained_by=None if visible.hidden else "gpu-order",
        )
    ]


def ungranted(driver: NvidiaDriver, opened: tuple[str, ...], nvml: Nvml, runtime: Runtime | Unavailable) -> list[Finding]:
    if nvml.usable or opened:
        return []
    number = max(len(driver.pci or ()), len(driver.gpu_nodes), len(driver.bound))
    given = isinstance(runtime, Runtime) and (runtime.view == "container" or runtime.scheduler)
    many = str(number) if number else "an unknown number of"
    why = "Nothing says that this job should have them." if given else f"{init_in_words(nvml)}."
    return [
        Finding(
            level="note",
            subject="gpus",
            summary=f"This machine has {many} GPUs that this job {'was not given' if given else 'cannot use'}",
            why=f"{why} If it should: --expect-gpus makes it a failure.",
            fixes=(*give_gpus(), *(() if driver.version else (load_the_driver(),))),
        )
    ]


def wanted_of_torch(promised: int, grant: GpuGrant, nvml: Nvml, visible: VisibleGpus) -> int:
    """How many GPUs torch is to see at least: what was promised, or else one, as far as CUDA_VISIBLE_DEVICES shows them."""
    if not nvml.usable or grant.promised == 0:
        return 0
    shown = 1 if visible.count is None else visible.count
    return min(promised or 1, shown)


def by_torch(seen: str, wanted: int, torch: TorchGpus | Unavailable, nvml: Nvml) -> Verdict:
    """The last rung, where all below it hold."""
    if isinstance(torch, Unavailable):
        lacking = Reason(torch.kind, torch.detail, torch.needs or "torch_gpus")
        return Verdict(seen, (), lacking if torch.kind in ("timeout", "failed") else None)
    if brought_down(torch.ended):
        return Verdict(seen, [broken("torch", "CUDA", torch.ended)])
    if torch.ended.how != "answered":
        return Verdict(seen, (), Reason("failed", f"PyTorch cannot be asked: its process {torch.ended.in_words}"))
    return Verdict(seen, [] if torch.usable >= wanted else [unseen(wanted, torch, nvml)])


def unseen(wanted: int, torch: TorchGpus, nvml: Nvml) -> Finding:
    obstacle, cause, fixes = in_the_way(torch)
    return Finding(
        level="fail",
        subject="torch",
        summary=f"Of {in_words(len(nvml.usable))} that NVML lists, PyTorch sees {torch.usable}: {obstacle}",
        measured=Quantity(torch.usable, "GPUs", "torch.cuda.device_count()"),
        expected=Quantity(wanted, "GPUs", "NVML"),
        relation="at_least",
        why=" ".join(torch.said) or "The job runs on CPUs, or ends at its first call of CUDA.",
        owner="admin" if any(fix.risk == "needs-root" for fix in fixes) else "you",
        fixes=fixes,
        explained_by=cause,
    )


def in_the_way(torch: TorchGpus) -> tuple[str, str | None, tuple[Fix, ...]]:
    """Why torch sees no GPU or too few: in words, the check that knows more of it, and what mends it where none does."""
    if torch.torch_cuda is None:
        return "it is built without CUDA", "torch-cuda-build", ()
    if torch.init_code is None:
        return "libcuda.so.1 does not load", "gpu-libraries", ()
    if torch.driver_cuda and major(torch.driver_cuda) < major(torch.torch_cuda):
        return f"it needs CUDA {torch.torch_cuda}, and libcuda knows {torch.driver_cuda}", "gpu-driver-floor", ()
    if torch.init_code:
        error = ERRORS.get(torch.init_code)
        if error is None:
            return f"cuInit gives {torch.init_code}, CUDA does not begin", None, (RESET,)
        return f"cuInit gives {torch.init_code}, {error.meaning}", error.cause, error.fixes
    return "CUDA itself begins", None, (RESET,)


def major(version: str) -> int:
    return int(version.partition(".")[0])


def load_the_driver() -> Fix:
    return Fix("Install or load NVIDIA's driver", ("modprobe nvidia",), HOST, "needs-root", "nvidia-smi then lists the GPUs.")


def update_wsl() -> Fix:
    return Fix("Update WSL and NVIDIA's driver for Windows", ("wsl --update",), ("bare",), note="In Windows, not in Linux.")


CHECK = Check(gpu_visible, essential=True, scope="node")
