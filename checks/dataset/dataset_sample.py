from dl_doctor.contract import Check
from dl_doctor.facts import Batches, DatasetSamples, Loader
from dl_doctor.facts.dataset_samples import Reading
from dl_doctor.facts.trouble import PATIENCE_S, Trouble
from dl_doctor.model import Ended, Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.text import place_in
from dl_doctor.units import binary_size, ordinal, plain

SPREAD, SPREAD_S = 5, 0.01
"""Times the median that the slowest twentieth takes, and no less than that, to be worth a word. Proposal."""


def dataset_sample(samples: DatasetSamples, loader: Loader, batches: Batches | Unavailable) -> Verdict:
    """Samples of the dataset can be read

    ## What it checks
    Up to 64 samples are read in a process that is set up as a worker of torch: one thread, its seeds, `worker_init_fn` called. Of
    a dataset with a length they are drawn with a fixed seed, from all of it or from what the loader's own sampler gives; of an
    iterable one they are the first.

    ## Why it matters
    A file that is missing or damaged ends the epoch at that index, perhaps after hours. What one sample takes, times the
    samples that the GPU wants, is what the workers have to do.

    ## How it decides
    An exception fails, and so do a process that dies and an iterable dataset that gives nothing; the index is named, of an
    iterable dataset the place in its order. A sample that has not come after 20 s fails where reading it waits (less than 2 s of
    CPU in that time), with the line that waits; where it computes, that is an error. What takes more memory than an examination
    may is stopped, and is an error, too. Other checks that would read samples do not run then. Where workers are not forked, and
    something is alive that a fork breaks, such as a thread, what hangs or dies here proves nothing: `smoke-load` decides. A
    slowest twentieth of more than five times the median is a note.

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
    if loader.length == 0:
        return Verdict.skip("the dataset has no samples: see dataset-loads")
    if not samples.like_the_job and (samples.late or ended.how in ("killed", "exited")):
        return Verdict.skip(
            f"{what_happened(samples, loader)}; workers of this job are not forked, and may do better: see smoke-load"
        )
    broken = [*first_trouble(samples, loader), *in_a_batch(samples, loader, batches)]
    if broken:
        return Verdict(told(samples), broken, trace=samples.trouble.trace if samples.trouble else "")
    if samples.out_of_memory:
        limit = f"{binary_size(samples.allowed_bytes)}, a quarter of what is left here"
        return Verdict.unknown(f"{reading(samples, loader)} takes more memory than {limit}: examine it where there is more")
    if samples.waits:
        return Verdict(what_happened(samples, loader), [stuck(ended)])
    if samples.late or ended.how == "unstartable":
        return Verdict.unknown(what_happened(samples, loader))
    if ended.how != "answered":
        return Verdict(what_happened(samples, loader), [died(ended, loader)])
    if not samples.readings:
        return nothing_given(loader)
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


def named(trouble: Trouble, loader: Loader) -> str:
    """What was being read, as its owner finds it: an iterable dataset has no indices."""
    if loader.kind == "iterable":
        return f"the {ordinal(int(trouble.indices[0]) + 1)} item of the iterator"
    return f"sample {', '.join(trouble.indices)}"


def reading(samples: DatasetSamples, loader: Loader) -> str:
    return named(samples.trouble, loader) if samples.trouble else "a sample"


def what_happened(samples: DatasetSamples, loader: Loader) -> str:
    trouble = samples.trouble
    if trouble is None or not trouble.late:
        return f"the process that reads samples {samples.ended.in_words}"
    place = place_in(trouble.trace)
    return (
        f"{named(trouble, loader)} did not come within {plain(PATIENCE_S)} s, in which reading it used "
        f"{plain(trouble.cpu_s or 0)} s of CPU{f', at {place}' if place else ''}"
    )


def first_trouble(samples: DatasetSamples, loader: Loader) -> list[Finding]:
    trouble = samples.trouble
    if trouble is None or trouble.out_of_memory or (trouble.late and not trouble.waits):
        return []
    return [waits(trouble, loader) if trouble.waits else raised(trouble, loader)]


def in_a_batch(samples: DatasetSamples, loader: Loader, batches: Batches | Unavailable) -> list[Finding]:
    """What was met only where batches were made of other samples."""
    trouble = None if isinstance(batches, Unavailable) else batches.trouble
    if isinstance(batches, Unavailable) or trouble is None or trouble.stage != "read" or samples.trouble or trouble.out_of_memory:
        return []
    if trouble.late:
        return [waits(trouble, loader)] if batches.stuck_at_read else []
    return [raised(trouble, loader)]


def raised(trouble: Trouble, loader: Loader) -> Finding:
    place = place_in(trouble.trace)
    return Finding(
        level="fail",
        subject=subject(trouble, loader),
        summary=f"{capitalized(named(trouble, loader))} cannot be read: {trouble.error}",
        why="The worker that reads it hands the exception on, and the epoch ends there."
        + (f" It was raised at {place}." if place else ""),
        fixes=remedies(trouble, loader),
    )


def waits(trouble: Trouble, loader: Loader) -> Finding:
    place = place_in(trouble.trace)
    return Finding(
        level="fail",
        subject=subject(trouble, loader),
        summary=f"{capitalized(named(trouble, loader))} does not come: after {plain(PATIENCE_S)} s reading it still waits"
        + (f" at {place}" if place else ""),
        measured=Quantity(round(trouble.cpu_s or 0, 2), "s", f"CPU that it used in {plain(PATIENCE_S)} s"),
        why="A loader waits for it as long: the epoch never ends. Usual causes are a lock that was held when the worker was "
        "forked, a thread or connection of the main process that a worker does not have, and a server that does not answer.",
        fixes=(
            Fix("Open connections, locks and thread pools in the worker, when the first sample is read there"),
            Fix("Have the loader end in an error instead of waiting for ever", ("DataLoader(..., timeout=120)",)),
        ),
    )


def subject(trouble: Trouble, loader: Loader) -> str:
    return "dataset.__iter__" if loader.kind == "iterable" else f"dataset[{', '.join(trouble.indices)}]"


def remedies(trouble: Trouble, loader: Loader) -> tuple[Fix, ...]:
    index = trouble.indices[0]
    if loader.kind == "iterable":
        return (
            Fix("Iterate it alone, to that item, to see all of it", (f"next(itertools.islice(dataset, {index}, None))",)),
            Fix(
                "Mend the record, or pass over it where it is decoded, inside of __iter__",
                ("try: yield decode(record)", "except ValueError: continue"),
                note="A generator that has raised is at its end: nobody outside can go on with the next item.",
            ),
        )
    return (
        Fix("Read it alone to see all of it", (f"dataset[{index}]",)),
        Fix("Mend it, or leave it out: Subset(dataset, indices) without it"),
    )


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def stuck(ended: Ended) -> Finding:
    """What not even a signal could interrupt: it waits in a library, or in the kernel."""
    return Finding(
        level="fail",
        subject=ended.step or "dataset",
        summary=f"A process that reads samples {ended.in_words}",
        why="A loader waits for it as long: the epoch never ends. A library that waits for a thread which a forked worker does "
        "not have, and a network filesystem that does not answer, look like this.",
        fixes=(Fix("Have the loader end in an error instead of waiting for ever", ("DataLoader(..., timeout=120)",)),),
    )


def died(ended: Ended, loader: Loader) -> Finding:
    """Where nothing handed an exception on: it was raised before a sample was read, or the process ended."""
    memory = " SIGKILL is what the kernel sends where memory runs out." if ended.signal == "SIGKILL" else ""
    place = place_in(ended.output_tail)
    if ended.how == "raised":
        init = ended.step == "become a worker" and loader.arguments is not None and loader.arguments.worker_init_fn is not None
        what = "worker_init_fn" if init else "A process that reads samples"
        where = f" It was raised at {place}." if place else ""
        said = f"raises {ended.error}" if init else ended.in_words
        return Finding(
            level="fail",
            subject=ended.step or "dataset",
            summary=f"{what} {said}",
            why=f"A worker hands the exception on, and the epoch ends before its first batch.{where}",
        )
    ends = '"exited unexpectedly"' if ended.how == "exited" else '"is killed by signal"'
    where = f" It exits at {place}." if place and ended.how == "exited" else ""
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


def nothing_given(loader: Loader) -> Verdict:
    if loader.kind != "iterable":
        return Verdict.unknown("the loader's sampler gives no index: see loader-options")
    finding = Finding(
        level="fail",
        subject="dataset.__iter__",
        summary=f"{loader.type} gives no item: its iterator is at its end at once",
        measured=Quantity(0, "samples", "items of its iterator"),
        expected=Quantity(1, "samples", "something to train on"),
        relation="at_least",
        why="An epoch ends before its first step. A pattern that matches no file here, and an iterator that is made in the "
        "constructor and was gone through already, have this effect.",
        fixes=(Fix("Begin anew in each __iter__", ("def __iter__(self): return iter(open_the_data())",)),),
    )
    return Verdict("its iterator gave no item", [finding])


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


CHECK = Check(dataset_sample, essential=True)
