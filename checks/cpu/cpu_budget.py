import math

from dl_doctor.contract import Check
from dl_doctor.facts import CpuBudget, JobGpus, LoaderPlan, Runtime, Slurm
from dl_doctor.fixes import for_containers, give_cpus
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count, plain

BIG_NODE_CPUS = 16
"""A node with fewer CPUs has none to spare for a binding to withhold (nasa-nccs-hpda/pytorch-caney#44)."""

STARVED_CPUS = 2
"""CPUs per rank up to which a binding on a big node with GPUs is taken for the default of `srun`, one CPU per task."""


def cpu_budget(
    cpu: CpuBudget,
    plan: LoaderPlan,
    runtime: Runtime | Unavailable,
    slurm: Slurm | Unavailable,
    gpus: JobGpus | Unavailable,
) -> Verdict:
    """The CPUs that this job may use suffice

    ## What it checks
    How many CPUs each rank may really use: the smallest of its affinity mask, Slurm's binding, the CPU quota and the cpuset of
    its control group and of all groups above, and the node's own. What ranks share is divided among them.

    ## Why it matters
    A container can see 64 CPUs and be allowed the time of half a one. Everything that counts CPUs (PyTorch's thread pools,
    `nproc`, os.cpu_count) goes by what it sees, starts as many threads, and is stopped by the kernel for most of each period.

    ## How it decides
    Fewer CPUs than ranks fails, and so does a binding by Slurm to fewer than the workers need on a node of 16 CPUs or more.
    One rank with less than a whole CPU warns, and so does a thread pool larger than quota or mask. Kubernetes without a limit is
    told as a note: what the weight owes you, and how much you may borrow.

    For example, `docker run --cpus=8` on a machine of 64 cores warns until OMP_NUM_THREADS is 8 or less.

    ## How to fix
    Raise the limit, or ask Slurm for CPUs per task on sbatch and on srun (since 22.05 srun does not inherit it), or make
    the thread pools as small as the quota.

    ## Known limits
    In a container the limits of groups above its own are out of sight. Quotas are time, not cores: a burst may run on all.

    ## References
    pytorch/pytorch#22260, onyx-dot-app/onyx#12351, vllm-project/vllm#34462, nasa-nccs-hpda/pytorch-caney#44
    """
    seen = "; ".join(f"{limit.kind} {count(limit.cpus, 'CPU')} ({limit.source})" for limit in cpu.limits)
    starved = fewer_than_ranks(cpu, plan, slurm) or bound_by_slurm(cpu, plan, slurm, gpus) or less_than_one(cpu, plan, slurm)
    findings = starved or too_many_threads(cpu)
    if not cpu.quota_known and not findings:
        return Verdict.unknown("the control group of this process cannot be read, and a CPU quota would be written there")
    return Verdict(seen, [*findings, *owed_by_kubernetes(cpu, runtime), the_number(cpu)])


def the_number(cpu: CpuBudget) -> Finding:
    ranks = f", shared by {cpu.tightest.shared_by} ranks" if cpu.tightest.shared_by > 1 else ""
    above = "" if cpu.ancestors_known else " Limits of the groups above are out of sight."
    return Finding(
        level="note",
        subject="cpu",
        summary=f"A rank may use {count(cpu.cpus, 'CPU')}: {cpu.tightest.kind} of the {cpu.tightest.scope}{ranks}",
        measured=Quantity(cpu.cpus, "CPUs", cpu.tightest.source),
        why=f"It is the smallest of all limits that can be seen.{above}",
    )


def fewer_than_ranks(cpu: CpuBudget, plan: LoaderPlan, slurm: Slurm | Unavailable) -> list[Finding]:
    if cpu.ranks == 1 or cpu.cpus >= 1:
        return []
    return [
        Finding(
            level="fail",
            subject="cpu",
            summary=f"{cpu.ranks} ranks share {count(cpu.cpus_of_all_ranks, 'CPU')}",
            measured=Quantity(cpu.cpus_of_all_ranks, "CPUs", cpu.tightest.source),
            expected=Quantity(cpu.ranks, "CPUs", "one for each rank"),
            relation="at_least",
            why="Each rank drives its GPU from a main process of its own; they wait for each other at every step.",
            fixes=more_cpus(cpu, plan, slurm),
        )
    ]


def less_than_one(cpu: CpuBudget, plan: LoaderPlan, slurm: Slurm | Unavailable) -> list[Finding]:
    if cpu.ranks > 1 or cpu.cpus >= 1:
        return []
    return [
        Finding(
            level="warn",
            subject="cpu",
            summary=f"The job may use {count(cpu.cpus, 'CPU')}, less than a whole one",
            measured=Quantity(cpu.cpus, "CPUs", cpu.tightest.source),
            expected=Quantity(1, "CPUs", "the main process alone keeps one busy"),
            relation="at_least",
            why=f"Main process and workers take turns, and the kernel stops them all for {1 - cpu.cpus:.0%} of each period.",
            fixes=more_cpus(cpu, plan, slurm),
        )
    ]


def bound_by_slurm(cpu: CpuBudget, plan: LoaderPlan, slurm: Slurm | Unavailable, gpus: JobGpus | Unavailable) -> list[Finding]:
    """Slurm's default of one CPU per task is easily taken for a slow disk."""
    bound = isinstance(slurm, Slurm) and cpu.tightest.kind in ("affinity", "slurm", "cpuset")
    if not bound or (cpu.node_cpus or 0) < BIG_NODE_CPUS:
        return []
    known = plan.cpus_needed is not None
    if known and cpu.cpus >= (plan.cpus_needed or 0):
        return []
    if not known and (cpu.cpus > STARVED_CPUS or isinstance(gpus, Unavailable) or not gpus.expected):
        return []
    needed = plan.cpus_needed or STARVED_CPUS + 1
    workers = f"{plan.num_workers} workers" if known else "a rank with a GPU"
    return [
        Finding(
            level="fail" if known else "warn",
            subject="cpu",
            summary=f"Slurm binds {workers} to {count(cpu.cpus, 'CPU')} of a node with {cpu.node_cpus}",
            measured=Quantity(cpu.cpus, "CPUs", cpu.tightest.source),
            expected=Quantity(needed, "CPUs", "for this many workers" if known else "a main process and a few workers"),
            relation="at_least",
            why="Without --cpus-per-task a task gets one CPU. Loading then looks like a slow disk.",
            fixes=(per_task(cpu, slurm, (plan.num_workers or 7) + 1),),
        )
    ]


def per_task(cpu: CpuBudget, slurm: Slurm | Unavailable, per_rank: int) -> Fix:
    """So many CPUs for each rank, no more than the node has, times the ranks that one task of Slurm's holds."""
    together = max((limit.shared_by for limit in cpu.limits if limit.scope == "task"), default=1)
    if isinstance(slurm, Slurm) and not slurm.in_step and slurm.tasks_on_node == together:
        together = 1  # they are tasks to come, each with CPUs of its own
    there = cpu.node_cpus or per_rank * cpu.ranks
    wanted = max(1, min(per_rank, there // cpu.ranks)) * together
    return Fix(
        "Ask for CPUs per task, on sbatch and again on srun",
        (f"#SBATCH --cpus-per-task={wanted}", f"srun --cpus-per-task={wanted} ..."),
        runtimes=("slurm", "apptainer", "enroot"),
        note="Since 22.05 srun does not inherit it from sbatch.",
    )


def too_many_threads(cpu: CpuBudget) -> list[Finding]:
    quota = cpu.quota
    allowed = cpu.affinity_cpus if quota is None else min(cpu.affinity_cpus, quota.per_rank)
    source = "sched_getaffinity" if quota is None or allowed < quota.per_rank else quota.source
    if cpu.intra_op_threads <= math.ceil(allowed):
        return []
    threads = max(1, math.floor(allowed))
    return [
        Finding(
            level="warn",
            subject="OMP_NUM_THREADS",
            summary=f"{cpu.intra_op_threads} threads per operation share {count(allowed, 'CPU')}",
            measured=Quantity(cpu.intra_op_threads, "threads", "OMP_NUM_THREADS, else the cores in the affinity mask"),
            expected=Quantity(math.ceil(allowed), "threads", source),
            relation="at_most",
            why="PyTorch and OpenMP count cores. With a quota, the threads use it up early in each period, and then all stop.",
            fixes=(
                *for_containers(
                    "Size the pools by it",
                    run=f"-e OMP_NUM_THREADS={threads}",
                    compose=(f'environment: {{OMP_NUM_THREADS: "{threads}"}}',),
                    kubernetes=(f'env: [{{name: OMP_NUM_THREADS, value: "{threads}"}}]',),
                ),
                Fix("Or in the job script, before Python starts", (f"export OMP_NUM_THREADS={threads}",)),
            ),
        )
    ]


def owed_by_kubernetes(cpu: CpuBudget, runtime: Runtime | Unavailable) -> list[Finding]:
    if isinstance(runtime, Unavailable) or runtime.name != "kubernetes" or cpu.quota is not None or cpu.owed_cpus is None:
        return []
    low, high = cpu.owed_cpus
    about = plain(low) if high - low < 0.05 else f"{plain(low)} to {plain(high)}"
    return [
        Finding(
            level="note",
            subject="cpu",
            summary=f"No CPU limit: this pod is owed about {about} CPUs and may borrow up to {plain(cpu.cpus_of_all_ranks)}",
            measured=Quantity(high, "CPUs", "the control group's cpu.weight or cpu.shares"),
            why="On a busy node it gets what it is owed, its request. Runtimes turn requests into weights by two formulas.",
            fixes=(
                Fix(
                    "Request what the job needs",
                    (f'resources: {{requests: {{cpu: "{max(1, math.floor(cpu.cpus_of_all_ranks))}"}}}}',),
                    runtimes=("kubernetes",),
                ),
            ),
        )
    ]


def more_cpus(cpu: CpuBudget, plan: LoaderPlan, slurm: Slurm | Unavailable) -> tuple[Fix, ...]:
    """As many as the plan needs and the machine has; the thread pools kept within them."""
    there = cpu.node_cpus or cpu.affinity_cpus
    wanted = min(there, max(cpu.ranks, (plan.cpus_needed or 4) * cpu.ranks))
    threads = max(1, wanted // cpu.ranks)
    if wanted < cpu.ranks:
        return (Fix(f"Start fewer ranks, or move to a machine with at least {cpu.ranks} CPUs"),)
    return (
        *give_cpus("Give the container more CPUs", cpu, wanted, threads if cpu.intra_op_threads > threads else None),
        per_task(cpu, slurm, threads),
        Fix("Lift the CPU quota or the mask that this shell was started with", runtimes=("bare", "container", "lxc")),
    )


CHECK = Check(cpu_budget)
