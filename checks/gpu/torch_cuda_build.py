from dl_doctor.contract import Check
from dl_doctor.facts import GpuGrant, JobGpus, Target, TorchFiles
from dl_doctor.fixes import pip_install
from dl_doctor.model import Finding, Fix, Unavailable, Verdict

INDEX = "https://download.pytorch.org/whl/cu126"
"""Builds for CUDA 12.6 run on drivers from 525 on (CUDA compatibility guide: minor versions within a major one)."""


def torch_cuda_build(torch: TorchFiles, target: Target, gpus: GpuGrant | Unavailable, job: JobGpus | Unavailable) -> Verdict:
    """PyTorch is built for the GPUs of this job

    ## What it checks
    Whether the installed PyTorch is a build for CUDA, ROCm or CPUs alone, by its files, and whether this job was given GPUs.

    ## Why it matters
    A build for CPUs says `torch.cuda.is_available() == False` on the best GPU, and looks like a fault of the driver. pip takes it
    from the wrong index, from a lock file made on a laptop, or as a dependency that replaced the right one.

    ## How it decides
    A build for CPUs fails where NVIDIA GPUs were promised or their device nodes are there. It passes where none of these opens,
    as in a job for CPUs on a node with GPUs, and where CUDA_VISIBLE_DEVICES or `--expect-gpus 0` hides them on purpose.
    Where only an AMD or a WSL node is there, it is a note: those are there without a usable GPU too. Every other pair passes;
    whether CUDA works is told by other checks.

    For example, torch 2.6.0+cpu beside /dev/nvidia0 fails.

    ## How to fix
    Install the build for CUDA from PyTorch's index, in the image if the job runs in one.

    ## Known limits
    Where no node could be tried, a name in /dev counts as a GPU of this job's.

    ## References
    pytorch.org/get-started/locally; pytorch/pytorch#43493
    """
    if torch.version is None:
        return Verdict.skip(f"{torch.origin} is not PyTorch")
    seen = f"torch {torch.version} is a build for {built_for(torch)}; {granted(gpus)}"
    if not for_cpus(torch) or isinstance(gpus, Unavailable) or not gpus.expected:
        return Verdict(seen)
    if isinstance(job, JobGpus) and not job.expected:
        return Verdict(f"{seen}, and not for this job ({job.source})")
    nvidia = bool(gpus.promised) or any(name.startswith("nvidia") for name in gpus.nodes)
    return Verdict(seen, [cpu_build(torch, target, gpus, certain=nvidia)])


def cpu_build(torch: TorchFiles, target: Target, gpus: GpuGrant, *, certain: bool) -> Finding:
    return Finding(
        level="fail" if certain else "note",
        subject="torch",
        summary=f"PyTorch {torch.version} is built without GPUs, and {granted(gpus)}",
        why=f"{torch.folder} has no part for them: torch.cuda.is_available() is False whatever the driver does, and the job runs "
        "on CPUs or ends at `.cuda()`.",
        fixes=(
            Fix("Install the build for CUDA", ("conda install 'pytorch=*=*cuda*'",))
            if torch.conda
            else Fix(
                "Install the build for CUDA",
                (pip_install(target, f"--force-reinstall torch --index-url {INDEX}"),),
                note="pytorch.org/get-started names the index for your driver. torchvision comes from the same one.",
            ),
        ),
    )


def for_cpus(torch: TorchFiles) -> bool:
    """By version.py and by what lies beside it: one alone can be wrong in a site's own build."""
    others = ("libtorch_cuda.so", "libtorch_hip.so", "libtorch_xpu.so")
    return not torch.cuda and not torch.hip and not any(name in torch.libraries for name in others)


def built_for(torch: TorchFiles) -> str:
    if torch.cuda:
        return f"CUDA {torch.cuda}"
    if torch.hip:
        return f"ROCm {torch.hip}"
    return "CPUs" if for_cpus(torch) else "accelerators that its version does not name"


def granted(gpus: GpuGrant | Unavailable) -> str:
    if isinstance(gpus, Unavailable):
        return "whether there are GPUs could not be seen"
    if gpus.promised:
        return f"this job was promised {gpus.promised} GPU{'s' if gpus.promised > 1 else ''} ({gpus.source})"
    return f"there is /dev/{', /dev/'.join(gpus.nodes)}" if gpus.nodes else "no GPU was promised or is there"


CHECK = Check(torch_cuda_build)
