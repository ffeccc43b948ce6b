from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, StartMethods
from dl_doctor.model import Finding, Fix, Verdict

FORKSERVER_SINCE = (3, 14)
"""The first Python whose default on Linux is forkserver; what's new in 3.14, multiprocessing."""


def start_method(methods: StartMethods, plan: LoaderPlan) -> Verdict:
    """The workers' start method is there, and known

    ## What it checks
    By which method (fork, spawn, forkserver) the job's Python starts worker processes, and whether it has that method.

    ## Why it matters
    Under fork a worker inherits all that the main process holds, threads and CUDA's state included. Under spawn and forkserver
    it gets the dataset by pickle and imports the script anew: lambdas, local classes, open files and scripts without a main
    guard break. Python 3.14 changed the default on Linux from fork to forkserver, and code that always worked stopped.

    ## How it decides
    The method in force is `--start-method`, else what is set where the interpreter starts, else the default of that Python. One
    that this Python does not have fails. A default that is about to change, or has changed, is a note.

    For example, Python 3.11 with nothing said starts workers by fork, and the note says what 3.14 will do.

    ## How to fix
    Give the method to the loader, so that no default decides: `DataLoader(..., multiprocessing_context="spawn")`.

    ## Known limits
    What the program itself sets, by `set_start_method` or the loader's argument, is not seen: say it with `--start-method`.

    ## References
    pytorch/pytorch#169252, pytorch/pytorch#167387, pytorch/ignite#3805, facebookresearch/spdl#1565
    """
    version = ".".join(map(str, methods.python))
    method, source = in_force(methods, plan)
    seen = f"{method} ({source}); Python {version} has {', '.join(methods.available)}"
    if plan.num_workers == 0:
        return Verdict(f"{seen}; without workers none is started")
    if method not in methods.available:
        return Verdict(seen, [unavailable(method, source, methods)])
    return Verdict(seen, [] if plan.start_method or methods.chosen else changing_default(methods))


def in_force(methods: StartMethods, plan: LoaderPlan) -> tuple[str, str]:
    """The method that this job's workers are started by, and who says so."""
    if plan.start_method:
        return plan.start_method, "--start-method"
    return methods.unless_said, "set where the interpreter starts" if methods.chosen else "this Python's default here"


def unavailable(method: str, source: str, methods: StartMethods) -> Finding:
    return Finding(
        level="fail",
        subject="start_method",
        summary=f"The job's Python cannot start workers by {method}",
        why=f"It is what is asked for ({source}), and there are {', '.join(methods.available)}. It ends in ValueError.",
        fixes=(by_method(methods.available[0]),),
    )


def changing_default(methods: StartMethods) -> list[Finding]:
    """Where the default is not what it is in another version of Python."""
    default = methods.available[0]
    if default == "fork" and "forkserver" in methods.available and methods.python < FORKSERVER_SINCE:
        summary = "Workers are started by fork, the default; from Python 3.14 on it is forkserver"
        why = "What cannot be pickled (lambdas, local classes, open files) in the dataset will then stop working."
    elif default == "forkserver":
        summary = "Workers are started by forkserver, the default since Python 3.14; before, it was fork"
        why = "The dataset travels by pickle: lambdas, local classes and open files in it do not."
    else:
        return []
    return [Finding(level="note", subject="start_method", summary=summary, why=why, fixes=(by_method("fork"),))]


def by_method(method: str) -> Fix:
    return Fix("Say by which method, so that no default decides", (f'DataLoader(..., multiprocessing_context="{method}")',))


CHECK = Check(start_method)
