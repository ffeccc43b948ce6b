from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, LoaderPlan, MemoryBudget, StartMethods
from dl_doctor.model import Finding, Fix, Quantity, Verdict
from dl_doctor.units import binary_size, count

MUCH = 0.25
"""Of the memory that is left, what copies of Python objects may take. Proposal."""


def dataset_replication(objects: DatasetObjects, methods: StartMethods, plan: LoaderPlan, memory: MemoryBudget) -> Verdict:
    """Forked workers do not copy the dataset bit by bit

    ## What it checks
    How many Python objects the dataset holds (strings, numbers, containers, the elements of arrays of objects), and how many
    bytes of memory they lie in.

    ## Why it matters
    A forked worker shares memory with the main process until one of them writes. Python writes into every object that it only
    reads: its reference count. Over the first epoch each worker so copies all objects that it meets, memory grows from batch to
    batch, and a worker is killed, hours later and without a word of the cause.

    ## How it decides
    Under fork the bytes times all workers of all ranks are compared with the memory that is left: more than a quarter warns (a
    proposal), more than all of it fails. Arrays of numbers, fixed-width strings and tensors have one count for all their
    elements, and do not matter. Under spawn and forkserver each worker has its own copy from the start: see dataset-pickle-size
    and worker-memory.

    For example, a list of a million short strings is 60 MiB, in 16 workers 960 MiB.

    ## How to fix
    One object instead of a million: a NumPy array of fixed-width strings, an Arrow or Polars column, or all text in one `bytes`
    with an array of offsets. An array of dtype object does not help, nor does gc.freeze().

    ## Known limits
    It is counted, not measured: of large containers a thousand elements stand for all. Objects that are not reachable by
    attributes, such as those of C extensions, are not seen. A worker that read an epoch in random order grew by 61 MiB for a
    million short strings (60 counted), by 108 for paths (94), 122 for pairs (140), 122 for dicts (262: not all of a dict is
    written to), by 0 for an array of fixed-width strings (0). (Private_* of /proc/PID/smaps_rollup; Python 3.11, torch 2.13.)

    ## References
    pytorch/pytorch#13246, pytorch/pytorch#20433, docs.python.org/3/c-api/refcounting.html
    """
    if objects.ended.how != "answered":
        return Verdict.unknown(f"looking through what the dataset holds {objects.ended.in_words}")
    least = "" if objects.whole else "at least "
    seen = f"{least}{objects.objects:,} Python objects of {binary_size(objects.object_bytes)}"
    if plan.num_workers == 0:
        return Verdict(f"{seen}; without workers nothing is copied")
    method = methods.in_force(plan.start_method)
    if method != "fork":
        return Verdict(f"{seen}; workers by {method} hold a copy of their own from the start")
    return Verdict(seen, copies(objects, plan, memory))


def copies(objects: DatasetObjects, plan: LoaderPlan, memory: MemoryBudget) -> list[Finding]:
    workers = (plan.num_workers or 1) * plan.ranks
    need, headroom = workers * objects.object_bytes, memory.headroom_bytes
    if need <= MUCH * headroom:
        return []
    most = objects.heaviest
    fails = need > headroom
    return [
        Finding(
            level="fail" if fails else "warn",
            subject=most.path if most else "dataset",
            summary=f"{count(workers, 'worker')} will come to hold {binary_size(need)} of copied Python objects, "
            f"{'more than' if fails else 'more than a quarter of'} the {binary_size(headroom)} that are left",
            measured=Quantity(need, "bytes", f"{count(workers, 'worker')} × {objects.objects:,} objects"),
            expected=Quantity(headroom if fails else int(MUCH * headroom), "bytes", memory.tightest.source),
            relation="at_most",
            why="Reading a Python object writes its reference count, and so copies the memory that forked workers share."
            + (f" Most of it is {most.path} ({binary_size(most.bytes)})." if most else ""),
            fixes=(
                Fix(
                    "Keep them in one array, which has one reference count",
                    (f"{most.path.replace('dataset.', 'self.')} = numpy.array(...)" if most else "numpy.array(...)",),
                    note="Not of dtype object: strings become fixed-width ones.",
                ),
                Fix("Or keep all text in one `bytes`, and an array of where each begins"),
                Fix("Or use fewer workers", ("DataLoader(..., num_workers=...)",)),
            ),
        )
    ]


CHECK = Check(dataset_replication)
