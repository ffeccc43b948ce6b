from dl_doctor.contract import Check
from dl_doctor.facts import Limits, LoaderPlan
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Level, Quantity, Verdict

BLIND_MINIMUM = 256
"""Descriptors below which it is worth a word while the number of tensors in a batch is unknown: macOS' default."""


def fd_limit(limits: Limits, plan: LoaderPlan) -> Verdict:
    """Open files suffice for the batches in flight

    ## What it checks
    The limit on open descriptors (`ulimit -n`), soft and hard, against what the loader opens in one process.

    ## Why it matters
    A tensor that travels from a worker is one descriptor in the main process, as long as it lives. When they run out, PyTorch
    says "received 0 items of ancdata" or "Too many open files", or waits for ever. The text may even speak of shared memory.

    ## How it decides
    By T, the distinct tensors of a batch. At best one batch per step of prefetching is open, T x (prefetch_factor + 1); at worst
    all that are in flight, T x (workers x prefetch_factor + 2). On top come what is open from the start, four descriptors for
    each worker and four for the loader. A soft limit below the best case fails, below the worst case warns. Where T is unknown it
    is at least 1, and fewer than 256 is a note. A soft limit may be raised to the hard one by the program itself.

    For example, 8 workers whose batches hold 100 tensors open up to 1,800 descriptors: 1,024 warns.

    ## How to fix
    Raise the soft limit in the program or the job script, or pack lists of small tensors into one.

    ## Known limits
    A program that keeps every batch (a list of targets for a metric) runs out at any limit.

    ## References
    pytorch/pytorch#973, pytorch/pytorch#11201, Project-MONAI/MONAI#701, Peterande/D-FINE#22
    """
    soft = limits.open_files_soft
    if soft is None:
        return Verdict("no limit on open descriptors")
    hard = "no hard limit" if limits.open_files_hard is None else f"hard limit {limits.open_files_hard}"
    seen = f"soft limit {soft}, {hard}, {limits.inherited_files} open from the start"
    findings = descriptors(limits, plan, soft)
    return Verdict(seen, [*findings, *mappings(limits, plan)])


def descriptors(limits: Limits, plan: LoaderPlan, soft: int) -> list[Finding]:
    if plan.num_workers == 0:
        return []
    if plan.num_workers and (found := against_the_plan(limits, plan, soft)):
        return found
    if plan.tensors_per_batch is None and soft < BLIND_MINIMUM:
        return [too_few(limits, "note", soft, BLIND_MINIMUM, "as a usual minimum")]
    return []


def against_the_plan(limits: Limits, plan: LoaderPlan, soft: int) -> list[Finding]:
    best = limits.inherited_files + plan.descriptors_at_best
    worst = limits.inherited_files + plan.descriptors_at_worst
    if soft < best:
        return [too_few(limits, "fail", soft, best, "at best")]
    if soft < worst:
        return [too_few(limits, "warn", soft, worst, "at worst")]
    return []


def too_few(limits: Limits, level: Level, soft: int, need: int, case: str) -> Finding:
    return Finding(
        level=level,
        subject="RLIMIT_NOFILE",
        summary=f"A process may open {soft} descriptors, and a loader needs {need} {case}",
        measured=Quantity(soft, "descriptors", "getrlimit RLIMIT_NOFILE, soft"),
        expected=Quantity(
            need, "descriptors", "open from the start, four for the loader and each worker, and one for each tensor in flight"
        ),
        relation="at_least",
        why='It ends in "received 0 items of ancdata", in "Too many open files (24)", or in a loader that waits for ever.',
        fixes=raise_it(limits, need),
    )


def raise_it(limits: Limits, need: int) -> tuple[Fix, ...]:
    target = max(65_536, 2 * need)
    outside = for_containers(
        "Start the container with more",
        run=f"--ulimit nofile={target}:{target}",
        compose=(f"ulimits: {{nofile: {{soft: {target}, hard: {target}}}}}",),
        kubernetes=("# on the node: LimitNOFILE= in the systemd unit of the container runtime",),
    )
    if limits.open_files_hard is not None and limits.open_files_hard < need:
        return (
            *outside,
            Fix(
                "Raise the hard limit, or have the admin do so: nofile in /etc/security/limits.conf, LimitNOFILE= of a service",
                runtimes=("bare", "slurm", "apptainer", "enroot", "container", "lxc"),
                risk="needs-root",
            ),
        )
    own = Fix(
        "Raise the soft limit to the hard one at the start of the program",
        (
            "import resource",
            "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]",
            "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))",
        ),
    )
    shell = Fix("Or in the job script", ("ulimit -Sn $(ulimit -Hn)",))
    return (own, shell, *outside)


def mappings(limits: Limits, plan: LoaderPlan) -> list[Finding]:
    """Each tensor in flight is also a mapping of the main process."""
    if limits.max_map_count is None or plan.tensors_per_batch is None or plan.batches_in_flight is None:
        return []
    need = plan.tensors_per_batch * plan.batches_in_flight
    if not plan.num_workers or need < limits.max_map_count:
        return []
    return [
        Finding(
            level="warn",
            subject="vm.max_map_count",
            summary=f"A process may hold {limits.max_map_count} mappings, and {need} tensors can be in flight",
            measured=Quantity(limits.max_map_count, "mappings", "/proc/sys/vm/max_map_count"),
            expected=Quantity(need, "mappings", "one for each tensor in flight"),
            relation="at_least",
            why='It ends in "Cannot allocate memory" with memory left.',
            owner="admin",
            fixes=(
                Fix("Pack lists of small tensors into one"),
                Fix("Allow more", (f"sysctl vm.max_map_count={2 * need}",), risk="needs-root"),
            ),
        )
    ]


CHECK = Check(fd_limit)
