from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, LoaderSweep, PinnedMemory
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size, count, plain

WORTH = 1.5
"""By how much copies of pinned memory have to be faster to speak of it: seen were 2 to 5 on PCIe, and 1 on GH200. Proposal."""

WORTH_OF_A_BATCH = 0.03
"""Of the time from one batch to the next, what pinning has to save to speak of it: a sweep tells no smaller differences apart."""


def pin_memory(pinned: PinnedMemory, plan: LoaderPlan, sweep: LoaderSweep | Unavailable) -> Verdict:
    """Batches can be pinned

    ## What it checks
    A process of the job's Python pins as much memory as all batches in flight take, at most 1 GiB, and copies a batch of that
    size to the GPU from pinned and from ordinary memory.

    ## Why it matters
    With pin_memory=True the loader copies each batch into memory that cannot be swapped out, from which the GPU reads by itself.
    Where there is too little of it, a thread of the loader ends with "CUDA error: out of memory" though the GPU has enough.

    ## How it decides
    If the loader pins and the memory cannot be pinned, it fails; if it does not pin, that is told. So is what pinning buys
    here: where a sweep has measured how often a batch comes (`--profile deep`), it is held against the time between two of
    them, and less than 3 % is not worth a word. Torch gives each tensor a block of a power of two: 33 MiB take 64. It is tried
    only where that and CUDA take at most a quarter of the memory that is left. Without a GPU there is nothing to pin for.

    For example, in a container on WSL, where about 500 MiB can be pinned, ten batches in flight of 96 MiB fail.

    ## How to fix
    Pin fewer batches (fewer workers, a lower prefetch_factor), or none: pin_memory=False.

    ## Known limits
    It has not been seen on a real GPU yet: its tests have a torch of their own. `ulimit -l` (RLIMIT_MEMLOCK) does not apply to
    what CUDA pins, and is not looked at. The copy in the loader's own thread, from which pinned batches come, is not counted;
    the GPU is the first that torch sees; the tensors of a batch are taken to be of one size.

    ## References
    microsoft/WSL#8447, NVIDIA/nvidia-docker#1725, docs.pytorch.org/docs/stable/data.html#memory-pinning
    """
    if pinned.refused:
        return Verdict(f"not tried: {pinned.refused}")
    if pinned.ended is None or pinned.ended.how != "answered":
        return Verdict.unknown("no answer" if pinned.ended is None else f"the process that pins {pinned.ended.in_words}")
    if not pinned.available:
        return Verdict.skip("torch sees no GPU here: see gpu-visible")
    each, wanted = binary_size(pinned.bytes_of_a_batch), count(pinned.batches, "batch").replace("batchs", "batches")
    if pinned.error:
        seen = f"{pinned.pinned_batches} of {wanted} of {each} could be pinned: {first_line(pinned.error)}"
        return Verdict(f"{seen}; the loader pins none", []) if not plan.pin_memory else Verdict(seen, [too_little(pinned, plan)])
    most = pinned.batches * pinned.bytes_of_a_batch
    seen = f"{wanted} of {each} were pinned"
    if most < pinned.wanted_bytes:
        seen += f", and not all {binary_size(pinned.wanted_bytes)}, to leave memory to others"
    if pinned.pinned_s is None or pinned.pageable_s is None:
        return Verdict(f"{seen}; how fast they are copied is not known: {first_line(pinned.copy_error or 'no answer')}")
    speed = f"one is copied in {plain(1000 * pinned.pinned_s)} ms, and in {plain(1000 * pinned.pageable_s)} ms if not pinned"
    every_s = seconds_between_batches(plan, sweep)
    if every_s is not None:
        speed += f"; a batch comes every {plain(1000 * every_s)} ms"
    return Verdict(f"{seen}; {speed}", faster(pinned.pinned_s, pinned.pageable_s, plan, every_s))


def seconds_between_batches(plan: LoaderPlan, sweep: LoaderSweep | Unavailable) -> float | None:
    """Of one rank: at the setting that the sweep recommends, as fast as the step takes them where that is known."""
    if isinstance(sweep, Unavailable) or sweep.recommendation is None or not plan.batch_size:
        return None
    rates = [point.samples_per_s for point in sweep.points if point.num_workers == sweep.recommended]
    rate = min([*rates, *([sweep.demand_samples_per_s] if sweep.demand_samples_per_s else [])], default=0.0)
    return plan.batch_size / rate if rate > 0 else None


def first_line(error: str) -> str:
    return error.strip().splitlines()[0]


def too_little(pinned: PinnedMemory, plan: LoaderPlan) -> Finding:
    got = pinned.pinned_batches * pinned.bytes_of_a_batch
    return Finding(
        level="fail",
        subject="DataLoader.pin_memory",
        summary=f"{binary_size(got)} can be pinned, and the batches in flight take {binary_size(pinned.wanted_bytes)}",
        measured=Quantity(got, "bytes", "torch.empty(..., pin_memory=True)"),
        expected=Quantity(pinned.wanted_bytes, "bytes", f"{plan.batches_in_flight} batches in blocks of powers of two"),
        relation="at_least",
        why=f"The loader's thread that pins ends with {first_line(pinned.error or '')}. The GPU's own memory is another.",
        fixes=(
            Fix("Do not pin", ("DataLoader(..., pin_memory=False)",), note="Copies to the GPU then take longer."),
            Fix("Or have fewer batches in flight", ("DataLoader(..., num_workers=1, prefetch_factor=1, pin_memory=True)",)),
        ),
    )


def faster(pinned_s: float, pageable_s: float, plan: LoaderPlan, every_s: float | None) -> list[Finding]:
    """What a loader that does not pin misses."""
    part = None if every_s is None else (pageable_s - pinned_s) / every_s
    if plan.pin_memory or pageable_s < WORTH * pinned_s or (part is not None and part < WORTH_OF_A_BATCH):
        return []
    saved = (
        "" if part is None else f" That saves {plain(100 * part)} % of the time between two batches, as the sweep measured it."
    )
    return [
        Finding(
            level="note",
            subject="DataLoader.pin_memory",
            summary=f"Pinned, a batch is copied to the GPU {plain(pageable_s / pinned_s)} times as fast",
            measured=Quantity(round(1000 * pageable_s, 3), "ms", "a batch that is not pinned"),
            expected=Quantity(round(1000 * pinned_s, 3), "ms", "a pinned batch"),
            relation="at_most",
            why=f"And the GPU can compute meanwhile, if the copy is asked for with non_blocking=True.{saved}",
            fixes=(
                Fix(
                    "Have the loader pin its batches",
                    ("DataLoader(..., pin_memory=True)", 'batch = batch.to("cuda", non_blocking=True)'),
                ),
            ),
        )
    ]


CHECK = Check(pin_memory)
