from dl_doctor.contract import Check
from dl_doctor.facts import Environment, LoaderPlan, TorchImport
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count

VARIABLES = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES")
"""What makes an OpenMP library bind the thread that loads it (GCC's, LLVM's and Intel's manuals)."""


def affinity_kept(torch: TorchImport, plan: LoaderPlan, environment: Environment | Unavailable) -> Verdict:
    """Importing torch leaves the CPU mask as it was

    ## What it checks
    The CPUs that a process may run on before and after it imports torch and numpy, in the environment of the job.

    ## Why it matters
    An OpenMP library that is told to bind threads binds the main thread too, as soon as it is loaded. Every worker that is
    started afterwards inherits the mask: eight workers share one CPU, the GPU waits, and PyTorch suggests to use fewer workers.

    ## How it decides
    Fewer CPUs after the import than before fail. With num_workers=0 nothing inherits the mask, and it is a note. The variables
    that bind threads are named where they are set.

    For example, with GOMP_CPU_AFFINITY=0 the mask shrinks from 64 CPUs to one: it fails.

    ## How to fix
    Unset the variable, or give each worker its CPUs back in worker_init_fn.

    ## Known limits
    Other libraries that the job imports can bind it too; only torch and numpy are imported here.

    ## References
    pytorch/pytorch#8126, #49971, #91989, #101850; ultralytics/ultralytics#11195
    """
    if torch.import_s is None:
        return Verdict.skip(f"torch could not be imported (torch-imports says why): it {torch.ended.in_words}")
    before, after = torch.affinity_before, torch.affinity_after
    if before is None or after is None:
        return Verdict.skip("this system has no CPU masks")
    seen = f"{count(len(before), 'CPU')} before, {len(after)} after importing torch"
    return Verdict(seen, [] if set(before) <= set(after) else [shrunk(before, after, torch, plan, environment)])


def shrunk(
    before: tuple[int, ...],
    after: tuple[int, ...],
    torch: TorchImport,
    plan: LoaderPlan,
    environment: Environment | Unavailable,
) -> Finding:
    known = {} if isinstance(environment, Unavailable) else environment.variables
    kept = len(set(before) & set(after))
    set_here = [name for name in VARIABLES if known.get(name)]
    cause = (
        f"Importing torch with {' and '.join(f'{name}={known[name]}' for name in set_here)}" if set_here else "Importing torch"
    )
    loaded = f" OpenMP in the process: {', '.join(torch.openmp)}." if torch.openmp else ""
    unset = (
        (Fix("Unset it before Python starts", (f"unset {' '.join(set_here)}",)),)
        if set_here
        else (Fix("Use the build of PyTorch from pytorch.org: its OpenMP binds nothing unless it is told to"),)
    )
    return Finding(
        level="note" if plan.num_workers == 0 else "fail",
        subject="affinity",
        summary=f"{cause} leaves {kept} of {count(len(before), 'CPU')}",
        measured=Quantity(kept, "CPUs", "sched_getaffinity after importing torch"),
        expected=Quantity(len(before), "CPUs", "sched_getaffinity before"),
        relation="at_least",
        why=f"The main thread is bound, and all workers inherit it: they share {count(len(after), 'CPU')}.{loaded}",
        fixes=(
            *unset,
            Fix(
                "Or give the workers their CPUs back",
                (f"DataLoader(..., worker_init_fn=lambda worker: os.sched_setaffinity(0, {in_python(before)}))",),
                note="With spawn or forkserver it has to be a function at the top of a module.",
            ),
        ),
    )


def in_python(cpus: tuple[int, ...]) -> str:
    """`range(0, 64)`, or `{0, 2, 4}` where it has gaps."""
    run = range(cpus[0], cpus[-1] + 1)
    return f"range({run.start}, {run.stop})" if tuple(run) == cpus else f"{{{', '.join(map(str, cpus))}}}"


CHECK = Check(affinity_kept)
