from dl_doctor.contract import Check
from dl_doctor.facts import Batches, LoaderPlan
from dl_doctor.facts.trouble import PATIENCE_S, Trouble
from dl_doctor.model import Finding, Fix, Quantity, Verdict
from dl_doctor.text import own_place_in, place_in
from dl_doctor.units import binary_size, count, plain


def dataset_collate(batches: Batches, plan: LoaderPlan) -> Verdict:
    """Samples fit together in a batch

    ## What it checks
    Up to 8 batches are made as a worker would make them: of the samples that the loader's own sampler gives, else of indices
    drawn at random, by its collate_fn, else by torch's. Then it is told what one takes of shared memory, and how many tensors
    with storages of their own it consists of.

    ## Why it matters
    Images of different sizes cannot be stacked, and None cannot be a part of a batch: the epoch ends at the first batch that
    meets such a sample. A batch's bytes decide how much shared memory the loader needs, and its tensors how many descriptors.

    ## How it decides
    An exception of collate_fn fails, with the first two samples that differ; and so does a batch that cannot be sent to
    another process, unless there are no workers; and so does one that is not ready after 20 s because making it of its samples
    waits. Every storage counts whole, in pages of 4 KiB, however little of it a tensor shows; the largest batch counts. What is
    no tensor of torch travels through a pipe, and not through shared memory.

    For example, a sample of 3 x 480 x 640 beside one of 3 x 480 x 639 fails.

    ## How to fix
    Crop or pad in the dataset, or give a collate_fn that does.

    ## Known limits
    Other batches may meet other samples, and be larger.

    ## References
    milesial/Pytorch-UNet#285, open-edge-platform/anomalib#1862, pytorch/pytorch#116558,
    docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    broken = first_failure(batches, plan)
    if broken:
        return Verdict(told(batches), [broken])
    return untold(batches) or Verdict(told(batches))


def first_failure(batches: Batches, plan: LoaderPlan) -> Finding | None:
    trouble, ended = batches.trouble, batches.ended
    if trouble and trouble.late:
        return waits(trouble) if batches.stuck_at_collate else None
    if trouble and trouble.stage == "collate" and not trouble.out_of_memory:
        return unlike(trouble)
    if trouble and trouble.stage == "hand over":
        return not_sent(trouble, plan)
    if ended.how in ("killed", "exited") and (ended.step or "").startswith(("collate", "pickle")):
        return died(ended.in_words)
    return None


def untold(batches: Batches) -> Verdict | None:
    """Why what was made says nothing of the batches of the job."""
    trouble, limit = batches.trouble, binary_size(batches.allowed_bytes)
    if batches.predicted_bytes is not None:
        return Verdict.unknown(
            f"a batch takes about {binary_size(batches.predicted_bytes)} by its first sample: two such are more than the {limit} "
            "of memory that may be taken here"
        )
    if batches.out_of_memory:
        return Verdict.unknown(f"making a batch takes more memory than the {limit} that an examination may take here")
    if batches.stuck_at_read:
        return Verdict.skip("a sample of a batch does not come: see dataset-sample")
    if trouble and trouble.late:
        doing = "reading its samples" if trouble.stage == "read" else "making it of its samples"
        used = f"{doing} used {plain(trouble.cpu_s or 0)} s of CPU"
        return Verdict.unknown(f"a batch was not ready within {plain(PATIENCE_S)} s, in which {used}")
    if trouble:
        return Verdict.skip("samples of a batch cannot be read: see dataset-sample")
    if batches.ended.how != "answered":
        return Verdict.unknown(f"the process that makes batches {batches.ended.in_words}")
    return None if batches.made else Verdict.unknown("the loader's sampler gave no batch: see loader-options")


def told(batches: Batches) -> str:
    if not batches.made:
        return "no batch could be made"
    shared = f"{binary_size(batches.batch_bytes or 0)} of shared memory in {count(batches.tensors or 0, 'tensor')}"
    return (
        f"{batches.made} batches of up to {count(batches.samples or 0, 'sample')}: {shared}, "
        f"{binary_size(batches.pipe_bytes or 0)} through a pipe"
    )


def unlike(trouble: Trouble) -> Finding:
    misfit, place = trouble.misfit, own_place_in(trouble.trace)
    if misfit is None:
        summary = f"A batch of the samples {', '.join(trouble.indices)}, ... cannot be made: {trouble.error}"
    else:
        (first, one), (second, other) = misfit.first, misfit.second
        summary = f"Samples {first} and {second} do not fit into one batch: {misfit.path} is {one} and {other}"
    return Finding(
        level="fail",
        subject=misfit.path if misfit else "collate_fn",
        summary=summary,
        why="The epoch ends at the first batch that meets such samples."
        + (f" {trouble.error.splitlines()[0]}" if misfit else "")
        + (f" It was raised at {place}." if place else ""),
        fixes=remedies(trouble),
    )


def remedies(trouble: Trouble) -> tuple[Fix, ...]:
    """By what is wrong: kinds that no batch can be made of, sizes that differ, or a function of the job's own."""
    kinds = (trouble.misfit.first[1], trouble.misfit.second[1]) if trouble.misfit else ()
    if "NoneType" in (*kinds, *trouble.error.split()) or "NoneType" in trouble.error:
        return (
            Fix("Put something in the place of None that stacks, such as -1 or an empty tensor, or leave the key out of all"),
        )
    if "requires grad" in trouble.error:
        return (Fix("Detach it in the dataset: gradients do not travel between processes", ("return image.detach()",)),)
    if trouble.misfit is None:
        return (Fix("Call it alone to see all of it", ("collate_fn([dataset[0], dataset[1]])",)),)
    return (
        Fix("Make them alike in the dataset: crop, resize or pad"),
        Fix(
            "Or pad where the batch is made",
            (
                "def pad(samples): return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)",
                "DataLoader(..., collate_fn=pad)",
            ),
        ),
    )


def waits(trouble: Trouble) -> Finding:
    place = place_in(trouble.trace)
    return Finding(
        level="fail",
        subject="collate_fn",
        summary=f"A batch is never ready: after {plain(PATIENCE_S)} s making it of its samples still waits"
        + (f" at {place}" if place else ""),
        measured=Quantity(round(trouble.cpu_s or 0, 2), "s", f"CPU that it used in {plain(PATIENCE_S)} s"),
        why="A loader waits for it as long: the epoch never begins.",
        fixes=(Fix("Do not wait in collate_fn for what only the main process has: a lock, a thread, a connection"),),
    )


def not_sent(trouble: Trouble, plan: LoaderPlan) -> Finding:
    alone = plan.num_workers == 0
    return Finding(
        level="note" if alone else "fail",
        subject="collate_fn",
        summary=f"A batch cannot be sent from a worker: {trouble.error}",
        why="Without workers it need not be."
        if alone
        else "It is lost in a thread of the worker's, which prints a traceback, and the loader waits for it for ever.",
        fixes=() if alone else (Fix("Give batches of tensors, arrays and plain objects; `.detach()` what has a gradient"),),
    )


def died(how: str) -> Finding:
    return Finding(
        level="fail",
        subject="collate_fn",
        summary=f"The process that makes batches {how}",
        why='A worker would end in the same way: "DataLoader worker (pid ...) is killed by signal" or "exited unexpectedly".',
    )


CHECK = Check(dataset_collate)
