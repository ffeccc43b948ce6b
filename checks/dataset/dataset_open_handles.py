from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, DatasetTrip, Loader, LoaderPlan, StartMethods
from dl_doctor.facts.dataset_objects import Handle
from dl_doctor.model import Finding, Fix, Level, Unavailable, Verdict

SHARED = {
    "file": "Forked workers share one place in the file: where one seeks, another reads, and samples are silently wrong.",
    "h5py": "Forked workers share the file's descriptor and copies of HDF5's state: they read wrong data or find a bad header, "
    "without an error from pickle.",
    "lmdb": "LMDB forbids an environment to be used in a forked process: readers crash, or get data that is not theirs.",
    "sqlite": "SQLite forbids a connection to be carried over a fork: it reports a malformed database, or locks for ever.",
    "connection": "Forked workers read each other's answers from the one connection.",
}

DATA_FILES = {
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".nc": "h5py",
    ".mdb": "lmdb",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
DATA_FILES |= {".zip": "file", ".tar": "file"}
"""Files that are read through a handle, whose descriptor was left open where no attribute leads to it."""


def dataset_open_handles(
    loader: Loader, objects: DatasetObjects, trip: DatasetTrip | Unavailable, methods: StartMethods, plan: LoaderPlan
) -> Verdict:
    """No worker shares an open file or connection

    ## What it checks
    What is open for reading once the dataset is made and before any sample is read: files, archives, HDF5, LMDB, SQLite and
    connections that attributes lead to, and data files whose descriptor was left open in another place, such as a module.

    ## Why it matters
    A forked worker inherits the descriptor with its place in the file, and a library's state as a copy. Two workers that read
    at the same time get each other's bytes. Nothing raises: training goes on with wrong samples, or dies at random.

    ## How it decides
    Under fork each such handle warns. Under spawn and forkserver a handle that cannot be pickled fails; one that opens its file
    anew in the worker passes. Files that are only written to, loggers, memory maps (numpy.memmap) and handles that are opened
    when the first sample is read are healthy.

    For example, `self.h5 = h5py.File(path)` in `__init__` warns, and `self.h5 = None`, opened in `__getitem__`, passes.

    ## How to fix
    Keep the path, open in the worker when the handle is first needed, and never read a sample, a length or labels through it in
    the main process before the workers start.

    ## Known limits
    A library that reads at given places only (os.pread) may share a descriptor; it is not told apart. A handle that the main
    process opens later, by reading a sample, is not seen.

    ## References
    pytorch/pytorch#11929, h5py/h5py#1082, jnwatson/py-lmdb#266, sqlite.org/howtocorrupt.html
    """
    method = methods.in_force(plan.start_method)
    if objects.ended.how != "answered":
        return Verdict.unknown(f"looking through what the dataset holds {objects.ended.in_words}")
    found = [*objects.handles, *left_open(loader, objects)]
    seen = f"{len(found)} open" if found else "nothing is open for reading"
    if plan.num_workers == 0:
        return Verdict(f"{seen}; without workers nothing is shared")
    if method == "fork":
        return Verdict(seen, [shared(handle) for handle in found])
    if isinstance(trip, Unavailable):
        return Verdict(seen, (), Verdict.lacking("dataset_trip", trip).reason if found else None)
    travelled = trip.trip_by(method)
    if travelled and travelled.ended.how == "answered":
        return Verdict(f"{seen}; workers by {method} get none of the main process's")
    stays = [handle for handle in objects.handles if trip.culprit is not None and handle.path.startswith(trip.culprit.path)]
    return Verdict(seen, [cannot_travel(handle, method) for handle in stays])


def left_open(loader: Loader, objects: DatasetObjects) -> list[Handle]:
    """Data files that are open and that no attribute leads to."""
    reached = tuple(handle.file.lstrip("./") for handle in objects.handles if handle.file)
    kinds = {handle.kind for handle in objects.handles if handle.file is None or handle.kind == "lmdb"}
    found = []
    for path in loader.opened:
        kind = next((kind for ending, kind in DATA_FILES.items() if path.endswith(ending)), None)
        if kind is not None and not path.endswith(reached) and kind not in kinds:
            found.append(Handle(path=path, type="descriptor", kind=kind, file=path))  # type: ignore[arg-type]
    return found


def shared(handle: Handle) -> Finding:
    return said(handle, "warn", f"{what(handle)}, and every forked worker would share it", SHARED[handle.kind])


def cannot_travel(handle: Handle, method: str) -> Finding:
    why = "It is open in the main process, and cannot be sent to a worker: the loader ends when it starts its workers."
    return said(handle, "fail", f"{what(handle)}, and does not reach a worker by {method}", why)


def what(handle: Handle) -> str:
    where = f" on {handle.file}" if handle.file and handle.file != handle.path else ""
    if handle.type == "descriptor":
        return f"{handle.path} was opened when the dataset was made and still is, though no attribute leads to it"
    return f"{handle.path} is an open {handle.type}{where}"


def said(handle: Handle, level: Level, summary: str, why: str) -> Finding:
    name = handle.path.rpartition(".")[2].partition("[")[0]
    lines = opened_late(name, handle) if handle.path.startswith("dataset.") and name.isidentifier() else ()
    return Finding(
        level=level,
        subject=handle.path,
        summary=summary,
        why=why,
        fixes=(Fix("Keep the path, and open it once per worker, when it is first needed", lines),),
        explained_by="dataset-picklable" if level == "fail" else None,
    )


OPEN = {
    "file": 'open(self.path, "rb")',
    "h5py": 'h5py.File(self.path, "r")',
    "lmdb": "lmdb.open(self.path, readonly=True, lock=False, readahead=False)",
    "sqlite": "sqlite3.connect(self.path)",
    "connection": "connect(...)",
}


def opened_late(name: str, handle: Handle) -> tuple[str, ...]:
    how = "open(self.path)" if handle.type.endswith("TextIOWrapper") else OPEN[handle.kind]
    return (
        "def __init__(self, path):",
        f"    self.path, self.{name} = path, None",
        "def __getitem__(self, index):",
        f"    if self.{name} is None:",
        f"        self.{name} = {how}",
    )


CHECK = Check(dataset_open_handles)
