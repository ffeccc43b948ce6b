from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, EntryScript, Loader, LoaderPlan, StartMethods, WorkerCuda
from dl_doctor.facts.entry_script import Unguarded
from dl_doctor.model import Finding, Fix, Unavailable, Verdict

FORKSERVER_SINCE = (3, 14)
"""The first Python whose default on Linux is forkserver; what's new in 3.14, multiprocessing."""


BREAKS_AT_FORK = {
    "jax": ("JAX has begun to use its backend", "its threads hold locks that no forked process ever gets"),
    "tensorflow": ("TensorFlow has begun to run", "its threads hold locks that no forked process ever gets"),
    "grpc": ("gRPC has threads running", "a forked process has its channels without them, and waits for ever"),
    "opencv": ("OpenCV has been used and has threads", "a forked process waits for threads that are not there"),
    "fsspec": ("fsspec has its thread running (fsspecIO)", "a forked process has its loop without it, and waits for ever"),
    "tokenizers": (
        "TOKENIZERS_PARALLELISM says true, and tokenizers is imported",
        "it keeps tokenizers from noticing the fork, after which its threads are gone",
    ),
}
"""What is alive in the process that forks, and what comes of it; ordinary threads do not count."""


def start_method(
    methods: StartMethods,
    plan: LoaderPlan,
    loader: Loader | Unavailable,
    script: EntryScript | Unavailable,
    objects: DatasetObjects | Unavailable,
    use: WorkerCuda | Unavailable,
) -> Verdict:
    """The workers' start method is there, and fits the job

    ## What it checks
    By which method (fork, spawn, forkserver) the job's Python starts worker processes, and whether it has that method. With
    `--dataset` or `--loader` also what stands in its way: libraries that are alive in the process that makes the dataset, and
    calls in the named file that a worker would run again.

    ## Why it matters
    Under fork a worker inherits all that the main process holds, threads and CUDA's state included. Under spawn and forkserver
    it gets the dataset by pickle and imports the script anew: lambdas, local classes, open files and scripts without a main
    guard break. Python 3.14 changed the default on Linux from fork to forkserver, and code that always worked stopped.

    ## How it decides
    The method in force is `--start-method`, else the loader's multiprocessing_context, else what its module or the interpreter's
    start sets, else the default of that Python. One that this Python does not have fails, and so does a process that is a daemon,
    which may have no workers. Under spawn and forkserver a file fails that iterates a loader, starts a process or calls its own
    main() outside `if __name__ == "__main__"`; under fork that is a note. Under fork a JAX or TensorFlow that is running,
    gRPC's, fsspec's or OpenCV's threads and TOKENIZERS_PARALLELISM=true warn; other threads, and mere imports, do not matter.
    Under fork it fails that CUDA has begun in the process that makes the dataset and that making a sample uses it, too.
    A default that is about to change, or has changed, is a note.

    For example, Python 3.11 with nothing said starts workers by fork, and the note says what 3.14 will do.

    ## How to fix
    Give the method to the loader, so that no default decides: `DataLoader(..., multiprocessing_context="spawn")`. Put what a
    script does below a main guard. Start the workers before libraries with threads are used, or by forkserver.

    ## Known limits
    Without `--loader` what the program sets is not seen: say it with `--start-method`. What is alive later, when the loader is
    iterated, is not seen: for samples that use CUDA before the main process does, see dataset-cuda.

    ## References
    pytorch/pytorch#169252, pytorch/pytorch#167387, pytorch/pytorch#40403, pytorch/ignite#3805, facebookresearch/spdl#1565
    """
    version = ".".join(map(str, methods.python))
    method, source = in_force(methods, plan, loader)
    seen = f"{method} ({source}); Python {version} has {', '.join(methods.available)}"
    if plan.num_workers == 0:
        return Verdict(f"{seen}; without workers none is started")
    if method not in methods.available:
        return Verdict(seen, [unavailable(method, source, methods)])
    findings = [] if plan.start_method or methods.chosen else changing_default(methods)
    if isinstance(script, EntryScript):
        findings = [*(runs_again(script, one, method) for one in script.unguarded[:1]), *findings]
    if isinstance(loader, Loader) and loader.made:
        findings = [*daemon(loader), *(alive(library) for library in loader.unsafe_at_fork if method == "fork"), *findings]
        held = isinstance(objects, DatasetObjects) and objects.on_gpu  # which is told, with its path, by dataset-cuda
        if method == "fork" and loader.cuda_used and isinstance(use, WorkerCuda) and use.used_at and not held:
            findings = [cuda_on_both_sides(use.used_at), *findings]
    return Verdict(seen, findings)


def in_force(methods: StartMethods, plan: LoaderPlan, loader: Loader | Unavailable) -> tuple[str, str]:
    """The method that this job's workers are started by, and who says so."""
    if plan.start_method is None:
        return methods.unless_said, "set where the interpreter starts" if methods.chosen else "this Python's default here"
    if isinstance(loader, Loader) and loader.arguments and loader.arguments.start_method == plan.start_method:
        return plan.start_method, "the loader's multiprocessing_context"
    if isinstance(loader, Loader) and loader.default_method == plan.start_method:
        return plan.start_method, "set by the program"
    return plan.start_method, "--start-method"


def daemon(loader: Loader) -> list[Finding]:
    if not loader.daemonic:
        return []
    return [
        Finding(
            level="fail",
            subject="start_method",
            summary="The loader lives in a daemon of multiprocessing, which may have no workers",
            why="It ends in `AssertionError: daemonic processes are not allowed to have children`.",
            fixes=(Fix("Start that process without daemon=True", ("Process(..., daemon=False)",)),),
        )
    ]


def cuda_on_both_sides(line: str) -> Finding:
    return Finding(
        level="fail",
        subject=line,
        summary=f"CUDA has begun where the dataset is made, and making a sample uses it, too, at {line}, in workers by fork",
        why="A forked worker cannot use CUDA any more: it ends in `Cannot re-initialize CUDA in forked subprocess`.",
        fixes=(
            Fix(
                "Make samples on the CPU, and move whole batches in the main process",
                ('batch = batch.to("cuda", non_blocking=True)',),
            ),
            Fix(
                "Or start workers by spawn",
                ('DataLoader(..., multiprocessing_context="spawn")',),
                note="Each worker then takes some hundreds of MiB of GPU memory for CUDA itself.",
            ),
        ),
    )


def alive(library: str) -> Finding:
    what, why = BREAKS_AT_FORK[library]
    own = {
        "opencv": (Fix("Let OpenCV use no threads in workers, nor before they start", ("cv2.setNumThreads(0)",)),),
        "tokenizers": (Fix("Let tokenizers use no threads of its own", ("TOKENIZERS_PARALLELISM=false",)),),
    }
    return Finding(
        level="warn",
        subject=library,
        summary=f"{what} in the process that workers are forked from",
        why=f"Workers can hang at their first use of it: {why}.",
        fixes=(
            *own.get(library, (Fix(f"Use {library} only after the workers have started, or only in workers"),)),
            Fix("Or start workers from a process without threads", ('DataLoader(..., multiprocessing_context="forkserver")',)),
        ),
    )


def runs_again(script: EntryScript, first: Unguarded, method: str) -> Finding:
    forked = method == "fork"
    ends = "It would end in" if forked else "It ends in"
    return Finding(
        level="note" if forked else "fail",
        subject=f"{script.path}:{first.line}",
        summary=f'{script.path}:{first.line} has `{first.what}` outside `if __name__ == "__main__"`, and a worker by '
        f"{'spawn or forkserver would run' if forked else f'{method} runs'} it again",
        why="Such a worker imports the script before it gets the dataset, and so starts the whole job anew. "
        f"{ends} `RuntimeError: An attempt has been made to start a new process before ...`.",
        fixes=(Fix("Put what the script does below a main guard", ('if __name__ == "__main__":', f"    {first.what}")),),
    )


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
