"""The Slurm job that this process belongs to."""

import re

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.model import Unavailable
from dl_doctor.text import Malformed, integer
from dl_doctor.units import MIB

TASKS = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", re.ASCII)


class Slurm(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the SLURM_* variables, see sbatch(1) and srun(1)."""

    job_id: str

    in_step: bool
    """Inside `srun`: this process is one task. Otherwise it is the batch script, which owns all that the job has here."""

    tasks_on_node: int | None
    """Tasks of the step (or, in the batch script, of the job) on this node."""

    cpus_per_task: int | None
    """Set only where `--cpus-per-task` was given."""

    cpus_on_node: int | None
    """What the job was granted on this node."""

    memory_bytes: int | None
    """Granted on this node; None for all of it."""

    gpus: tuple[str, ...]
    """Granted on this node, by index."""


def collect(environment: Environment) -> Slurm | Unavailable:
    job_id = environment.get("SLURM_JOB_ID")
    if job_id is None:
        return Unavailable.absent("SLURM_JOB_ID is not set")
    if environment.get("SLURMD_NODENAME") is None:
        return Unavailable.absent("SLURM_JOB_ID is set, but SLURMD_NODENAME is not: a shell of salloc, outside the job")
    in_step = environment.get("SLURM_STEP_ID") is not None
    node = number(environment, "SLURM_NODEID") or 0
    tasks = environment.get(*(("SLURM_STEP_TASKS_PER_NODE",) if in_step else ()), "SLURM_TASKS_PER_NODE")
    if not in_step and environment.get("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE") is None:
        tasks = None  # nobody asked for tasks: Slurm then writes as many as there are CPUs
    cpus_on_node = number(environment, "SLURM_CPUS_ON_NODE")
    return Slurm(
        job_id=job_id,
        in_step=in_step,
        tasks_on_node=tasks_on(node, tasks) if tasks else None,
        cpus_per_task=number(environment, "SLURM_CPUS_PER_TASK") or None,
        cpus_on_node=cpus_on_node,
        memory_bytes=granted_memory(environment, cpus_on_node),
        gpus=tuple(filter(None, (environment.get("SLURM_STEP_GPUS", "SLURM_JOB_GPUS") or "").split(","))),
    )


def number(environment: Environment, name: str) -> int | None:
    """A variable as a number that is not negative; None when it is not set or is none, which is for nobody here to mend."""
    try:
        value = integer(environment.get(name) or "")
    except Malformed:
        return None
    return value if value >= 0 else None


def tasks_on(node: int, tasks: str) -> int | None:
    try:
        return parse_tasks_per_node(tasks, node)
    except Malformed:
        return None


def granted_memory(environment: Environment, cpus_on_node: int | None) -> int | None:
    """SLURM_MEM_PER_NODE, or SLURM_MEM_PER_CPU for every CPU; both are in MiB, and 0 means all that the node has."""
    per_node = number(environment, "SLURM_MEM_PER_NODE")
    per_cpu = number(environment, "SLURM_MEM_PER_CPU")
    if per_node is None and per_cpu is not None and cpus_on_node is not None:
        per_node = per_cpu * cpus_on_node
    return per_node * MIB if per_node else None


def parse_tasks_per_node(text: str, node: int) -> int | None:
    """Tasks on the node with this index: `8(x2),4` is 8, 8, 4. None for a node beyond the list."""
    first = 0
    for part in text.split(","):
        match = TASKS.fullmatch(part.strip())
        if match is None:
            raise Malformed("not a list of tasks per node", text)
        first += int(match[2] or 1)
        if node < first:
            return int(match[1])
    return None
