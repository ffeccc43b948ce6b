from dl_doctor.contract import Check
from dl_doctor.facts import Environment, GpuGrant, Loader, Runtime, Slurm
from dl_doctor.facts.loader import LoaderArguments
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count

INTERACTIVE_STEP = "4294967290"
"""SLURM_STEP_ID of the shell that salloc opens (SLURM_INTERACTIVE_STEP in slurm.h)."""


def loader_options(
    loader: Loader,
    environment: Environment,
    runtime: Runtime | Unavailable,
    slurm: Slurm | Unavailable,
    gpus: GpuGrant | Unavailable,
) -> Verdict:
    """The loader's arguments fit the dataset and the job

    ## What it checks
    The arguments of the DataLoader: whether an epoch has any batch, and options that do nothing or harm here.

    ## Why it matters
    A loader without batches ends each epoch at once, and the job "trains" in seconds without an error. A loader that waits for
    ever costs a night where nobody looks.

    ## How it decides
    No batches in an epoch fails, as with drop_last and fewer samples than a batch. In a Slurm or Kubernetes job nobody looks:
    there workers with a collate_fn of your own and no timeout warn, because a batch that such a worker cannot hand over is lost
    without a word. pin_memory without a GPU, and persistent_workers with a dataset that has a set_epoch, are notes.

    For example, 20 samples, a batch_size of 32 and drop_last=True give no batch.

    ## How to fix
    Set drop_last=False or a smaller batch_size; `timeout=` of some minutes turns a wait into an exception.

    ## Known limits
    What the program changes later, and what a framework puts around the loader, is not seen.

    ## References
    pytorch/pytorch#62066, docs.pytorch.org/docs/stable/data.html
    """
    own = loader.arguments
    if loader.not_examined:
        return Verdict.lacking("loader", loader.not_examined)
    if own is None:
        return Verdict.skip("a dataset was named, and no loader")
    batches = "an unknown number of" if own.batches is None else f"{own.batches:,}"
    return Verdict(
        f"{batches} batches of {own.batch_size or 'its own'} samples, {count(own.num_workers, 'worker')}",
        [
            *no_batches(loader, own),
            *less_than_a_batch_each(loader, own, environment),
            *waits_for_ever(own, unattended(environment, runtime, slurm)),
            *pins_for_nobody(own, gpus),
            *epochs_unseen(own),
        ],
    )


def no_batches(loader: Loader, own: LoaderArguments) -> list[Finding]:
    if own.batches != 0:
        return []
    samples = "is empty" if loader.length == 0 else f"has {loader.length:,} samples" if loader.length else "is of unknown length"
    dropped = own.drop_last and bool(loader.length)
    return [
        Finding(
            level="fail",
            subject="DataLoader.drop_last" if dropped else "dataset",
            summary=f"An epoch has no batch: the dataset {samples}"
            + (f", a batch {own.batch_size}, and drop_last drops what is less" if dropped else ""),
            measured=Quantity(0, "batches", "len(loader)"),
            expected=Quantity(1, "batches", "an epoch"),
            relation="at_least",
            why="Each epoch ends at once, and no error tells.",
            fixes=(Fix("Keep the last batch", ("DataLoader(..., drop_last=False)",)),) if dropped else (),
        )
    ]


def less_than_a_batch_each(loader: Loader, own: LoaderArguments, environment: Environment) -> list[Finding]:
    """Where a framework will deal the samples out to ranks, which this loader does not do itself."""
    said = environment.get("WORLD_SIZE") or ""
    world = int(said) if said.isdecimal() else 1
    if world < 2 or own.rank_aware or not own.batches or not own.drop_last or not loader.length or not own.batch_size:
        return []
    if loader.length // world >= own.batch_size:
        return []
    return [
        Finding(
            level="warn",
            subject="DataLoader.drop_last",
            summary=f"Dealt out to {world} ranks, {loader.length:,} samples are less than a batch of {own.batch_size} for each",
            measured=Quantity(loader.length // world, "samples", "of each rank"),
            expected=Quantity(own.batch_size, "samples", "a batch"),
            relation="at_least",
            why="With drop_last an epoch then has no batch, and no error tells.",
            fixes=(Fix("Keep the last batch", ("DataLoader(..., drop_last=False)",)),),
        )
    ]


def unattended(environment: Environment, runtime: Runtime | Unavailable, slurm: Slurm | Unavailable) -> str | None:
    """The kind of job at which nobody looks; None where somebody may."""
    if isinstance(slurm, Slurm) and environment.get("SLURM_STEP_ID") != INTERACTIVE_STEP:
        return "a Slurm job"
    return "a Kubernetes pod" if isinstance(runtime, Runtime) and runtime.name == "kubernetes" else None


def waits_for_ever(own: LoaderArguments, where: str | None) -> list[Finding]:
    if where is None or not own.num_workers or own.collate_fn is None or own.timeout_s > 0:
        return []
    return [
        Finding(
            level="warn",
            subject="DataLoader.timeout",
            summary=f"In {where} the loader may wait for ever: a collate_fn of its own ({own.collate_fn}) and no timeout",
            measured=Quantity(own.timeout_s, "s", "DataLoader.timeout"),
            why="A batch that a worker cannot hand over, for want of shared memory or descriptors, is lost without a word.",
            fixes=(Fix("Have it end in an exception", ("DataLoader(..., timeout=600)",), note="Longer than the slowest batch."),),
        )
    ]


def pins_for_nobody(own: LoaderArguments, gpus: GpuGrant | Unavailable) -> list[Finding]:
    if not own.pin_memory or isinstance(gpus, Unavailable) or gpus.expected:
        return []
    return [
        Finding(
            level="note",
            subject="DataLoader.pin_memory",
            summary="pin_memory does nothing here: there is no GPU to copy to",
        )
    ]


def epochs_unseen(own: LoaderArguments) -> list[Finding]:
    if not own.persistent_workers or not own.dataset_has_set_epoch:
        return []
    return [
        Finding(
            level="note",
            subject="DataLoader.persistent_workers",
            summary="The dataset has a set_epoch, and workers that stay do not see what it sets",
            why="Each has the dataset as it was when it was started; only the main process's changes.",
            fixes=(
                Fix("Share the epoch", ("self.epoch = torch.zeros((), dtype=torch.long).share_memory_()",)),
                Fix("Or start the workers anew", ("DataLoader(..., persistent_workers=False)",)),
            ),
        )
    ]


CHECK = Check(loader_options)
