from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, DatasetTrip, LoaderPlan, StartMethods
from dl_doctor.facts.dataset_trip import Culprit, DatasetTravel
from dl_doctor.model import Finding, Fix, Unavailable, Verdict
from dl_doctor.units import binary_size, plain


def dataset_picklable(
    trip: DatasetTrip, objects: DatasetObjects | Unavailable, methods: StartMethods, plan: LoaderPlan
) -> Verdict:
    """The dataset reaches a worker

    ## What it checks
    A real child process of the method in force (fork, spawn, forkserver) is started with the dataset, collate_fn and
    worker_init_fn as its arguments, as a DataLoader starts its workers, and has to answer. Under fork another one is started by
    spawn. Sampler and generator stay in the main process and are not sent.

    ## Why it matters
    Under spawn and forkserver all that a worker needs goes to it by pickle. Lambdas, classes inside functions, open files,
    connections, generators and locks cannot go, and what a script defines below its main guard is not there in the worker. The
    loader ends in an exception when it starts its workers, often with the name of a type that nobody remembers to have used.

    ## How it decides
    Under spawn and forkserver a child that cannot be started, dies or raises fails. Under fork nothing is pickled, and what would
    not travel is a note: from Python 3.14 on forkserver is the default on Linux. Open handles that
    forked workers would share are left to dataset-open-handles then: the same change mends both. What cannot be pickled is looked
    for on the way that pickle takes, and named by its path.

    For example, `dataset.transform.transforms[2].fn is a lambda (train.py:55)`.

    ## How to fix
    A lambda becomes a function of a module, or functools.partial of one. A class inside a function, or in a notebook, goes into a
    module. Files, connections, generators and thread locks are made in the worker when they are first needed, and left out of
    `__getstate__`. A lock between processes comes from the context that starts the workers.

    ## Known limits
    What takes more than a quarter of the memory that is left is not sent: see dataset-pickle-size. Tensors on a GPU are not sent.

    ## References
    pytorch/pytorch#169252, pytorch/pytorch#87016, pytorch/vision#9194, docs.python.org/3/library/pickle.html
    """
    method = methods.in_force(plan.start_method)
    if plan.num_workers == 0:
        return Verdict("without workers nothing travels")
    if trip.ended.how != "answered":
        return undecided(trip, method)
    travelled = trip.trip_by(method)
    if travelled is None:
        return untried(trip, method)
    if travelled.ended.how == "hung":
        return Verdict.unknown(f"a child by {method} did not answer within {plain(travelled.duration_s)} s")
    if out_of_memory(travelled):
        return Verdict.unknown(f"a child by {method} takes more memory than examining it may: {travelled.ended.error}")
    seen = f"a child by {method} received it in {plain(1000 * travelled.duration_s)} ms"
    if travelled.ended.how != "answered":
        return Verdict(f"a child by {method} did not receive it", [broken(trip, travelled, "fail")])
    if method != "fork":
        return Verdict(f"{seen}; the pickle is {binary_size(trip.pickle_bytes)}")
    culprit, handles = trip.culprit, objects.shared if isinstance(objects, DatasetObjects) else ()
    if culprit and culprit.path in {handle.path for handle in handles}:
        return Verdict(f"{seen}; by pickle {culprit.path} would not travel: see dataset-open-handles")
    return Verdict(seen, by_pickle(trip))


def by_pickle(trip: DatasetTrip) -> list[Finding]:
    """What would go wrong by another method, where workers are forked."""
    other = trip.trip_by("spawn")
    if other is None and trip.error:
        return [finding(trip, trip.error, "fork", "note", f"Pickling raises {trip.error}.")]
    if other and other.ended.how not in ("answered", "hung") and not out_of_memory(other):
        return [broken(trip, other, "note")]
    return []


def undecided(trip: DatasetTrip, method: str) -> Verdict:
    """Pickling itself ended the process, or took too long."""
    if trip.ended.how in ("killed", "exited") and method != "fork":
        summary = f"Pickling the dataset ends the process: it {trip.ended.in_words}"
        return Verdict(summary, [Finding(level="fail", subject="dataset", summary=summary, why=WHY[method])])
    return Verdict.unknown(f"sending the dataset to a worker {trip.ended.in_words}")


def untried(trip: DatasetTrip, method: str) -> Verdict:
    """Nothing was sent. What pickle says of it still stands."""
    if trip.error:
        return Verdict("pickling it raises", [finding(trip, trip.error, method, "fail", f"Pickling raises {trip.error}.")])
    if trip.not_tried == "device":
        return Verdict.skip("it holds tensors on a GPU, which an examination does not touch: see dataset-cuda")
    if trip.not_tried == "child":
        return Verdict.skip("too little memory is left to start a worker for an examination; pickling it raises nothing")
    return Verdict.skip("it is too large to be sent for an examination: see dataset-pickle-size")


def out_of_memory(travel: DatasetTravel) -> bool:
    """Whether it failed for the limit that examinations have."""
    return "MemoryError" in (travel.ended.error or "") or "llocate memory" in (travel.ended.error or "")


WHY = {
    "spawn": "A worker that is spawned gets the dataset by pickle, and the loader ends when it starts its first one.",
    "forkserver": "A worker of a forkserver gets the dataset by pickle, and the loader ends when it starts its first one.",
    "fork": "Forked workers inherit it, so that it works here. By spawn, and by forkserver, the default since Python 3.14, "
    "it ends the loader.",
}


def broken(trip: DatasetTrip, travel: DatasetTravel, level: str) -> Finding:
    error = travel.ended.error
    if travel.where == "parent":
        evidence = f"Pickling raises {error}."
    else:
        evidence = f"The worker {f'raises {error}' if error else travel.ended.in_words} when it reads the pickle."
    said = error or f"the worker {travel.ended.in_words}"
    return finding(trip, said, "fork" if level == "note" else travel.method, level, evidence)


def finding(trip: DatasetTrip, error: str, method: str, level: str, evidence: str) -> Finding:
    culprit = trip.culprit
    would = "would not reach a worker by spawn or forkserver" if level == "note" else f"does not reach a worker by {method}"
    what = f"{culprit.path} {is_a(culprit)}: it {would}" if culprit else f"The dataset {would}: {error}"
    return Finding(
        level="note" if level == "note" else "fail",
        subject=culprit.path if culprit else "dataset",
        summary=what,
        why=f"{WHY[method]} {evidence}",
        fixes=(*fixes(culprit, error), *keep_fork(method, culprit)),
    )


def is_a(culprit: Culprit) -> str:
    """`is a lambda (train.py:12)`, `is a h5py._hl.files.File`."""
    at = f" ({culprit.line})" if culprit.line else ""
    name = culprit.name or ""
    if name.endswith("<lambda>"):
        return f"is a lambda{at}"
    if culprit.type == "class":
        inside = ", which is inside a function" if "<locals>" in name else ""
        return f"is of class {name}{' of __main__' if culprit.module == '__main__' else ''}{inside}{at}"
    if name:
        inside = ", which is inside another" if "<locals>" in name else ""
        return f"is the function {name}{' of __main__' if culprit.module == '__main__' else ''}{inside}{at}"
    return f"is of type {culprit.type}"


LAZILY = (
    "def __getstate__(self):",
    '    return {{**self.__dict__, "{name}": None}}',
    "# and where it is used:",
    "if self.{name} is None:",
    "    self.{name} = ...",
)


def fixes(culprit: Culprit | None, error: str) -> tuple[Fix, ...]:
    """What mends it, by its type."""
    if culprit is None:
        return ()
    name, kind = culprit.name or "", culprit.type
    attribute = culprit.path.rpartition(".")[2].partition("[")[0]
    if name.endswith("<lambda>"):
        return (Fix("Write a function at the top of a module, or functools.partial of one, instead of the lambda"),)
    if culprit.module == "__main__":
        return (Fix(f"Move {name} into a module of its own, and import it", (f"from data import {name}",)),)
    if "<locals>" in name:
        return (Fix(f"Move {name.rpartition('.')[2]} out of the function, to the top of its module"),)
    if "SemLock" in error:
        title = "Make it by the context that starts the workers"
        return (Fix(title, ('context = multiprocessing.get_context("spawn")', f"self.{attribute} = context.Lock()")),)
    if kind == "module":
        return (Fix("Import the module where it is used, and do not keep it in an attribute"),)
    if kind == "torch._C.Generator":
        return (Fix("Keep a seed, and make the generator in the worker", lazily(attribute)),)
    if kind.startswith("torch.") and "requires_grad" in error:
        return (Fix("Keep it without its graph", (f"self.{attribute} = self.{attribute}.detach()",)),)
    if culprit.path == "dataset" or from_where(culprit) not in OPENED:
        return ()
    return (Fix("Make it once per worker, when it is first needed, and leave it out of the pickle", lazily(attribute)),)


OPENED = {"_io", "sqlite3", "h5py", "Environment", "lmdb", "generator", "_thread", "socket", "zipfile", "tarfile", "mmap"}
"""Where types come from that stand for something open; py-lmdb's Environment names no module."""


SHARED_BY_FORK = OPENED - {"generator", "_thread", "mmap"}
"""Of these, what forked workers would get in each other's way by: no error any more, and wrong samples instead."""


def from_where(culprit: Culprit) -> str:
    return culprit.type.partition(".")[0]


def lazily(attribute: str) -> tuple[str, ...]:
    return tuple(line.format(name=attribute) for line in LAZILY)


def keep_fork(method: str, culprit: Culprit | None) -> tuple[Fix, ...]:
    if method == "fork" or (culprit and from_where(culprit) in SHARED_BY_FORK):
        return ()
    return (
        Fix(
            "Or start workers by fork, which pickles nothing",
            ('DataLoader(..., multiprocessing_context="fork")',),
            note="Not where CUDA is used in workers.",
        ),
    )


CHECK = Check(dataset_picklable, essential=True)
