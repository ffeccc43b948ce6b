from dl_doctor.contract import Check
from dl_doctor.facts import CudaSmoke, GpuStates, TorchGpus
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count, plain

SLOW_S = 10.0
"""For all GPUs of a node together. Without persistence a second or two for each were seen in public reports, and 5 to 30 s where
people complain (arrayfire, cutorch#346, pytorch/pytorch#22583). Proposal."""

KEEP = Fix(
    "Have the driver keep the GPUs started",
    ("systemctl enable --now nvidia-persistenced",),
    risk="needs-root",
    note="On the host; `nvidia-smi -pm 1` where there is no such service.",
)


def gpu_first_call(asked: TorchGpus, smoke: CudaSmoke | Unavailable, states: GpuStates | Unavailable) -> Verdict:
    """CUDA begins quickly

    ## What it checks
    How long NVML's beginning took, and cuInit in two processes, one after the other; and whether the driver says that it keeps
    the GPUs started while nobody uses them (persistence).

    ## Why it matters
    Every process of a job calls cuInit: each rank, and each start after a failure. Without persistence the driver starts all
    GPUs of the node for the first process that opens one, and stops them after the last.

    ## How it decides
    By the measured time, 10 s (a proposal). Both calls of cuInit above it warn: every start costs that. One alone, or NVML's, is
    a note: what comes first also reads libraries from a cold disk. Persistence that is off is told with it and means nothing by
    itself: nvidia-persistenced keeps GPUs started in another way, and NVML may then say that it is off.

    For example, 16 s and 15 s on a node with eight GPUs and persistence off warn.

    ## How to fix
    Have nvidia-persistenced run on the host.

    ## Known limits
    What comes after cuInit is not judged: loading PyTorch's own kernels, and compiling those that it has only as PTX.

    ## References
    NVIDIA's driver persistence guide, torch/cutorch#346, pytorch/pytorch#22583, leptonai/gpud#137
    """
    if asked.init_s is None or asked.init_code:
        return Verdict.skip("CUDA does not begin; gpu-visible says why")
    again_s = smoke.init_s if isinstance(smoke, CudaSmoke) and not smoke.init_code else None
    nvml_s = states.took_s if isinstance(states, GpuStates) else None
    times = {"NVML": nvml_s, "cuInit": asked.init_s, "cuInit in another process": again_s}
    told = ", ".join(f"{what} {plain(seconds)} s" for what, seconds in times.items() if seconds is not None)
    seen = f"{told}; {kept(states)}"
    slow = {what: seconds for what, seconds in times.items() if seconds is not None and seconds > SLOW_S}
    if not slow:
        return Verdict(seen)
    always = {"cuInit", "cuInit in another process"} <= slow.keys()
    what = "cuInit" if always else next(iter(slow))
    return Verdict(
        seen,
        [
            Finding(
                level="warn" if always else "note",
                subject=what,
                summary=f"CUDA takes long to begin{', each time' if always else ''}: {told}",
                measured=Quantity(min(asked.init_s, again_s or asked.init_s) if always else slow[what], "s", what),
                expected=Quantity(SLOW_S, "s", "a proposal"),
                relation="at_most",
                why=f"Each process of the job waits that long before its first call; {kept(states)}.",
                owner="admin",
                fixes=(KEEP,),
            )
        ],
    )


def kept(states: GpuStates | Unavailable) -> str:
    """What NVML says of persistence."""
    told = [gpu.persistence for gpu in states.gpus if gpu.persistence is not None] if isinstance(states, GpuStates) else []
    return f"persistence is on for {sum(told)} of {count(len(told), 'GPU')}" if told else "persistence is not told"


CHECK = Check(gpu_first_call, scope="node")
