import math

from dl_doctor.contract import Check
from dl_doctor.facts import Cgroups, FittingLoader, JobGpus, Limits, LoaderPlan, MemoryBudget, Runtime
from dl_doctor.facts.fitting_loader import COMFORT_OF_MEMORY
from dl_doctor.fixes import ask_for_less, more_memory
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import GIB, MIB, binary_size

NOTHING_LEFT = 100 * MIB
"""The kubelet's default eviction threshold (memory.available < 100Mi)."""


def memory_budget(
    memory: MemoryBudget,
    plan: LoaderPlan,
    limits: Limits | Unavailable,
    gpus: JobGpus | Unavailable,
    runtime: Runtime | Unavailable,
    cgroups: Cgroups | Unavailable,
    fitting: FittingLoader | Unavailable,
) -> Verdict:
    """Memory suffices for the processes and the batches in flight

    ## What it checks
    How much memory is left under the tightest limit, of this process's control group, of all groups above and of the machine,
    against what the loaders of all ranks need at least.

    ## Why it matters
    A process that goes beyond is killed without a word of its own: "DataLoader worker is killed by signal: Killed". Tools that
    look at the whole machine (`free -g`) do not see a container's limit.

    ## How it decides
    Headroom is the limit less what is charged, not counting page cache, or the cache of ZFS, that the kernel would drop; the
    smallest of all groups counts. The need is at least 140 MiB for each rank's main process, 10 MiB for each forked worker or
    145 MiB for each spawned one (or what one of a dataset that is named was measured to have), the samples of one batch, and
    the batches in shared memory, whose pages count too. More than the headroom fails, more than 70 % of it warns, and less than
    100 MiB of headroom fails. So do a limit on address space where GPUs are expected or below 620 MiB and two batches, a limit
    on data below 212 MiB and a batch, and a need beyond what the kernel may still promise when it refuses to overcommit: there
    each process, forked or not, counts with 168 MiB.

    For example, 8 forked workers with batches of 24 MiB, 432 MiB of them in shared memory, need at least 676 MiB: a limit of
    512 MiB fails.

    ## How to fix
    Raise the limit, or ask for less: fewer workers, a smaller prefetch_factor, smaller batches.

    ## Known limits
    What the dataset, the model and CUDA hold is not known here, so a pass means that the loader's own part fits.

    ## References
    pytorch/pytorch#8976, vertti/preflight#226, kubernetes/kubernetes#125852, NVIDIA/cuda-python#2458
    """
    above = "" if memory.ancestors_known else "; groups above are out of sight and may leave less"
    left = f"{binary_size(memory.headroom_bytes)} left ({memory.tightest.source}){above}"
    need = plan.memory_need_bytes
    wanted = "what the loader needs is not known" if need is None else f"the loaders need at least {binary_size(need)}"
    findings = [
        *(nothing_left(memory, plan, cgroups) or too_little(memory, plan, cgroups, ask_for_less(fitting))),
        *resource_limits(limits, plan, gpus),
        *promised_too_much(memory, plan),
    ]
    if not memory.limit_known and not any(finding.level == "fail" for finding in findings):
        return Verdict.unknown(f"a memory limit, or what is charged to it, cannot be read; at most {left}")
    return Verdict(f"{left}; {wanted}", [*findings, *how_it_ends(memory), *kubelets_view(memory, runtime)])


def nothing_left(memory: MemoryBudget, plan: LoaderPlan, cgroups: Cgroups | Unavailable) -> list[Finding]:
    if memory.headroom_bytes >= NOTHING_LEFT:
        return []
    return [
        Finding(
            level="fail",
            subject="memory",
            summary=f"Only {binary_size(memory.headroom_bytes)} of memory are left",
            measured=Quantity(memory.headroom_bytes, "bytes", memory.tightest.source),
            expected=Quantity(NOTHING_LEFT, "bytes", "the kubelet's eviction threshold"),
            relation="at_least",
            why="Importing torch alone takes more.",
            fixes=more_memory(memory, max(GIB, plan.memory_need_bytes or 0), COMFORT_OF_MEMORY, cgroups),
        )
    ]


def too_little(memory: MemoryBudget, plan: LoaderPlan, cgroups: Cgroups | Unavailable, fewer: tuple[Fix, ...]) -> list[Finding]:
    need = plan.memory_need_bytes
    if need is None or need <= COMFORT_OF_MEMORY * memory.headroom_bytes:
        return []
    beyond = need > memory.headroom_bytes
    above = binary_size(memory.headroom_bytes)
    return [
        Finding(
            level="fail" if beyond else "warn",
            subject="memory",
            summary=f"{above} of memory are left{'' if beyond else ', little more than enough'}: the loaders need at least "
            f"{binary_size(need)}",
            measured=Quantity(memory.headroom_bytes, "bytes", memory.tightest.source),
            expected=Quantity(
                need if beyond else math.ceil(need / COMFORT_OF_MEMORY),
                "bytes",
                "the processes of all ranks and the batches in shared memory",
            ),
            relation="at_least",
            why="What the dataset, the model and CUDA hold comes on top of that: the loaders should leave 30 % of it free. "
            'Beyond the limit the kernel kills a process: "DataLoader worker is killed by signal: Killed".',
            fixes=(*more_memory(memory, need, COMFORT_OF_MEMORY, cgroups), *fewer),
        )
    ]


def resource_limits(limits: Limits | Unavailable, plan: LoaderPlan, gpus: JobGpus | Unavailable) -> list[Finding]:
    if isinstance(limits, Unavailable):
        return []
    return [
        *(cuda_in_little_space(limits, gpus) or below("RLIMIT_AS", "v", limits.address_space_bytes, plan.address_space_needed)),
        *below("RLIMIT_DATA", "d", limits.data_bytes, plan.data_needed),
    ]


def below(name: str, option: str, limit: int | None, need: int) -> list[Finding]:
    if limit is None or limit >= need:
        return []
    return [
        Finding(
            level="fail",
            subject=name,
            summary=f"A process may map {binary_size(limit)} ({name}); torch and a batch take at least {binary_size(need)}",
            measured=Quantity(limit, "bytes", f"getrlimit {name}"),
            expected=Quantity(need, "bytes", "torch once it is imported, and one batch with its samples"),
            relation="at_least",
            why='It ends in "Cannot allocate memory" with memory left, in the import of torch or in a worker.',
            fixes=lift(option),
        )
    ]


def lift(option: str) -> tuple[Fix, ...]:
    return (
        Fix("Lift it in the job script", (f"ulimit -{option} unlimited",)),
        Fix("Do not carry the login node's limits over", ("sbatch --propagate=NONE ...",), runtimes=("slurm",)),
    )


def cuda_in_little_space(limits: Limits, gpus: JobGpus | Unavailable) -> list[Finding]:
    if limits.address_space_bytes is None or isinstance(gpus, Unavailable) or not gpus.expected:
        return []
    return [
        Finding(
            level="fail",
            subject="RLIMIT_AS",
            summary=f"Address space is limited to {binary_size(limits.address_space_bytes)}, and CUDA maps far more",
            measured=Quantity(limits.address_space_bytes, "bytes", "getrlimit RLIMIT_AS"),
            why='It ends in "CUDA out of memory" while the GPU is empty. GPUs are expected here: ' + gpus.source,
            fixes=lift("v"),
        )
    ]


def promised_too_much(memory: MemoryBudget, plan: LoaderPlan) -> list[Finding]:
    left, need = memory.commit_left_bytes, plan.commit_need_bytes
    if left is None or need is None or need <= left:
        return []
    return [
        Finding(
            level="fail",
            subject="vm.overcommit_memory",
            summary=f"The kernel may promise {binary_size(left)} more, and the loaders need at least {binary_size(need)}",
            measured=Quantity(left, "bytes", "CommitLimit - Committed_AS of /proc/meminfo"),
            expected=Quantity(need, "bytes", "the processes of all ranks, each in full, and the batches in shared memory"),
            relation="at_least",
            why='vm.overcommit_memory is 2: a fork counts in full, and fails with "Cannot allocate memory".',
            owner="admin",
            fixes=(Fix("Let the kernel overcommit", ("sysctl vm.overcommit_memory=0",), risk="needs-root"),),
        )
    ]


def how_it_ends(memory: MemoryBudget) -> list[Finding]:
    if not memory.kill_is_shared:
        return []
    return [
        Finding(
            level="note",
            subject="memory",
            summary="When one process is killed for memory, the whole container ends",
            why="memory.oom.group is 1, as Kubernetes sets it since 1.28.",
        )
    ]


def kubelets_view(memory: MemoryBudget, runtime: Runtime | Unavailable) -> list[Finding]:
    if isinstance(runtime, Unavailable) or runtime.name != "kubernetes" or memory.working_set_bytes is None:
        return []
    return [
        Finding(
            level="note",
            subject="memory",
            summary=f"The kubelet counts a working set of {binary_size(memory.working_set_bytes)}",
            measured=Quantity(memory.working_set_bytes, "bytes", "what is charged, less inactive page cache"),
            why="It evicts by this number, which includes page cache that was read twice.",
        )
    ]


CHECK = Check(memory_budget)
