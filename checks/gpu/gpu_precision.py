from dl_doctor.contract import Check
from dl_doctor.facts import GpuStates, OwnGpus, WantedPrecision
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Finding, Fix, Verdict

BF16, FP8 = (8, 0), (8, 9)
"""The first compute capabilities whose tensor cores take these types: Ampere's, and Ada's. CUDA C++ programming guide, compute
capabilities, and the PTX guide's table of mma's types."""


def gpu_precision(states: GpuStates, own: OwnGpus, wanted: WantedPrecision) -> Verdict:
    """The GPUs compute with bf16

    ## What it checks
    The compute capability of this job's GPUs against what bf16 (8.0) and fp8 (8.9) need.

    ## Why it matters
    On an older GPU, such as a V100 or a T4, bf16 is computed in fp32: torch.cuda.is_bf16_supported() says yes all the same, and
    the job takes several times as long as with fp16, or ends with "Bfloat16 is only supported on GPUs with compute capability of
    at least 8.0".

    ## How it decides
    A GPU without bf16 is a note, because nobody knows here what the job computes with. It fails with `--require gpu-precision`,
    which says that the job needs bf16. fp8 is only told.

    For example, two T4 (7.5) are two notes, and two failures for a job that requires bf16; an L4 (8.9) has both.

    ## How to fix
    fp16 with a gradient scaler, or a newer GPU.

    ## Known limits
    That the hardware can does not show that the installed PyTorch has kernels for it. What a job needs fp8 for is its own matter.

    ## References
    pytorch/pytorch#124996, pytorch/pytorch#148322, vllm-project/vllm#1157, karpathy/nanoGPT#277
    """
    if states.ended.how != "answered":
        return Verdict.unknown(f"the GPUs cannot be asked what they are: the process for it {states.ended.in_words}")
    mine = [gpu for gpu in states.gpus if gpu.index in own.indices]
    known = [gpu for gpu in mine if gpu.capability is not None]
    if not mine:
        return Verdict.skip(f"none of the GPUs is this job's, by {own.source}")
    if not known:
        code = mine[0].errors.get("nvmlDeviceGetCudaComputeCapability", "no answer")
        return Verdict.skip(f"the driver does not tell the GPUs' compute capability: {code}")
    lacking = [gpu for gpu in known if (gpu.capability or BF16) < BF16]
    return Verdict(seen(known, len(mine) - len(known)), [found(gpu, wanted) for gpu in lacking])


def seen(gpus: list[GpuState], unknown: int) -> str:
    alike: dict[tuple[int, int], list[str]] = {}
    for gpu in gpus:
        alike.setdefault(gpu.capability or (0, 0), []).append(str(gpu.index))
    parts = [f"GPU {', '.join(places)} ({major}.{minor}): {types(major, minor)}" for (major, minor), places in alike.items()]
    return "; ".join(parts) + (f"; {unknown} not told" if unknown else "")


def types(major: int, minor: int) -> str:
    has = [name for name, since in (("bf16", BF16), ("fp8", FP8)) if (major, minor) >= since]
    return " and ".join(has) or "neither bf16 nor fp8"


def found(gpu: GpuState, wanted: WantedPrecision) -> Finding:
    major, minor = gpu.capability or (0, 0)
    return Finding(
        level="fail" if wanted.bf16 else "note",
        subject=gpu.label,
        summary=f"GPU {gpu.index} ({gpu.name or 'of an unknown name'}, {major}.{minor}) does not compute with bf16",
        why="Its tensor cores do not know it: products take several times as long as with fp16, or some kernels do not run.",
        fixes=(
            Fix("Compute with fp16", ("torch.autocast('cuda', dtype=torch.float16)", "torch.amp.GradScaler('cuda')")),
            Fix("Or take a GPU of compute capability 8.0 or newer"),
        ),
    )


CHECK = Check(gpu_precision, scope="node")
