from dl_doctor.contract import Check
from dl_doctor.facts import Cgroups, FittingLoader, LoaderPlan, MemoryBudget, Runtime, SharedMemory
from dl_doctor.fixes import ask_for_less, more_memory
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size

COMFORT = 0.7
"""Share of the headroom that shared memory may take: processes come on top. Proposal, the same as of memory-budget."""


PATH = "/dev/shm"  # noqa: S108 (it is the subject)


def shm_memory_limit(
    plan: LoaderPlan,
    memory: MemoryBudget,
    shm: SharedMemory | Unavailable,
    runtime: Runtime | Unavailable,
    cgroups: Cgroups | Unavailable,
    fitting: FittingLoader | Unavailable,
) -> Verdict:
    """The memory limit leaves room for shared memory

    ## What it checks
    What the loaders need of shared memory, against what is left under the tightest memory limit.

    ## Why it matters
    A page of /dev/shm is a page of memory: it counts against the limit of the container that writes it. A /dev/shm of half the
    host's memory inside a container of 8 GiB does not fill up; the kernel kills a process first, and `df /dev/shm` still shows
    tens of GiB free.

    ## How it decides
    A need above the headroom fails, and above 70 % of it warns. Without workers nothing is needed; where the need is not known
    nothing is judged. On Kubernetes it is a note that an emptyDir may be smaller than it looks.

    For example, batches in flight of 4 GiB with 1 GiB left fail, however large /dev/shm is.

    ## How to fix
    Raise the memory limit, not the size of /dev/shm; or ask for less.

    ## Known limits
    The sizeLimit of an emptyDir cannot be seen from inside: the kubelet evicts a pod that goes beyond.

    ## References
    kubernetes/kubernetes#125852, kubernetes/website#36494, kernel.org/doc/html/latest/filesystems/tmpfs.html
    """
    need, headroom = plan.shm_need_bytes, memory.headroom_bytes
    if not plan.num_workers or need is None:
        wanted = "no shared memory is needed" if plan.num_workers == 0 else "what the loader needs is not known"
        return Verdict(f"{binary_size(headroom)} of memory left; {wanted}")
    findings = [] if need <= COMFORT * headroom else [too_little(need, plan, memory, shm, cgroups, ask_for_less(fitting))]
    if not memory.limit_known and not any(finding.level == "fail" for finding in findings):
        return Verdict.unknown("a memory limit, or what is charged to it, cannot be read")
    seen = f"{binary_size(headroom)} of memory left ({memory.tightest.source}); the loader needs {binary_size(need)} as /dev/shm"
    return Verdict(seen, [*findings, *smaller_than_it_looks(runtime)])


def too_little(
    need: int,
    plan: LoaderPlan,
    memory: MemoryBudget,
    shm: SharedMemory | Unavailable,
    cgroups: Cgroups | Unavailable,
    fewer: tuple[Fix, ...],
) -> Finding:
    beyond = need > memory.headroom_bytes
    left = binary_size(memory.headroom_bytes)
    free = None if isinstance(shm, Unavailable) else shm.free_bytes
    looks = f" /dev/shm shows {binary_size(free)} free, and that does not help." if free is not None and free >= need else ""
    return Finding(
        level="fail" if beyond else "warn",
        subject=PATH,
        summary=f"Batches in flight take {binary_size(need)} of shared memory, and {left} of memory are left"
        f"{'' if beyond else ' for all'}",
        measured=Quantity(memory.headroom_bytes, "bytes", memory.tightest.source),
        expected=Quantity(need if beyond else int(need / COMFORT), "bytes", plan.arithmetic),
        relation="at_least",
        why=f"{plan.arithmetic} They count as memory of this job.{looks} "
        'It ends in "DataLoader worker is killed by signal: Killed", or with the whole container.',
        fixes=(*more_memory(memory, need, COMFORT, cgroups), *fewer),
        explained_by="memory-budget",
    )


def smaller_than_it_looks(runtime: Runtime | Unavailable) -> list[Finding]:
    if isinstance(runtime, Unavailable) or runtime.name != "kubernetes":
        return []
    return [
        Finding(
            level="note",
            subject=PATH,
            summary="The sizeLimit of an emptyDir at /dev/shm may be smaller than what it shows",
            why="It cannot be seen from inside; a pod that goes beyond is evicted.",
        )
    ]


CHECK = Check(shm_memory_limit)
