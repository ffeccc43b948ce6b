from dl_doctor.contract import Check
from dl_doctor.facts import CpuBudget, LoaderPlan, ProcessBudget
from dl_doctor.facts.process_budget import ProcessLimit
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count

COMFORT = 2
"""Times the need: libraries start threads of their own, one for each CPU that they see."""

THREADS_OF_A_WORKER = 3
"""The worker itself, the one that sends its batches, and the one that hands out its descriptors: measured with torch 2.13, where
a forked worker has 3, and a spawned one those that NumPy starts on top."""


def process_budget(budget: ProcessBudget, plan: LoaderPlan, cpu: CpuBudget | Unavailable) -> Verdict:
    """Processes and threads suffice for the workers

    ## What it checks
    How many more threads may be started, by the tightest of: pids.max of this process's control group and of all above it,
    RLIMIT_NPROC (`ulimit -u`), and the kernel's own limits, against what ranks and workers start.

    ## Why it matters
    Each thread counts as one. When none is left, a worker cannot be started: "can't start new thread", "Resource temporarily
    unavailable", or libgomp ends the process.

    ## How it decides
    A rank needs a thread for each CPU that PyTorch computes with, one more, and three for each worker. Fewer than that fail, and
    fewer than twice as many warn. RLIMIT_NPROC does not apply to root, but does to the root of a rootless
    container; it counts all threads of the user on the machine, of which only those in sight can be counted here.

    For example, 8 ranks of 16 workers need 8 x (1 + 1 + 16 x 3) = 400 threads: `--pids-limit 256` fails.

    ## How to fix
    Raise the limit that is named, or ask for fewer workers and for fewer threads of each library.

    ## Known limits
    Libraries that start a pool in each worker (OpenCV, OpenBLAS after spawn) need more than is told here.

    ## References
    vladmandic/sdnext#2642, OpenMathLib/OpenBLAS#1668, MIC-DKFZ/nnUNet#1343, open-mmlab/mmdetection#6831
    """
    tightest = budget.tightest
    left = "no limit is in sight" if tightest is None else f"{tightest.left} more may be started ({tightest.source})"
    if plan.num_workers is None:
        return judged(budget, f"{left}; how many workers there will be is not known", [])
    threads = 1 if isinstance(cpu, Unavailable) else cpu.intra_op_threads
    need = plan.ranks * (threads + 1 + plan.num_workers * THREADS_OF_A_WORKER)
    findings = [] if tightest is None or tightest.left >= COMFORT * need else [too_few(tightest, need, plan, threads)]
    return judged(budget, f"{left}; the job needs at least {need} threads", findings)


def judged(budget: ProcessBudget, seen: str, findings: list[Finding]) -> Verdict:
    if not budget.limit_known and not any(finding.level == "fail" for finding in findings):
        return Verdict.unknown(f"a limit on processes, or what counts against it, cannot be read; at most {seen}")
    above = "" if budget.ancestors_known else "; groups above are out of sight and may leave fewer"
    return Verdict(seen + above, findings)


def too_few(limit: ProcessLimit, need: int, plan: LoaderPlan, threads: int) -> Finding:
    beyond = need > limit.left
    ranks = f"{plan.ranks} ranks × " if plan.ranks > 1 else ""
    wanted = f"{ranks}({threads} for PyTorch + 1 + {count(plan.num_workers or 0, 'worker')} × {THREADS_OF_A_WORKER})"
    return Finding(
        level="fail" if beyond else "warn",
        subject=limit.source,
        summary=f"{count(limit.left, 'more thread')} may be started{'' if beyond else ', less than twice what is needed'}: "
        f"ranks and workers need {need}",
        measured=Quantity(limit.left, "threads", f"{limit.limit} of {limit.source}, less {limit.used} that run"),
        expected=Quantity(need if beyond else COMFORT * need, "threads", wanted),
        relation="at_least",
        why='It ends in "can\'t start new thread" or "Resource temporarily unavailable". Each library may start a pool on top.',
        owner="admin" if limit.source.startswith("/proc/sys") else "you",
        fixes=(
            *raise_it(limit, COMFORT * need),
            Fix("Or start fewer threads", ("export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1",)),
            *([Fix("Or fewer workers", ("DataLoader(..., num_workers=...)",))] if plan.num_workers else []),
        ),
    )


def raise_it(limit: ProcessLimit, wanted: int) -> tuple[Fix, ...]:
    target = max(4096, 1 << (limit.used + wanted).bit_length())
    if limit.source.startswith("RLIMIT_NPROC"):
        return (Fix("Raise the limit in the job script, up to the hard one", ("ulimit -u $(ulimit -Hu)",)),)
    if limit.source.startswith("/proc/sys"):
        name = limit.source.removeprefix("/proc/sys/").replace("/", ".")
        return (Fix("Raise the machine's limit", (f"sysctl {name}={2 * limit.limit}",), risk="needs-root"),)
    return (
        *for_containers(
            "Start the container with more",
            run=f"--pids-limit={target}",
            compose=(f"pids_limit: {target}",),
            kubernetes=("# on the node: podPidsLimit of the kubelet's configuration",),
        ),
        Fix(
            f"Raise {limit.source}, or have the admin do so: TasksMax= of a systemd unit",
            runtimes=("bare", "slurm", "apptainer", "enroot", "container", "lxc"),
            risk="needs-root",
        ),
    )


CHECK = Check(process_budget)
