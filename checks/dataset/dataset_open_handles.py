from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, Loader, LoaderPlan, StartMethods
from dl_doctor.facts.dataset_objects import Handle
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.units import count

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
"""Files of libraries that keep a state of their own, whose descriptor was left open where no attribute leads to it."""


def dataset_open_handles(loader: Loader, objects: DatasetObjects, methods: StartMethods, plan: LoaderPlan) -> Verdict:
    """No worker shares an open file or connection

    ## What it checks
    What is open once the dataset is made and before any sample is read: files and descriptors, archives, HDF5, LMDB, SQLite and
    connections that attributes lead to, and files that were left open in another place, such as a module. Of files it is tried
    out whether samples depend on what workers would share: a process like a worker reads up to 16, and the files' offsets are
    looked at.

    ## Why it matters
    A forked worker inherits the descriptor with its place in the file, and a library's state as a copy. Two workers that read
    at the same time get each other's bytes. Nothing raises: training goes on with wrong samples, or dies at random.

    ## How it decides
    Under fork a file warns whose offset is moved by reading samples, and so does each open HDF5 file, LMDB environment, SQLite
    or other connection. Files that are only mapped (mmap, numpy.memmap), read at given places (os.pread), kept so that they are
    not removed, or written to are healthy, and so is what worker_init_fn opens anew, or the first sample. Under spawn and
    forkserver no worker gets a handle: one that cannot be pickled is told by dataset-picklable. A descriptor's number gets there,
    and stands for nothing: samples that read through it fail.

    For example, `self.h5 = h5py.File(path)` in `__init__` warns, and `self.h5 = None`, opened in `__getitem__`, passes.

    ## How to fix
    Keep the path, open in the worker when the handle is first needed, and never read a sample, a length or labels through it in
    the main process before the workers start. With a bare descriptor, `os.pread(fd, size, offset)` shares nothing.

    ## Known limits
    A file that none of the samples came from is not seen to be read. A handle that the main process opens later, by reading a
    sample, is not seen.

    ## References
    pytorch/pytorch#11929, h5py/h5py#1082, jnwatson/py-lmdb#266, sqlite.org/howtocorrupt.html,
    man7.org/linux/man-pages/man2/fork.2.html
    """
    method = methods.in_force(plan.start_method)
    if objects.ended.how != "answered":
        return Verdict.unknown(f"looking through what the dataset holds {objects.ended.in_words}")
    found = [*objects.shared, *left_open(loader, objects)]
    if plan.num_workers == 0:
        return Verdict("without workers nothing is shared")
    if method != "fork":
        numbers = [handle for handle in found if handle.type == "int"]
        seen = f"workers by {method} get none of the main process's handles"
        return Verdict(seen, [not_there(handle, method) for handle in numbers])
    if objects.undecided and not found:
        return Verdict.skip(
            f"whether samples move the offset of an open file is not known, because {objects.undecided}: see dataset-sample"
        )
    seen = f"{count(len(found), 'open handle') if found else 'no open handle'} that workers would share"
    spared = [handle for handle in objects.handles if handle not in found and handle.type != "int"]
    also = f"; samples leave the offset of {count(len(spared), 'open file')} alone" if spared and not objects.undecided else ""
    return Verdict(f"{seen}{also}", [shared(group) for group in by_cause(found)])


def left_open(loader: Loader, objects: DatasetObjects) -> list[Handle]:
    """Files of a library that are open and that no attribute leads to."""
    reached = tuple(handle.file.lstrip("./") for handle in (*objects.handles, *objects.shared) if handle.file)
    kinds = {handle.kind for handle in objects.handles if handle.file is None or handle.kind == "lmdb"}
    found = []
    for path in loader.opened:
        kind = next((kind for ending, kind in DATA_FILES.items() if path.endswith(ending)), None)
        if kind is not None and not path.endswith(reached) and kind not in kinds:
            found.append(Handle(path=path, type="descriptor", kind=kind, file=path))  # type: ignore[arg-type]
    return found


def by_cause(handles: list[Handle]) -> list[list[Handle]]:
    """Those that are mended by one change: what belongs to one open file, and files that one attribute holds."""
    groups: dict[tuple[str, str | None], list[Handle]] = {}
    for handle in handles:
        of_library = handle.kind not in ("file", "connection")
        groups.setdefault((handle.kind, handle.file if of_library else handle.path.partition("[")[0]), []).append(handle)
    return [sorted(group, key=lambda handle: not handle.type.endswith(WHOLE)) for group in groups.values()]


WHOLE = ("File", "Environment", "Connection")
"""How types end that stand for all that is open, not for a part of it."""


def shared(group: list[Handle]) -> Finding:
    handle, *others = group
    also = f", as {'is' if len(others) == 1 else 'are'} {others[0].path}" if others else ""
    also += f" and {len(others) - 1} more" if len(others) > 1 else ""
    moved = handle.descriptor is not None
    how = "; samples move its offset, which forked workers share" if moved else ", and every forked worker would share it"
    return Finding(
        level="warn",
        subject=handle.path,
        summary=f"{what(handle)}{also}{how}",
        why=SHARED[handle.kind],
        fixes=fixes(handle),
    )


def not_there(handle: Handle, method: str) -> Finding:
    return Finding(
        level="fail",
        subject=handle.path,
        summary=f"{what(handle)}; a worker by {method} gets the number and not the file",
        why="Samples read through it. In such a worker the number stands for nothing (Bad file descriptor), or for another file.",
        fixes=(opened_late(handle),),
    )


def what(handle: Handle) -> str:
    where = f" on {handle.file}" if handle.file and handle.file != handle.path else ""
    if handle.type == "descriptor":
        return f"{handle.path} was opened when the dataset was made and still is, though no attribute leads to it"
    if handle.type == "int":
        return f"{handle.path} is an open descriptor (a number){where}"
    return f"{handle.path} is an open {handle.type}{where}"


def fixes(handle: Handle) -> tuple[Fix, ...]:
    if handle.type != "int":
        return (opened_late(handle),)
    return (
        Fix("Say where to read, which leaves the offset alone", (f"os.pread(self.{name_of(handle)}, size, offset)",)),
        Fix("Or open it once per worker, when it is first needed", opened_late(handle).commands),
    )


def opened_late(handle: Handle) -> Fix:
    title = "Keep the path, and open it once per worker, when it is first needed"
    name = name_of(handle)
    if not handle.path.startswith("dataset.") or not name.isidentifier():
        return Fix(title)
    return Fix(
        title,
        (
            "def __init__(self, path):",
            f"    self.path, self.{name} = path, None",
            "def __getitem__(self, index):",
            f"    if self.{name} is None:",
            f"        self.{name} = {opening(handle)}",
        ),
    )


def name_of(handle: Handle) -> str:
    """The attribute's; one for it alone where it stands in a list or a dictionary with others."""
    name = handle.path.rpartition(".")[2]
    return "file" if name.endswith("]") else name


OPEN = {
    "file": 'open(self.path, "rb")',
    "h5py": 'h5py.File(self.path, "r")',
    "lmdb": "lmdb.open(self.path, readonly=True, lock=False, readahead=False)",
    "sqlite": "sqlite3.connect(self.path)",
    "connection": "connect(...)",
}

OPEN_BY_TYPE = {
    "int": "os.open(self.path, os.O_RDONLY)",
    "_io.TextIOWrapper": "open(self.path)",
    "zipfile.ZipFile": "zipfile.ZipFile(self.path)",
    "tarfile.TarFile": "tarfile.open(self.path)",
    "cv2.VideoCapture": "cv2.VideoCapture(self.path)",
}


def opening(handle: Handle) -> str:
    part = '["..."]' if handle.kind == "h5py" and not handle.type.endswith(WHOLE) else ""
    return OPEN_BY_TYPE.get(handle.type, OPEN[handle.kind]) + part


CHECK = Check(dataset_open_handles)
