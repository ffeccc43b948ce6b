from dl_doctor.contract import Check
from dl_doctor.facts import Batches, LoaderPlan
from dl_doctor.facts.batches import Trouble
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.units import binary_size, count


def dataset_collate(batches: Batches, plan: LoaderPlan) -> Verdict:
    """Samples fit together in a batch

    ## What it checks
    Up to 8 batches are made as a worker would make them: of the samples that the loader's own sampler gives, else of indices
    drawn at random, by its collate_fn, else by torch's. Then it is told what one takes of shared memory (B), and how many
    storages it consists of (T).

    ## Why it matters
    Images of different sizes cannot be stacked, and None cannot be a part of a batch: the epoch ends at the first batch that
    meets such a sample. B and T decide how much shared memory and how many descriptors the loader needs.

    ## How it decides
    An exception of collate_fn fails, with the first two samples that differ; and so does a batch that cannot be sent to
    another process, unless there are no workers. B counts every storage whole, in pages of 4 KiB, however little of it a tensor
    shows, and is that of the largest batch. What is no tensor of torch travels through a pipe, and not through shared memory.

    For example, a sample of 3 x 480 x 640 beside one of 3 x 480 x 639 fails.

    ## How to fix
    Crop or pad in the dataset, or give a collate_fn that does.

    ## Known limits
    Other batches may meet other samples, and be larger.

    ## References
    milesial/Pytorch-UNet#285, open-edge-platform/anomalib#1862, pytorch/pytorch#116558,
    docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    trouble = batches.trouble
    if trouble and trouble.stage == "collate" and not trouble.out_of_memory:
        return Verdict(told(batches), [unlike(trouble)])
    if trouble and trouble.stage == "hand over":
        return Verdict(told(batches), [not_sent(trouble, plan)])
    if batches.predicted_bytes is not None:
        size, limit = binary_size(batches.predicted_bytes), binary_size(batches.allowed_bytes)
        return Verdict.unknown(
            f"a batch takes about {size} by its first sample: two such are more than the {limit} of memory that may be taken here"
        )
    if batches.out_of_memory:
        limit = binary_size(batches.allowed_bytes)
        return Verdict.unknown(f"making a batch takes more memory than the {limit} that an examination may take here")
    if trouble:
        return Verdict.unknown(f"sample {', '.join(trouble.indices)} could not be read: see dataset-sample")
    ended = batches.ended
    if ended.how in ("killed", "exited") and (ended.step or "").startswith(("collate", "pickle")):
        return Verdict(f"the process that makes batches {ended.in_words}", [died(ended.in_words)])
    if ended.how != "answered":
        return Verdict.unknown(f"the process that makes batches {ended.in_words}")
    if not batches.made:
        return Verdict.unknown("the dataset or its sampler gave no batch")
    return Verdict(told(batches))


def told(batches: Batches) -> str:
    if not batches.made:
        return "no batch could be made"
    shared = f"{binary_size(batches.batch_bytes or 0)} of shared memory (B) in {count(batches.tensors or 0, 'tensor')} (T)"
    return (
        f"{batches.made} batches of up to {count(batches.samples or 0, 'sample')}: {shared}, "
        f"{binary_size(batches.pipe_bytes or 0)} through a pipe"
    )


def unlike(trouble: Trouble) -> Finding:
    misfit = trouble.misfit
    if misfit is None:
        summary = f"A batch of the samples {', '.join(trouble.indices)}, ... cannot be made: {trouble.error}"
    else:
        (first, one), (second, other) = misfit.first, misfit.second
        summary = f"Samples {first} and {second} do not fit into one batch: {misfit.path} is {one} and {other}"
    return Finding(
        level="fail",
        subject=misfit.path if misfit else "collate_fn",
        summary=summary,
        why=f"The epoch ends at the first batch that meets such samples: {trouble.error.splitlines()[0]}",
        fixes=(
            Fix("Make them alike in the dataset: crop, resize or pad"),
            Fix("Or give a function that does", ("DataLoader(..., collate_fn=pad_to_the_largest)",)),
        ),
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
