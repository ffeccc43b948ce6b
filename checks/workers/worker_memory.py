from dl_doctor.contract import Check
from dl_doctor.facts import DatasetSamples, FittingLoader, LoaderPlan, MemoryBudget, SmokeLoad, WorkerMemory
from dl_doctor.facts.fitting_loader import COMFORT_OF_WORKERS
from dl_doctor.fixes import ask_for_less
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.text import place_in
from dl_doctor.units import binary_size, count


def worker_memory(
    worker: WorkerMemory,
    plan: LoaderPlan,
    memory: MemoryBudget,
    samples: DatasetSamples | Unavailable,
    load: SmokeLoad | Unavailable,
    fitting: FittingLoader | Unavailable,
) -> Verdict:
    """The workers' own memory fits

    ## What it checks
    What one worker of the method in force keeps for itself after an epoch, times the workers of all ranks, against the memory
    that is left. A real worker reads at most 2,000 samples, and its private pages are counted.

    ## Why it matters
    Memory climbs over the first epoch, and then a worker is killed. A forked worker shares the dataset with the main process
    only until it looks at it: counting a reference writes to a Python object, and the kernel copies its page. Under spawn and
    forkserver each worker has torch and the dataset for itself from the start.

    ## How it decides
    Copies are told by the pages that are copied for samples that follow one another and for samples at random, and are at most
    what the workers share at first. More than the memory that is left fails, more than a quarter of it warns.

    For example, a list of a million short strings takes each forked worker some 80 MiB in an epoch, an array of them nothing.

    ## How to fix
    Keep arrays (NumPy, Arrow, torch) or bytes and offsets in the dataset instead of lists and dicts of objects; an array of
    dtype object does not help. Or use fewer workers.

    ## Known limits
    What a worker keeps only after thousands of samples is not seen, and neither is what one large sample takes for a moment.

    ## References
    pytorch/pytorch#13246, pytorch/pytorch#20433, facebookresearch/fairseq#2166
    """
    if worker.refused:
        return Verdict(f"not tried: {worker.refused}", [not_tried(worker)])
    if worker.out_of_memory:
        return Verdict("one worker was stopped", [not_tried(worker)], Verdict.unknown("it needs more memory").reason)
    workers = 1 if plan.num_workers is None else plan.num_workers
    each = worker.bytes_after_epoch(workers)
    if isinstance(samples, DatasetSamples) and samples.trouble and samples.trouble.explains(worker.raised):
        return Verdict.skip("the worker came to a sample that cannot be read: see dataset-sample")
    if worker.raised and "Caught " in worker.raised:
        return Verdict(f"one worker by {worker.method} raised", [raised(worker.raised)])
    if (each is None or worker.measured_bytes is None) and isinstance(load, SmokeLoad) and not load.came_s and not load.refused:
        return Verdict.skip(f"one worker by {worker.method} {what_became_of(worker)}, and so do those of smoke-load: see there")
    if each is None or worker.measured_bytes is None:
        return Verdict.unknown(f"one worker by {worker.method} {what_became_of(worker)}")
    need = each * workers * plan.ranks
    seen = (
        f"a worker by {worker.method} has {binary_size(worker.measured_bytes)} for itself after {worker.samples:,} samples, and "
        f"about {binary_size(each)} after an epoch; {how_many(workers, plan)}: {binary_size(need)}"
    )
    if plan.num_workers is None:
        return Verdict(f"{seen}. The number of workers is not known")
    return Verdict(seen, too_much(worker, plan, memory, need, each, ask_for_less(fitting)))


def what_became_of(worker: WorkerMemory) -> str:
    if worker.raised:
        return f"raised {worker.raised.strip().splitlines()[-1].strip()}"
    if worker.ended and worker.ended.how != "answered":
        return worker.ended.in_words
    return "did not come to a batch in time"


def raised(told: str) -> Finding:
    """An exception of the job's own code: torch hands it on with the worker's traceback in its text."""
    place = place_in(told)
    return Finding(
        level="fail",
        subject="worker",
        summary=f"A worker that reads samples raised {told.strip().splitlines()[-1].strip()}",
        why=f"The epoch ends there. It was raised at {place}." if place else "The epoch ends there.",
        explained_by="dataset-sample",
    )


def how_many(workers: int, plan: LoaderPlan) -> str:
    ranks = f"{plan.ranks} ranks of " if plan.ranks > 1 else ""
    return f"{ranks}{count(workers, 'worker')}"


def not_tried(worker: WorkerMemory) -> Finding:
    return Finding(
        level="warn",
        subject="worker",
        summary=f"One worker takes more than {binary_size(worker.allowed_bytes)}, a quarter of the memory that is left",
        expected=Quantity(worker.allowed_bytes, "bytes", "a quarter of the memory that is left here"),
        relation="at_most",
        why="More was not tried, so that the examination harms nobody."
        + (" Under fork a worker shares the dataset." if worker.method != "fork" else ""),
        fixes=(by_arrays(),),
    )


def by_arrays() -> Fix:
    return Fix(
        "Keep arrays in the dataset instead of Python's objects",
        ("self.names = np.array(names)  # of a fixed width, not dtype=object",),
    )


def too_much(
    worker: WorkerMemory, plan: LoaderPlan, memory: MemoryBudget, need: int, each: int, fewer: tuple[Fix, ...]
) -> list[Finding]:
    left = memory.headroom_bytes
    if need <= COMFORT_OF_WORKERS * left or not plan.num_workers:
        return []
    beyond = need > left
    copied = worker.method == "fork" and worker.copied_by(plan.num_workers) > each / 2
    cause = (
        "It is copies of the dataset's objects, which workers share only until they look at them."
        if copied
        else (
            "Each has torch and the dataset for itself." if worker.method != "fork" else "It is what a worker keeps of its own."
        )
    )
    return [
        Finding(
            level="fail" if beyond else "warn",
            subject="worker",
            summary=f"{how_many(plan.num_workers, plan)} will have {binary_size(need)} for themselves after an epoch, and "
            f"{binary_size(left)} are left",
            measured=Quantity(need, "bytes", f"{how_many(plan.num_workers, plan)} of {binary_size(each)}"),
            expected=Quantity(left if beyond else int(COMFORT_OF_WORKERS * left), "bytes", memory.tightest.source),
            relation="at_most",
            why=f'{cause} Beyond the limit a worker ends: "DataLoader worker is killed by signal: Killed".',
            fixes=(by_arrays(), *fewer),
        )
    ]


CHECK = Check(worker_memory)
