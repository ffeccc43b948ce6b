from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, DatasetTrip, LoaderPlan, MemoryBudget, StartMethods
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import MIB, binary_size, count

MUCH_PER_WORKER = 64 * MIB
"""A pickle of this size costs each worker's start about a second, one worker after the other. Proposal."""

MUCH = 0.25
"""Of the memory that is left, what the workers' copies may take. Proposal, and the same as in dataset-replication."""

STOPPED = {
    "size": "counting stopped there, at what an examination may take of memory",
    "memory": "making it took more memory than an examination may",
    "time": "counting stopped there, after 8 s",
}


def dataset_pickle_size(
    trip: DatasetTrip, objects: DatasetObjects | Unavailable, methods: StartMethods, plan: LoaderPlan, memory: MemoryBudget
) -> Verdict:
    """What goes to each worker by pickle is small

    ## What it checks
    How many bytes the pickle of dataset, collate_fn and worker_init_fn has, which each worker gets through a pipe, and how many
    the tensors that they hold, which move into shared memory once. They are counted, and nothing of them is kept. What a worker
    makes of the pickle is the larger of it and of the Python objects that the dataset holds.

    ## Why it matters
    Under spawn and forkserver the main process pickles the dataset anew for each worker, one after the other, and every worker
    builds its own copy of it: gigabytes mean minutes before the first batch, and memory times the number of workers.

    ## How it decides
    Under fork nothing is pickled, and it passes: see dataset-replication. Otherwise what each worker makes of it, times all
    workers of all ranks, and tensors once for each rank, fails above the memory that is left. It warns above a quarter of that
    memory, and where the pickle has more than 64 MiB for each worker (proposals). Counting ends at an eighth of the memory that
    is left or after 8 seconds; what is not counted to its end is at least as large, and warns.

    For example, a million short strings are 16 MiB of pickle and 60 MiB of objects, 1.9 GiB in 32 workers.

    ## How to fix
    Keep paths or offsets, not contents, in the dataset; all strings in one `bytes` with an array of offsets, or in an Arrow
    table; open memory maps in the worker, because the pickle of a numpy.memmap holds the whole file. Or start workers by fork.

    ## Known limits
    A copy took 1.0 to 1.25 times what is counted: a million short strings 70 MiB, paths 117, pairs 161, dicts 284, an array of
    fixed-width strings 54. (Private_* of /proc/PID/smaps_rollup of a spawned worker after an epoch, less the 146 MiB of one whose
    dataset is empty; Python 3.11, torch 2.13.)

    ## References
    pytorch/pytorch#87802, facebookresearch/fairseq#2166, docs.python.org/3/library/multiprocessing.html
    """
    method = methods.in_force(plan.start_method)
    if plan.num_workers == 0:
        return Verdict("without workers nothing is pickled")
    if method == "fork" and (trip.error or trip.ended.how != "answered"):
        return Verdict("forked workers inherit the dataset, and nothing is pickled")
    if trip.ended.how != "answered":
        return Verdict.skip("pickling it did not come to its end: see dataset-picklable")
    if trip.error:
        return Verdict.skip("it cannot be pickled: see dataset-picklable")
    least = "at least " if trip.stopped else ""
    tensors = f", and {binary_size(trip.storage_bytes)} of tensors beside it" if trip.storage_bytes else ""
    seen = f"{least}{binary_size(trip.pickle_bytes)} of pickle{tensors}"
    if method == "fork":
        return Verdict(f"{seen}; forked workers inherit the dataset, and nothing is pickled")
    held = objects.object_bytes if isinstance(objects, DatasetObjects) else 0
    if held > trip.pickle_bytes:
        seen += f", of which a worker makes {binary_size(held)} of Python objects"
    return Verdict(seen, size(trip, objects, method, plan, memory))


def size(
    trip: DatasetTrip, objects: DatasetObjects | Unavailable, method: str, plan: LoaderPlan, memory: MemoryBudget
) -> list[Finding]:
    workers = (plan.num_workers or 1) * plan.ranks
    held = objects.object_bytes if isinstance(objects, DatasetObjects) else 0
    copy, headroom = max(trip.pickle_bytes, held), memory.headroom_bytes
    need = workers * copy + plan.ranks * trip.storage_bytes
    fails, fills, slow = need > headroom, workers * copy > MUCH * headroom, trip.pickle_bytes > MUCH_PER_WORKER or trip.stopped
    if not (fails or fills or slow):
        return []
    least = "at least " if trip.stopped else ""
    if fails or not slow:
        summary = (
            f"{count(workers, 'worker')} by {method}{' and the tensors' if trip.storage_bytes else ''} take "
            f"{least}{binary_size(need)} for copies of the dataset, {'more than' if fails else 'more than a quarter of'} the "
            f"{binary_size(headroom)} that are left"
        )
        limit, source = (headroom if fails else int(MUCH * headroom)), memory.tightest.source
    else:
        summary = f"Each worker by {method} gets {least}{binary_size(trip.pickle_bytes)} of pickle"
        limit, source = workers * MUCH_PER_WORKER, "64 MiB for each worker"
    tensors = ", and tensors once for each rank" if trip.storage_bytes else ""
    path, most = heaviest(trip, objects)
    stopped = f" It may be much more: {STOPPED[trip.stopped]}." if trip.stopped else ""
    return [
        Finding(
            level="fail" if fails else "warn",
            subject=path,
            summary=summary,
            measured=Quantity(need, "bytes", f"{count(workers, 'worker')} × {binary_size(copy)}{tensors}"),
            expected=Quantity(limit, "bytes", source),
            relation="at_most",
            why=f"It is pickled anew for each worker, one after the other, and each builds a copy of its own.{most}{stopped}",
            fixes=fixes(copied=held > trip.pickle_bytes),
        )
    ]


def fixes(*, copied: bool) -> tuple[Fix, ...]:
    """`copied`: most of it are small objects, which forked workers come to copy, too."""
    text = Fix(
        "Keep many strings in one `bytes` and an array of where each ends, or in an Arrow table",
        ('self.text = "".join(names).encode()', "self.ends = numpy.cumsum([len(name.encode()) for name in names])"),
    )
    read = Fix("Keep paths or offsets in the dataset and read a sample when it is asked for")
    fork = Fix(
        "Or start workers by fork, which pickles nothing",
        ('DataLoader(..., multiprocessing_context="fork")',),
        note="Forked workers copy these objects as they read them: see dataset-replication." if copied else "",
    )
    return (text, fork) if copied else (read, text, fork)


def heaviest(trip: DatasetTrip, objects: DatasetObjects | Unavailable) -> tuple[str, str]:
    """The attribute that most of it is, and words for that."""
    if isinstance(objects, DatasetObjects) and (held := objects.heaviest) and objects.object_bytes > trip.pickle_bytes:
        return held.path, f" Most of it is {held.path} ({binary_size(held.bytes)} of Python objects)."
    if most := trip.heaviest:
        return most.path, f" Most of it is {most.path} ({most.type}, {binary_size(most.bytes)} of pickle)."
    return "dataset", ""


CHECK = Check(dataset_pickle_size)
