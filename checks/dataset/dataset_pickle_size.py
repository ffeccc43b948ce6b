from dl_doctor.contract import Check
from dl_doctor.facts import DatasetTrip, LoaderPlan, MemoryBudget, StartMethods
from dl_doctor.model import Finding, Fix, Quantity, Verdict
from dl_doctor.units import MIB, binary_size, count

MUCH_PER_WORKER = 64 * MIB
"""A pickle of this size costs each worker's start about a second, one worker after the other. Proposal."""

STOPPED = {
    "size": "counting stopped there, at what an examination may take of memory",
    "memory": "making it took more memory than an examination may",
    "time": "counting stopped there, after 8 s",
}


def dataset_pickle_size(trip: DatasetTrip, methods: StartMethods, plan: LoaderPlan, memory: MemoryBudget) -> Verdict:
    """What goes to each worker by pickle is small

    ## What it checks
    How many bytes the pickle of dataset, collate_fn and worker_init_fn has, which each worker gets through a pipe, and how many
    the tensors that they hold, which move into shared memory once. They are counted, and nothing of them is kept.

    ## Why it matters
    Under spawn and forkserver the main process pickles the dataset anew for each worker, one after the other, and every worker
    builds its own copy of it: gigabytes mean minutes before the first batch, and memory times the number of workers.

    ## How it decides
    Under fork nothing is pickled, and it passes. Otherwise the size times all workers of all ranks, and tensors once for each
    rank, fails above the memory that is left, and warns above 64 MiB for each worker (a proposal). Counting ends at an eighth of
    the memory that is left or after 8 seconds; what is not counted to its end is at least as large, and warns.

    For example, a list of 20 million paths in 8 workers is 400 MiB of pickle for each.

    ## How to fix
    Keep paths or offsets, not contents, in the dataset; strings in one array or Arrow table; open memory maps in the worker,
    because the pickle of a numpy.memmap holds the whole file. Or start workers by fork.

    ## Known limits
    The copy in a worker can take several times what its pickle does.

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
    return Verdict(seen, size(trip, method, plan, memory))


def size(trip: DatasetTrip, method: str, plan: LoaderPlan, memory: MemoryBudget) -> list[Finding]:
    workers = (plan.num_workers or 1) * plan.ranks
    need = workers * trip.pickle_bytes + plan.ranks * trip.storage_bytes
    headroom = memory.headroom_bytes
    if need <= headroom and trip.pickle_bytes <= MUCH_PER_WORKER and not trip.stopped:
        return []
    least = "at least " if trip.stopped else ""
    heaviest = trip.heaviest
    most = f" Most of it is {heaviest.path} ({heaviest.type}, {binary_size(heaviest.bytes)})." if heaviest else ""
    stopped = f" It may be much more: {STOPPED[trip.stopped]}." if trip.stopped else ""
    fails = need > headroom
    return [
        Finding(
            level="fail" if fails else "warn",
            subject=heaviest.path if heaviest else "dataset",
            summary=f"Each worker by {method} gets {least}{binary_size(trip.pickle_bytes)} of pickle"
            + (
                f": {count(workers, 'worker')} and the tensors need more than the {binary_size(headroom)} that are left"
                if fails
                else ""
            ),
            measured=Quantity(need, "bytes", f"{count(workers, 'worker')} × the pickle, and tensors once for each rank"),
            expected=Quantity(
                headroom if fails else workers * MUCH_PER_WORKER,
                "bytes",
                "memory that is left" if fails else "64 MiB for each worker",
            ),
            relation="at_most",
            why=f"It is pickled anew for each worker, one after the other, and each builds a copy of its own.{most}{stopped}",
            fixes=(
                Fix("Keep paths or offsets in the dataset and read a sample when it is asked for"),
                Fix(
                    "Keep many strings in one array, and files as numpy.memmap that is opened in the worker",
                    ("numpy.array(names)",),
                ),
                Fix("Or start workers by fork, which pickles nothing", ('DataLoader(..., multiprocessing_context="fork")',)),
            ),
        )
    ]


CHECK = Check(dataset_pickle_size)
