from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, Disks, Loader, LoaderSweep
from dl_doctor.facts.bottleneck import FED, SLOWER_COLD, STORED_BYTES, Costs
from dl_doctor.facts.sweep_advice import STILL_GAINS
from dl_doctor.fixes import copy_to_a_local_disk
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size, plain

ELSEWHERE = ("disk", "network")
"""Bottlenecks of what lies outside this machine's CPUs: a disk, or a server that has the files."""


def disk_rate(loader: Loader, sweep: LoaderSweep, data_paths: DataPaths | Unavailable, disks: Disks | Unavailable) -> Verdict:
    """The storage delivers what the step needs

    ## What it checks
    How fast samples are read for the first time, and how fast the same ones again, when the page cache has them; and whether the
    storage is what keeps the loader from delivering as many as the step takes. It is a part of the sweep.

    ## Why it matters
    A job whose data do not fit into memory reads them from the disk in every epoch, at the first time's rate. Neither more
    workers nor more CPUs help then.

    ## How it decides
    It warns where what the step takes is known (`dl-doctor sweep --step-time` or `--step`), no number of workers reaches it, the
    workers wait for a disk or for a server, and more of them got no more out of it. Where the step is not known, or more workers
    would still help, the rates are a note: how fast is fast enough is the step's to say. Where nothing came from a disk, because
    memory had it already, it is skipped: that tells nothing of the disk.

    For example, samples of 64 KiB from a disk that gives 4 MB/s are 61 a second. With a step that takes 500 it warns; with one
    that takes 50 it passes.

    ## How to fix
    Copy the data to the node's own disk, pack small files into larger ones, store less for each sample, or have as much memory
    as the data take: from the second epoch on the page cache then has them.

    ## Known limits
    The rates of reading for the first time and again are those of one process, over a few seconds: a volume that has used up its
    burst, or a neighbour, may make hours slower than that. The first time has what else is done only once, such as opening files.
    What comes from a disk is what the kernel books for the process: some network and user-space filesystems are not in it.

    ## References
    arxiv.org/abs/2007.06775, roboflow/rf-detr#1396
    """
    costs = sweep.costs
    if sweep.conclusion == "broke":
        return Verdict.skip(sweep.why)
    if costs is None:
        return Verdict.unknown(f"the loader was not measured: {sweep.why}")
    if short(sweep) and exhausted(sweep):
        return Verdict(seen(loader, costs), [too_slow(sweep, costs, advice(data_paths, disks))])
    if costs.stored_bytes is None and sweep.bottleneck not in ELSEWHERE:
        return Verdict.skip("the kernel does not tell what comes from a disk: /proc/PID/io is not there")
    if (costs.stored_bytes or 0) < STORED_BYTES and sweep.bottleneck not in ELSEWHERE:
        return Verdict.skip("no sample came from a disk: memory had them, or they are made; how fast the disk is was not seen")
    if sweep.demand_samples_per_s is None or short(sweep) or not sweep.points:
        return Verdict(seen(loader, costs), [rates(sweep, costs)])
    needed = f"the step takes {plain(sweep.demand_samples_per_s)} samples/s"
    return Verdict(f"{seen(loader, costs)}; {needed}, and the storage does not keep the loader from that")


def best(sweep: LoaderSweep) -> float:
    """Samples per second at the number of workers that delivers the most."""
    return max(point.samples_per_s for point in sweep.points)


def short(sweep: LoaderSweep) -> bool:
    """Whether the step takes more than is delivered, and the storage is what is in the way."""
    demand = sweep.demand_samples_per_s
    return sweep.bottleneck in ELSEWHERE and demand is not None and best(sweep) < FED * demand


def exhausted(sweep: LoaderSweep) -> bool:
    """Whether more workers got no more out of it; those who wait each for itself are not at the storage's limit."""
    by_workers = [point.samples_per_s for point in sorted(sweep.points, key=lambda point: point.num_workers)]
    return len(by_workers) > 1 and by_workers[-1] < STILL_GAINS * max(by_workers[:-1])


def seen(loader: Loader, costs: Costs) -> str:
    """`in one process a sample is read in 4.1 ms, with 64 KiB from a disk, and in 0.6 ms when it is read again`."""
    stored = f", with {binary_size(round(costs.stored_bytes))} from a disk" if costs.stored_bytes else ""
    first = f"in one process a sample is read in {plain(1000 * costs.read_s)} ms{stored}"
    if costs.again_s:
        return f"{first}, and in {plain(1000 * costs.again_s)} ms when it is read again"
    return f"{first}; an iterable dataset is not read again" if loader.kind == "iterable" else first


def rates(sweep: LoaderSweep, costs: Costs) -> Finding:
    """Cold against warm, where nobody has said what is needed, or it is not known what can be had."""
    cold = 1 / costs.read_s if costs.read_s > 0 else 0.0
    warm = f", and {plain(1 / costs.again_s)} again" if costs.again_s else ""
    in_the_way = f"It is in the way of more: {sweep.evidence}. " if sweep.bottleneck in ELSEWHERE else ""
    wanted = "Whether that is enough, `dl-doctor sweep --step-time` tells."
    if not sweep.points:
        wanted = "Whether that is enough is not known: no number of workers was measured."
    elif short(sweep):
        wanted = f"The step takes {plain(sweep.demand_samples_per_s or 0)} samples/s; more workers than were tried may get them."
    return Finding(
        level="note",
        subject="storage",
        summary=f"One process reads {plain(cold)} samples/s for the first time{warm}",
        measured=Quantity(round(cold, 3), "samples/s", "samples that had not been read before"),
        why=f"{in_the_way}{wanted}",
    )


def too_slow(sweep: LoaderSweep, costs: Costs, fixes: tuple[Fix, ...]) -> Finding:
    demand = sweep.demand_samples_per_s or 0.0
    times = costs.slower_cold
    again = f" Read again, a sample takes {plain(100 / times)} % of the time." if times and times >= SLOWER_COLD else ""
    what = "disk" if sweep.bottleneck == "disk" else "network"
    return Finding(
        level="warn",
        subject="storage",
        summary=f"The {what} gives {plain(best(sweep))} samples/s, and the step takes {plain(demand)}",
        measured=Quantity(round(best(sweep), 3), "samples/s", "the best number of workers"),
        expected=Quantity(round(demand, 3), "samples/s", "the step"),
        relation="at_least",
        why=f"{sweep.bottleneck}: {sweep.evidence}.{again}",
        fixes=fixes,
    )


def advice(data_paths: DataPaths | Unavailable, disks: Disks | Unavailable) -> tuple[Fix, ...]:
    copied: tuple[Fix, ...] = ()
    if isinstance(data_paths, DataPaths) and isinstance(disks, Disks):
        copied = copy_to_a_local_disk("Copy the data to this node's disk before the training starts", data_paths, disks)
    return (
        *(copied or (Fix("Copy the data to a local disk (NVMe) before the training starts"),)),
        Fix("Or pack small files into shards of some 100 MiB, and read those in order", note="Such as WebDataset's, or Parquet."),
        Fix("Or store less for each sample", note="Images in the size that the job crops to, compressed; or a cache in memory."),
    )


CHECK = Check(disk_rate)
