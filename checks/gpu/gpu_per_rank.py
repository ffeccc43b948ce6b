from dl_doctor.contract import Check
from dl_doctor.facts import Environment, Nvml, Ranks, Slurm, VisibleGpus
from dl_doctor.facts.ranks import LOCAL_RANK
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict


def gpu_per_rank(ranks: Ranks, environment: Environment, nvml: Nvml, visible: VisibleGpus, slurm: Slurm | Unavailable) -> Verdict:
    """Each rank has a GPU of its own

    ## What it checks
    The number of this rank on its node (LOCAL_RANK, SLURM_LOCALID) and the number of ranks against the GPUs that it can see.

    ## Why it matters
    A training script does torch.cuda.set_device(LOCAL_RANK). Where Slurm binds one GPU to each task, each sees its own as number
    0, and all but the first rank end in "invalid device ordinal". With more ranks than GPUs, two share one, and NCCL says
    "Duplicate GPU detected".

    ## How it decides
    A rank whose number is not below the GPUs that it sees fails; so do more ranks on the node than GPUs. Inside a Slurm step
    whose tasks see a part of its GPUs, those of the whole step are counted. In the batch script, where tasks are yet to come and
    are often meant as CPUs, it is a note. One process alone, and a job that hides its GPUs, is not judged.

    For example, `srun --ntasks-per-node=4 --gpus-per-task=1`: rank 3 sees one GPU, and fails.

    ## How to fix
    Let all tasks of a node see all its GPUs: --gpu-bind=none, or --gpus-per-node instead of --gpus-per-task.

    ## Known limits
    A script that always takes GPU 0 is right with one GPU for each task; it can be told so by ignoring this check.

    ## References
    NVIDIA/nccl's "Duplicate GPU detected", Slurm's srun(1) on --gpu-bind, pytorch/pytorch#102715
    """
    rank, source = local_rank(environment, slurm)
    if ranks.on_node == 1 and not rank:
        return Verdict.skip("one process runs on this node")
    if visible.hidden:
        return Verdict.skip("GPUs are hidden from this job on purpose")
    if nvml.ended.how != "answered" or not nvml.usable:
        return Verdict.skip("no GPU can be seen; gpu-visible says why")
    if visible.count is None:
        return Verdict.skip("GPUs are divided into instances, and CUDA shows one of them to each process")
    of_step = len(slurm.gpus) if isinstance(slurm, Slurm) and slurm.in_step else 0
    seen = f"{ranks.on_node} ranks ({ranks.source}), this one {'unnumbered' if rank is None else rank}, {visible.count} GPUs seen"
    return Verdict(
        seen,
        [
            *beyond(rank, source, visible.count),
            *crowded(ranks, max(visible.count, of_step), to_come=rank is None and isinstance(slurm, Slurm) and not slurm.in_step),
        ],
    )


def local_rank(environment: Environment, slurm: Slurm | Unavailable) -> tuple[int | None, str]:
    names = (*LOCAL_RANK, *(("SLURM_LOCALID",) if isinstance(slurm, Slurm) and slurm.in_step else ()))
    for name in names:
        value = environment.get(name)
        if value and value.isascii() and value.isdigit():
            return int(value), name
    return None, ""


def beyond(rank: int | None, source: str, gpus: int) -> list[Finding]:
    if rank is None or rank < gpus:
        return []
    return [
        Finding(
            level="fail",
            subject=f"rank:{rank}",
            summary=f"{source} is {rank}, and this process sees {gpus} GPU{'s' if gpus != 1 else ''}",
            measured=Quantity(gpus, "GPUs", "NVML and CUDA_VISIBLE_DEVICES"),
            expected=Quantity(rank + 1, "GPUs", f"{source}={rank}"),
            relation="at_least",
            why='torch.cuda.set_device(LOCAL_RANK) ends in "invalid device ordinal".',
            fixes=bind_none(),
        )
    ]


def crowded(ranks: Ranks, gpus: int, *, to_come: bool) -> list[Finding]:
    if ranks.on_node <= gpus:
        return []
    return [
        Finding(
            level="note" if to_come else "fail",
            subject="ranks",
            summary=f"{ranks.on_node} ranks on this node share {gpus} GPU{'s' if gpus != 1 else ''}",
            measured=Quantity(gpus, "GPUs", "NVML, CUDA_VISIBLE_DEVICES and Slurm's grant"),
            expected=Quantity(ranks.on_node, "GPUs", ranks.source),
            relation="at_least",
            why='NCCL says "Duplicate GPU detected" where two ranks use one GPU.',
            fixes=(*bind_none(), Fix("Or start as many ranks as there are GPUs", (f"torchrun --nproc-per-node={gpus} ...",))),
        )
    ]


def bind_none() -> tuple[Fix, ...]:
    commands = ("srun --gpu-bind=none ...", "#SBATCH --gpus-per-node=...  # instead of --gpus-per-task")
    return (Fix("Let every task see all GPUs of its node", commands, ("slurm",)),)


CHECK = Check(gpu_per_rank)
