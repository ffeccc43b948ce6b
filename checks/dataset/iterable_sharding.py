from dl_doctor.contract import Check
from dl_doctor.facts import DatasetSamples, Loader, LoaderPlan, WorkerDraws
from dl_doctor.facts.worker_draws import Draws
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict


def iterable_sharding(draws: WorkerDraws, loader: Loader, plan: LoaderPlan, samples: DatasetSamples | Unavailable) -> Verdict:
    """Workers of an iterable dataset share it out

    ## What it checks
    Up to 2,000 items of each of two workers, as many as come in 4 s, each with the `get_worker_info()` that torch gives it, and
    the number of shards where the dataset says it. Whole items are compared, and their parts, such as a key or a label; and what
    the second worker gives with the random numbers of the first one.

    ## Why it matters
    Every worker iterates a copy of the dataset. One that does not look at `get_worker_info()` gives all items in each: with 8
    workers an epoch is 8 times as long, and has every sample 8 times.

    ## How it decides
    The same items in the same order warn, and in whatever order where there are no more; so do fewer shards than workers, where
    some workers get nothing. Where a dataset does not say its shards, a worker that gets no item is a note. Items that are all
    alike prove nothing, and are skipped. Some items of a larger dataset that both give are a note: each may draw at random from
    everything, and that may be meant.

    Where random changes make whole items differ, a part that tells most of them apart and is the same in both warns, if the
    second worker with the first one's random numbers gives the first one's items. If it gives others, that part is a note: each
    worker may count its own share. A part of few values, as classes are, is a note where random numbers decide all the rest.

    For example, a dataset that yields the lines of a file, in every worker all of them, warns.

    ## How to fix
    Take every n-th item: `itertools.islice(lines, info.id, None, info.num_workers)`; or one file for each worker.

    ## Known limits
    Of a dataset with more than 2,000 items, or slow ones, that each worker gives in an order of its own, a note is all there is.
    Items that are changed at random and have no part that stays as it is look like shares, and those made up of random numbers
    and a count look like samples that are changed at random.

    ## References
    huggingface/datasets#3423, pytorch/pytorch#30599, vahidk/tfrecord#78, espnet/espnet#2081
    """
    if loader.kind != "iterable":
        return Verdict.skip("the dataset has indices, which torch shares out")
    shards = few_shards(draws, plan)
    if not draws.answered and isinstance(samples, DatasetSamples) and samples.trouble:
        skipped = Verdict.skip("an item cannot be read: see dataset-sample")
        return Verdict("the number of its shards", shards) if shards else skipped
    if not draws.answered:
        ended = next(worker.ended for worker in draws.workers if worker.ended.how != "answered")
        return Verdict("", shards, Verdict.unknown(f"a process that takes items {ended.in_words}").reason)
    one, other = draws.workers
    if not one.first or not other.first:
        return Verdict("of two workers not both get an item", shards or [idle(one, other, plan)])
    seen = f"of two workers, the first {one.taken or len(one.first)} and {other.taken or len(other.first)} items were compared"
    if draws.alike:
        return Verdict.skip("all items are alike: whether workers share them out cannot be seen")
    several = plan.num_workers is None or plan.num_workers > 1
    if several and some_twice(draws):
        return Verdict(seen, [*shards, overlap(draws)])
    if not draws.the_same:
        noted = common(draws) if several else []
        return Verdict(f"{seen}; {draws.unclear}" if draws.unclear and not noted else seen, [*shards, *noted])
    if not several:
        return Verdict(f"{seen}: they are the same, and with fewer than two workers that makes no difference")
    return Verdict(seen, [*shards, the_same(min(one.taken, other.taken) or len(one.first), plan, draws)])


def some_twice(draws: WorkerDraws) -> bool:
    """Whether, of all that there is, both gave some of the same, and these are not alike by chance: no worker has any twice."""
    ended = all(worker.exhausted and worker.taken == worker.distinct for worker in draws.workers)
    return ended and draws.in_both > 0 and not draws.in_another_order


def overlap(draws: WorkerDraws) -> Finding:
    one, other = draws.workers
    return Finding(
        level="warn",
        subject="dataset.__iter__",
        summary=f"Two workers give {draws.in_both} of the same items, of {one.taken} and {other.taken}: these come twice",
        why="Their shares overlap. The beginning or the end of a share is wrong.",
        fixes=(
            Fix("Share items out by their numbers", ("yield from itertools.islice(items, info.id, None, info.num_workers)",)),
        ),
    )


def common(draws: WorkerDraws) -> list[Finding]:
    if not draws.in_both:
        return common_part(draws)
    most = max(worker.taken for worker in draws.workers)
    return [
        Finding(
            level="note",
            subject="dataset.__iter__",
            summary=f"Two workers gave {draws.in_both} of the same items among {most}, in another order",
            why="Where each worker draws at random from everything, an epoch holds some samples several times and others never.",
        )
    ]


def common_part(draws: WorkerDraws) -> list[Finding]:
    part = draws.part
    if part and draws.seed_decides:
        why = "Random numbers decide the rest. Where they only change samples, there are no shares: samples come several times."
    elif part and part.the_same and part.tells_apart:
        why = "Nothing is wrong where each worker counts its own items. If this is a key of the data, each gives everything."
    else:
        return []
    return [
        Finding(
            level="note",
            subject="dataset.__iter__",
            summary=f"Of item{part.path}, two workers gave {part.in_both} of the same values among {part.compared}",
            why=why,
        )
    ]


def the_same(items: int, plan: LoaderPlan, draws: WorkerDraws) -> Finding:
    times = f"{plan.num_workers} times" if plan.num_workers else "as often as there are workers"
    random = draws.generators[0] if draws.generators else None
    cause = f" Their order is drawn from {random.path}, of which each has a copy." if random else ""
    what = f"{items} items"
    if draws.part and not (draws.in_order or draws.in_another_order):
        what = f"{draws.part.compared} values of item{draws.part.path}"
        cause = " The rest of the items differs by random numbers alone: with the same ones, both gave the same items."
    return Finding(
        level="warn",
        subject="dataset.__iter__",
        summary=f"Two workers give the same {what}: every sample comes {times}",
        why=f"Each worker iterates a copy of the dataset, and it does not share itself out.{cause}",
        fixes=(
            Fix(
                "Give each worker its share in __iter__",
                (
                    "info = torch.utils.data.get_worker_info()",
                    "number, workers = (info.id, info.num_workers) if info else (0, 1)",
                    "yield from itertools.islice(items, number, None, workers)",
                ),
            ),
            Fix("Or load without workers, or with one", ("DataLoader(..., num_workers=1)",)),
        ),
    )


def idle(one: Draws, other: Draws, plan: LoaderPlan) -> Finding:
    """Legal, and seldom meant: where a dataset is shared out by files, there are fewer of these than workers."""
    numbers = [number for number, draws in enumerate((one, other)) if not draws.first]
    who = "Worker 0 and worker 1 get" if len(numbers) > 1 else f"Worker {numbers[0]} gets"
    workers = 2 if plan.num_workers is None else max(plan.num_workers, 2)
    return Finding(
        level="note",
        subject="dataset.__iter__",
        summary=f"{who} no item, of {workers} workers",
        why="It has nothing to do. A dataset that is shared out by files or shards needs as many of them as there are workers.",
    )


def few_shards(draws: WorkerDraws, plan: LoaderPlan) -> list[Finding]:
    shards, workers = draws.shards, plan.num_workers
    if shards is None or not workers or shards >= workers:
        return []
    return [
        Finding(
            level="warn",
            subject="dataset.num_shards",
            summary=f"{workers} workers share {shards} shard{'s' * (shards != 1)}: {workers - shards} of them have nothing to do",
            measured=Quantity(shards, "shards", "the dataset's num_shards"),
            expected=Quantity(workers, "shards", "one for each worker"),
            relation="at_least",
            why="A shard is given to one worker as a whole.",
            fixes=(
                Fix("Take as many workers as there are shards", (f"DataLoader(..., num_workers={shards})",)),
                Fix("Or write the data into more files"),
            ),
        )
    ]


CHECK = Check(iterable_sharding)
