from dl_doctor.contract import Check
from dl_doctor.facts import CpuBudget, Loader, LoaderPlan, SmokeLoad, WorkerMemory
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import count, plain

SHARE_OF_EPOCH = 0.05
"""What the start of the workers may take of each epoch. Proposal."""

LONG_S = 10.0
"""Where the length of an epoch is not known. Proposal; 4 workers by spawn on 2 CPUs take 9 s (torch 2.13 for CPUs)."""


SHORT_S = 2.0
"""An epoch below that is a trial with a few samples: nothing is at stake. Proposal."""


def worker_startup(
    loader: Loader,
    plan: LoaderPlan,
    load: SmokeLoad | Unavailable,
    worker: WorkerMemory | Unavailable,
    cpu: CpuBudget | Unavailable,
) -> Verdict:
    """The workers are soon there

    ## What it checks
    Seconds from the start of the workers until their first batch, against those of an epoch.

    ## Why it matters
    Without persistent_workers a loader starts its workers anew for each epoch. Under spawn and forkserver each imports torch and
    your module and gets the dataset by pickle, which takes seconds; it looks like a hang at the beginning of each epoch.

    ## How it decides
    Without persistent_workers, more than 5 % of an epoch warns, or more than 10 s where the length of an epoch is not known.
    In an epoch of less than 2 s, as of a few samples for a trial, nothing is at stake. Seconds of an epoch are its batches times
    the seconds per batch of `smoke-load`. Where that was not tried, the start is told by one worker: they are started one after
    another, and then import and load at the same time on the CPUs that there are.

    For example, 8 workers by spawn that take 18 s to start for an epoch of 60 s warn.

    ## How to fix
    `persistent_workers=True` starts them once. Under forkserver, what the server imports beforehand its workers need not.

    ## Known limits
    Files that are in the page cache already make the start here faster than the first one of the job.

    ## References
    pytorch/pytorch#153594, pytorch/pytorch#12831, Lightning-AI/pytorch-lightning#18862
    """
    if plan.num_workers == 0:
        return Verdict("without workers none is started")
    first_s, how = seconds_to_start(plan, load, worker, cpu)
    if first_s is None:
        return Verdict.skip("no worker came to its first batch: see smoke-load and worker-memory")
    epoch_s = seconds_of_epoch(loader, plan, load)
    seen = f"the workers start within {plain(round(first_s, 2))} s ({how})"
    seen += "; how long an epoch takes is not known" if epoch_s is None else f", an epoch takes about {plain(epoch_s)} s"
    if loader.arguments is not None and loader.arguments.persistent_workers:
        return Verdict(f"{seen}; the workers stay for all epochs")
    allowed_s = LONG_S if epoch_s is None else SHARE_OF_EPOCH * epoch_s
    if first_s <= allowed_s or (epoch_s is not None and (first_s < 1 or epoch_s < SHORT_S)):
        return Verdict(seen)
    return Verdict(seen, [slow(first_s, allowed_s, epoch_s, how, plan, load)])


def seconds_to_start(
    plan: LoaderPlan, load: SmokeLoad | Unavailable, worker: WorkerMemory | Unavailable, cpu: CpuBudget | Unavailable
) -> tuple[float | None, str]:
    """Seconds, and what they were told by."""
    if isinstance(load, SmokeLoad) and load.first_batch_s is not None and load.workers:
        reading_s = (load.seconds_per_batch or 0) * load.workers  # until each has made one batch, as all do at the same time
        return max(load.first_batch_s - reading_s, 0.0), f"measured with {count(load.workers, 'worker')} by {load.method}"
    if isinstance(worker, Unavailable) or worker.first_batch_s is None:
        return None, ""
    workers = plan.num_workers or 1
    cpus = 1.0 if isinstance(cpu, Unavailable) else cpu.cpus
    return worker.seconds_to_first_batch(workers, cpus), f"from that of one worker by {worker.method}"


def seconds_of_epoch(loader: Loader, plan: LoaderPlan, load: SmokeLoad | Unavailable) -> float | None:
    batches = loader.arguments.batches if loader.arguments else None
    if batches is None and loader.length is not None and plan.batch_size:
        batches = -(-loader.length // plan.batch_size)
    pace = None if isinstance(load, Unavailable) else load.seconds_per_batch
    return None if batches is None or pace is None else batches * pace


def slow(
    first_s: float, allowed_s: float, epoch_s: float | None, how: str, plan: LoaderPlan, load: SmokeLoad | Unavailable
) -> Finding:
    method = load.method if isinstance(load, SmokeLoad) else plan.start_method
    preload = Fix(
        "Or have the fork server import torch once for all",
        ("multiprocessing.set_forkserver_preload(['torch'])", "DataLoader(..., multiprocessing_context='forkserver')"),
    )
    return Finding(
        level="warn",
        subject="workers",
        summary=f"Each epoch begins with {plain(first_s)} s in which the workers start",
        measured=Quantity(round(first_s, 1), "s", how),
        expected=Quantity(round(allowed_s, 2), "s", "5 % of an epoch" if epoch_s is not None else "an epoch of unknown length"),
        relation="at_most",
        why="Without persistent_workers they are ended after each epoch and started anew. It looks like a hang, and is none.",
        fixes=(
            Fix(
                "Start them once",
                ("DataLoader(..., persistent_workers=True)",),
                note="They then do not see what is changed in the dataset between epochs.",
            ),
            *((preload,) if method in ("spawn", "forkserver") else ()),
        ),
    )


CHECK = Check(worker_startup)
