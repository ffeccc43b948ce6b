"""How many ranks (training processes) run on this node, and which of them share what."""

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.slurm import Slurm, number
from dl_doctor.model import Unavailable


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the variables that launchers set. With none of them it is one rank.

    A limit is divided only by the ranks that share it: a container's quota by all ranks of the node, this process's CPU
    mask only by those that run inside the same task.
    """

    on_node: int
    """Ranks of this job on the node; they share the container's, the step's and the node's limits."""

    in_task: int
    """Ranks that share the limits of this process: its CPU mask, SLURM_CPUS_PER_TASK."""

    source: str


MPI = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE")
"""Ranks on the node, as Open MPI, MPICH and Intel MPI, MVAPICH2 and HPE PALS tell each of them."""

LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
"""Set by torchrun and by Open MPI; Slurm's SLURM_LOCALID counts inside a step."""


def collect(environment: Environment, slurm: Slurm | Unavailable, gpus: GpuGrant | Unavailable) -> Ranks:
    step_tasks = slurm.tasks_on_node if isinstance(slurm, Slurm) and slurm.in_step else None
    local = positive(environment, "LOCAL_WORLD_SIZE")
    if local and environment.get("TORCHELASTIC_RUN_ID"):
        return Ranks(on_node=local * (step_tasks or 1), in_task=local, source=f"torchrun, LOCAL_WORLD_SIZE={local}")
    planned = positive(environment, "PET_NPROC_PER_NODE") or (
        gpus_of(gpus) if environment.get("PET_NPROC_PER_NODE") in ("auto", "gpu") else None
    )
    if planned:
        return Ranks(on_node=planned, in_task=planned, source=f"PET_NPROC_PER_NODE={planned}")
    for name in MPI:
        if count := positive(environment, name):
            return Ranks(on_node=count, in_task=1, source=f"{name}={count}")
    if step_tasks:
        return Ranks(on_node=step_tasks, in_task=1, source=f"Slurm, {step_tasks} tasks of this step on this node")
    if isinstance(slurm, Slurm) and not slurm.in_step and slurm.tasks_on_node:
        tasks = slurm.tasks_on_node
        return Ranks(on_node=tasks, in_task=tasks, source=f"Slurm, {tasks} tasks to come on this node")
    if local:
        return Ranks(on_node=local, in_task=local, source=f"LOCAL_WORLD_SIZE={local}")
    if size := environment.get("LOCAL_RANK") and positive(environment, "LOCAL_SIZE"):  # DeepSpeed
        return Ranks(on_node=size, in_task=size, source=f"LOCAL_SIZE={size}")
    return Ranks(on_node=1, in_task=1, source="no launcher says that there are more")


def local_rank(environment: Environment, slurm: Slurm | Unavailable) -> int | None:
    """The number of this process among the ranks on its node, by which scripts take their GPU; None where it is no rank."""
    names = (*LOCAL_RANK, *(("SLURM_LOCALID",) if isinstance(slurm, Slurm) and slurm.in_step else ()))
    return next((rank for name in names if (rank := number(environment, name)) is not None), None)


def gpus_of(gpus: GpuGrant | Unavailable) -> int | None:
    """What torchrun makes of `auto` and `gpu`; None where no GPU is to be seen."""
    if isinstance(gpus, Unavailable):
        return None
    return len([node for node in gpus.nodes if node.startswith("nvidia")]) or gpus.promised or None


def positive(environment: Environment, name: str) -> int | None:
    value = number(environment, name)
    return value if value is not None and value > 0 else None
