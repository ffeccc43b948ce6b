from dl_doctor.contract import Check
from dl_doctor.facts import Batches, DatasetSamples
from dl_doctor.facts.batches import Trouble
from dl_doctor.facts.dataset_samples import Reading
from dl_doctor.model import Ended, Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size, plain

SPREAD, SPREAD_S = 5, 0.01
"""Times the median that the slowest twentieth takes, and no less than that, to be worth a word. Proposal."""


def dataset_sample(samples: DatasetSamples, batches: Batches | Unavailable) -> Verdict:
    """Samples of the dataset can be read

    ## What it checks
    Up to 64 samples are read in a process that is set up as a worker of torch: one thread, its seeds, `worker_init_fn` called. Of
    a dataset with a length they are drawn with a fixed seed, from all of it or from what the loader's own sampler gives; of an
    iterable one they are the first.

    ## Why it matters
    A file that is missing or damaged ends the epoch at that index, perhaps after hours. What one sample takes, times the
    samples that the GPU wants, is what the workers have to do.

    ## How it decides
    An exception fails, and so does a process that dies; the index is named. One that has not come back after 30 s is an error,
    with the index that it reads. What takes more memory than an examination may is stopped, and is an error, too. A slowest
    twentieth of more than five times the median is a note.

    For example, sample 17 that raises "FileNotFoundError: /data/17.png" fails.

    ## How to fix
    Mend or leave out that sample. Read it alone to see the whole traceback: `dataset[17]`.

    ## Known limits
    Of a large dataset 64 samples are few: what is damaged elsewhere is not seen. Files that were read a short while ago come from
    memory, so that the first epoch takes longer than what is told here.

    ## References
    pytorch/pytorch#1137, pytorch/pytorch#7238
    """
    ended = samples.ended
    broken = [*first_exception(samples), *in_a_batch(samples, batches)]
    if broken:
        return Verdict(told(samples), broken)
    if samples.out_of_memory:
        limit = binary_size(samples.allowed_bytes)
        return Verdict.unknown(f"{reading(samples)} takes more memory than the {limit} that an examination may take here")
    if ended.how in ("hung", "stuck", "unstartable"):
        return Verdict.unknown(f"the process that reads samples {ended.in_words}")
    if ended.how != "answered":
        return Verdict(f"the process that reads samples {ended.in_words}", [died(ended)])
    if not samples.readings:
        return Verdict.unknown("it gave no sample")
    return Verdict(told(samples), uneven(samples))


def told(samples: DatasetSamples) -> str:
    size = "" if samples.largest_bytes is None else f", of up to {binary_size(samples.largest_bytes)}"
    slowest, median, p95 = samples.slowest, samples.median_s, samples.p95_s
    if slowest is None or median is None or p95 is None:
        return "no sample could be read"
    times = f"half of them within {duration(median)}, 95 % within {duration(p95)}, the slowest in {duration(slowest.took_s)}"
    return f"{len(samples.readings)} samples{size}: {times}{firsts(samples)}"


def firsts(samples: DatasetSamples) -> str:
    opened = [sample.took_s for sample in samples.readings if sample.opened]
    if not opened or len(opened) == len(samples.readings):
        return ""
    return f"; the first of each of {len(opened)} files are not counted in that and took up to {duration(max(opened))}"


def duration(seconds: float) -> str:
    return f"{plain(seconds)} s" if seconds >= 1 else f"{plain(seconds * 1000)} ms"


def reading(samples: DatasetSamples) -> str:
    return f"sample {samples.trouble.indices[0]}" if samples.trouble else "a sample"


def first_exception(samples: DatasetSamples) -> list[Finding]:
    trouble = samples.trouble
    return [raised(trouble)] if trouble and not trouble.out_of_memory else []


def in_a_batch(samples: DatasetSamples, batches: Batches | Unavailable) -> list[Finding]:
    """What was met only where batches were made of other samples."""
    trouble = None if isinstance(batches, Unavailable) else batches.trouble
    if trouble is None or trouble.stage != "read" or samples.trouble or trouble.out_of_memory:
        return []
    return [raised(trouble)]


def raised(trouble: Trouble) -> Finding:
    index = ", ".join(trouble.indices)
    place = [line.strip() for line in trouble.trace.splitlines() if line.strip().startswith("File ")]
    where = f" It was raised in {place[-1].removeprefix('File ')}." if place else ""
    return Finding(
        level="fail",
        subject=f"dataset[{index}]",
        summary=f"Sample {index} cannot be read: {trouble.error}",
        why=f"The worker that reads it hands the exception on, and the epoch ends there.{where}",
        fixes=(
            Fix("Read it alone to see all of it", (f"dataset[{index}]",)),
            Fix("Mend it, or leave it out: Subset(dataset, indices) without it"),
        ),
    )


def died(ended: Ended) -> Finding:
    """Where nothing handed an exception on: it was raised before a sample was read, or the process ended."""
    memory = " SIGKILL is what the kernel sends where memory runs out." if ended.signal == "SIGKILL" else ""
    lines = [line.strip() for line in ended.output_tail.splitlines()]
    place = [line.removeprefix("File ") for line in lines if line.startswith("File ")]
    if ended.how == "raised":
        what = "worker_init_fn" if ended.step == "become a worker" else "A process that reads samples"
        where = f" It was raised in {place[-1]}." if place else ""
        said = f"raises {ended.error}" if ended.step == "become a worker" else ended.in_words
        return Finding(
            level="fail",
            subject=ended.step or "dataset",
            summary=f"{what} {said}",
            why=f"A worker hands the exception on, and the epoch ends before its first batch.{where}",
        )
    ends = '"exited unexpectedly"' if ended.how == "exited" else '"is killed by signal"'
    where = f" It exits in {place[-1]}." if place and ended.how == "exited" else ""
    return Finding(
        level="fail",
        subject=ended.step or "dataset",
        summary=f"A process that reads samples {ended.in_words}",
        why=f"A worker would end in the same way: DataLoader worker (pid ...) {ends}.{memory}{where}",
        fixes=(
            Fix("Raise an exception there: code that is called must not end the process (sys.exit, os._exit)")
            if ended.how == "exited"
            else Fix("Do what it did last in a process of its own, with the traceback on", ("python -X faulthandler ...",)),
        ),
    )


def uneven(samples: DatasetSamples) -> list[Finding]:
    median, p95 = samples.median_s, samples.p95_s
    if median is None or p95 is None or p95 < max(SPREAD * median, SPREAD_S):
        return []
    slowest: Reading = max((sample for sample in samples.readings if not sample.opened), key=lambda sample: sample.took_s)
    return [
        Finding(
            level="note",
            subject=f"dataset[{slowest.index}]",
            summary=f"Samples take unequally long: one in twenty more than {plain(p95 / median)} times the median",
            measured=Quantity(p95, "s", "the 95th percentile"),
            expected=Quantity(median, "s", "the median"),
            why=f"A batch waits for its slowest sample. The slowest was {slowest.index}, with {duration(slowest.took_s)}.",
        )
    ]


CHECK = Check(dataset_sample)
