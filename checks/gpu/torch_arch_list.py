import re

from dl_doctor.contract import Check
from dl_doctor.facts import CudaSmoke, NvidiaDriver
from dl_doctor.facts.cuda_errors import REINSTALL
from dl_doctor.facts.cuda_smoke import SmokedGpu
from dl_doctor.model import Finding, Verdict

ARCH = re.compile(r"(sm|compute)_([0-9]{1,3})([0-9])([af]?)", re.ASCII)
"""`sm_90`, `sm_100`, `sm_90a`, `compute_90`: the last digit is the minor one."""


def torch_arch_list(smoke: CudaSmoke, driver: NvidiaDriver) -> Verdict:
    """PyTorch has code for these GPUs

    ## What it checks
    What the installed PyTorch was compiled for (torch.cuda.get_arch_list()) against the compute capability of each GPU.

    ## Why it matters
    A build carries code for some kinds of GPUs. On one that is too old or too new for it torch.cuda.is_available() is True, and
    the first kernel ends in "no kernel image is available for execution on the device".

    ## How it decides
    Code for `sm_M.k` runs on GPUs of capability M.k and of later minors of the same major: `sm_86` on 8.9, not on 9.0. A letter
    narrows that: `sm_90a` runs on 9.0 alone, `sm_100f` on 10.0 and its later minors. Code in PTX (`compute_M.k`) is compiled by
    the driver for every later GPU: where there is only that, it is a note, because the first start takes minutes. With neither it
    fails, unless the GPU did compute (cuda-smoke). On a Jetson, and of ROCm, only computing decides.

    For example, a build with `sm_75 sm_80 sm_86 sm_90 compute_90` fails on a V100 (7.0), and runs on an RTX 4090 (8.9).

    ## How to fix
    Install a build for this GPU: of an older release, or of the CUDA that still has it; for a new GPU, of a newer one.

    ## Known limits
    Packages with kernels of their own (flash-attn, xformers, bitsandbytes) have lists of their own.

    ## References
    pytorch/pytorch#31285, pytorch/pytorch#167244, Comfy-Org/ComfyUI#16438; CUDA's programming guide on binary and PTX
    compatibility, NVIDIA's Blackwell compatibility guide on family-specific code
    """
    if driver.platform == "jetson":
        return Verdict.skip("a Jetson's builds are listed by other names; cuda-smoke tells whether it computes")
    if smoke.backend == "hip":
        return Verdict.skip("of ROCm the list does not decide; cuda-smoke tells whether it computes")
    known = [gpu for gpu in smoke.gpus if gpu.capability]
    if not known or not smoke.arch_list:
        return Verdict.skip("no GPU told its compute capability, or PyTorch its list; cuda-smoke says why")
    listed = " ".join(smoke.arch_list)
    told = ", ".join(f"{gpu.label} {version(gpu)}" for gpu in known)
    findings = [finding for gpu in known if (finding := judged(gpu, smoke.arch_list, listed))]
    return Verdict(f"compute capability of {told}; PyTorch has {listed}", findings)


def judged(gpu: SmokedGpu, arch_list: tuple[str, ...], listed: str) -> Finding | None:
    capability = gpu.capability or (0, 0)
    kinds = {kind for arch in arch_list if (kind := runs(arch, capability))}
    name = f" ({gpu.name})" if gpu.name else ""
    if "sm" in kinds:
        return None
    if "compute" in kinds:
        return Finding(
            level="note",
            subject=gpu.label,
            summary=f"PyTorch has code for GPU {gpu.index}{name}, capability {version(gpu)}, only as PTX",
            why="The driver compiles it when it is first used, which takes minutes once, and keeps it in ~/.nv/ComputeCache.",
            fixes=(REINSTALL,),
        )
    if gpu.product and gpu.product.wrong == 0:
        return None  # a list that does not tell all
    return Finding(
        level="fail",
        subject=gpu.label,
        summary=f"PyTorch has no code for GPU {gpu.index}{name}: its capability is {version(gpu)}, and the build has {listed}",
        why='Its first kernel ends in "no kernel image is available for execution on the device".',
        fixes=(REINSTALL,),
    )


def runs(arch: str, capability: tuple[int, int]) -> str | None:
    """`sm` or `compute`, where code of this name runs on a GPU of this capability."""
    found = ARCH.fullmatch(arch)
    if found is None:
        return None
    kind, letter, of = found[1], found[4], (int(found[2]), int(found[3]))
    if letter == "a":
        return kind if of == capability else None
    if kind == "sm" or letter == "f":
        return kind if of[0] == capability[0] and of[1] <= capability[1] else None
    return kind if of <= capability else None


def version(gpu: SmokedGpu) -> str:
    return "{}.{}".format(*(gpu.capability or ("?", "?")))


CHECK = Check(torch_arch_list)
