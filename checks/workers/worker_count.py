import math

from dl_doctor.contract import Check
from dl_doctor.facts import CpuBudget, FittingLoader, LoaderPlan, LoaderSweep
from dl_doctor.facts.loader_plan import WORKERS_PER_CPU
from dl_doctor.fixes import ask_for_less, give_cpus
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count, plain


def worker_count(
    cpu: CpuBudget, plan: LoaderPlan, fitting: FittingLoader | Unavailable, sweep: LoaderSweep | Unavailable
) -> Verdict:
    """The workers fit the CPUs

    ## What it checks
    How many DataLoader workers a rank starts against the CPUs that it may really use.

    ## Why it matters
    Past the optimum more workers make loading slower: they take turns on the same CPUs, and each one costs memory. PyTorch's
    own hint counts the CPUs in the affinity mask; it sees neither a container's CPU quota nor the other ranks of the node.

    ## How it decides
    More workers than one and a half per CPU warn; a single worker never does. The suggestion leaves one CPU to the main
    process. Workers that wait for a network rather than compute can be more: only a measurement tells. Where there is one
    (`--profile deep`, `dl-doctor sweep`), it decides: a setting with which an epoch is loaded in less than nine tenths of the
    time warns.

    For example, in a container with `--cpus=2`, 3 workers pass and 8 warn, on however large a machine.

    ## How to fix
    Start with the suggested number, and raise it only as long as the epoch gets shorter.

    ## Known limits
    The rule knows nothing of the dataset. It is where to begin, not the optimum. What is measured in seconds may be otherwise
    in an epoch's last hour: a cache that fills, a disk that has used up its burst.

    ## References
    pytorch/pytorch#46867, kubernetes-sigs/inference-perf#722, Lightning-AI/pytorch-lightning#18591
    """
    if isinstance(sweep, LoaderSweep) and sweep.recommendation is not None:
        return by_measurement(plan, sweep)
    verdict = by_rule(cpu, plan, fitting)
    if isinstance(sweep, LoaderSweep):
        verdict = Verdict(verdict.seen, [*verdict.findings, conclusion(sweep)])
    return verdict


def by_rule(cpu: CpuBudget, plan: LoaderPlan, fitting: FittingLoader | Unavailable) -> Verdict:
    """Where no measurement decides."""
    allowed = f"a rank may use {count(cpu.cpus, 'CPU')} ({cpu.tightest.source})"
    if not cpu.quota_known:
        allowed = f"a rank may use at most {count(cpu.cpus, 'CPU')}, and a quota may be out of sight"
    if plan.num_workers is None:
        return Verdict(f"{allowed}; the number of workers is not known", [suggestion(cpu), *torch_hint(cpu)])
    seen = f"{count(plan.num_workers, 'worker')} per rank ({plan.workers_source}); {allowed}"
    if plan.num_workers > max(1.0, WORKERS_PER_CPU * cpu.cpus):
        return Verdict(seen, [too_many(cpu, plan, plan.num_workers, fitting)])
    return Verdict(seen, [*needless_warning(cpu, plan.num_workers), *torch_hint(cpu)])


WORTH_IT = 1.10
"""Times as fast: what is less is told and no warning. Proposal."""


def by_measurement(plan: LoaderPlan, sweep: LoaderSweep) -> Verdict:
    rates = {point.num_workers: point.samples_per_s for point in sweep.points}
    best = sweep.recommended
    seen = f"measured: {', '.join(f'{workers} → {plain(rate)} samples/s' for workers, rate in rates.items())}"
    credit = [Finding(level="note", subject="num_workers", summary=sweep.caveat)] if sweep.caveat else []
    now = rates.get(-1 if plan.num_workers is None else plan.num_workers)
    if not now or plan.num_workers == best or best not in rates:
        return Verdict(seen, [conclusion(sweep), *credit])
    gained = rates[best] / now
    finding = Finding(
        level="warn" if gained >= WORTH_IT else "note",
        subject="num_workers",
        summary=f"{count(best, 'worker')} load {plain(gained)} times as fast as {plan.num_workers}",
        measured=Quantity(now, "samples/s", plan.workers_source),
        expected=Quantity(rates[best], "samples/s", f"num_workers={best}, measured in turn"),
        relation="at_least",
        why=f"{sweep.bottleneck}: {sweep.evidence}." if sweep.evidence else "",
        fixes=(Fix("Use that many", (sweep.line,)),),
    )
    return Verdict(seen, [finding, *credit])


def conclusion(sweep: LoaderSweep) -> Finding:
    return Finding(level="note", subject="num_workers", summary=f"{sweep.why[:1].upper()}{sweep.why[1:]}")


def suggested(cpu: CpuBudget) -> int:
    """One CPU is left for the main process; there is always a worker."""
    return max(1, math.floor(cpu.cpus) - 1)


def suggestion(cpu: CpuBudget) -> Finding:
    return Finding(
        level="note",
        subject="num_workers",
        summary=f"Start with num_workers={suggested(cpu)}",
        measured=Quantity(cpu.cpus, "CPUs", cpu.tightest.source),
        why="It leaves one CPU to the main process. Raise it only as long as the epoch gets shorter.",
    )


def too_many(cpu: CpuBudget, plan: LoaderPlan, workers: int, fitting: FittingLoader | Unavailable) -> Finding:
    hint = torch_hint(cpu)
    return Finding(
        level="warn",
        subject="num_workers",
        summary=f"{workers} workers share {count(cpu.cpus, 'CPU')}",
        measured=Quantity(workers, "workers", plan.workers_source),
        expected=Quantity(
            max(1, math.floor(WORKERS_PER_CPU * cpu.cpus)),
            "workers",
            f"{WORKERS_PER_CPU:g} per CPU, {cpu.tightest.source}",
        ),
        relation="at_most",
        why=" ".join(["They take turns, and each one costs memory.", *(note.summary for note in hint)]),
        fixes=(*ask_for_less(fitting, "Use fewer workers"), *more_cpus(cpu, plan)),
        explained_by="cpu-budget",
    )


def more_cpus(cpu: CpuBudget, plan: LoaderPlan) -> tuple[Fix, ...]:
    """Only where a quota or a set of CPUs is what binds, and the machine has as many."""
    wanted = (plan.cpus_needed or 0) * cpu.ranks
    if cpu.tightest.kind not in ("quota", "cpuset", "affinity") or wanted > (cpu.node_cpus or cpu.affinity_cpus):
        return ()
    return give_cpus("Or give the container more CPUs", cpu, wanted)


def torch_hint(cpu: CpuBudget) -> list[Finding]:
    """PyTorch suggests the CPUs in the mask; say so where that is more than may be used."""
    if cpu.affinity_cpus <= max(1, cpu.cpus):
        return []
    shared = "the ranks that share them" if cpu.tightest.shared_by > 1 else "the limit on their use"
    return [
        Finding(
            level="note",
            subject="num_workers",
            summary=f"PyTorch's own hint would say {cpu.affinity_cpus}: it counts CPUs in the mask and misses {shared}.",
            measured=Quantity(cpu.affinity_cpus, "CPUs", "sched_getaffinity"),
            expected=Quantity(cpu.cpus, "CPUs", cpu.tightest.source),
            relation="equal",
        )
    ]


def needless_warning(cpu: CpuBudget, workers: int) -> list[Finding]:
    """PyTorch warns as soon as there are more workers than CPUs in the mask."""
    if workers <= cpu.affinity_cpus:
        return []
    return [
        Finding(
            level="note",
            subject="num_workers",
            summary=f"PyTorch will warn about {workers} workers on {plain(cpu.affinity_cpus)} CPUs; that many can be right.",
        )
    ]


CHECK = Check(worker_count)
