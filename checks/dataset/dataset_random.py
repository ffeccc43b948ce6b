from dl_doctor.contract import Check
from dl_doctor.facts import DatasetSamples, Loader, LoaderPlan, WorkerDraws
from dl_doctor.model import Finding, Fix, Unavailable, Verdict


def dataset_random(draws: WorkerDraws, loader: Loader, plan: LoaderPlan, samples: DatasetSamples | Unavailable) -> Verdict:
    """Workers draw different random numbers

    ## What it checks
    Samples of the same index are drawn by two workers, each seeded as torch seeds workers 0 and 1, and twice by each of them.

    ## Why it matters
    A random number generator that is made in the constructor is copied into every worker, and all copies go on in the same way:
    the same crops and flips, as often as there are workers, and again in every epoch. Nothing breaks; the model learns less.

    ## How it decides
    Where drawing twice gives the same, nothing is random, and all is well. Where it differs in one worker, and both workers draw
    the same, it warns if there is an explanation: a generator that was drawn from and that the dataset holds, directly or by its
    transforms, or that its module made; or a `worker_init_fn` that seeds. Without one it is a note: a counter looks the same.
    `random`, `torch` and NumPy's global generator are seeded by torch for each worker, and need nothing.

    For example, `self.rng = numpy.random.default_rng(0)` in `__init__` warns, and names `dataset.rng`.

    ## How to fix
    Draw from torch's generator, or make your own in the worker, from `torch.initial_seed()`.

    ## Known limits
    Three samples are drawn, fewer where they are slow, and none where one takes more than 15 s: what is random for few samples
    only may be missed. Torch before 1.9 does not seed NumPy.

    ## References
    pytorch/pytorch#5059, pytorch/pytorch#3880, Lightning-AI/pytorch-lightning#20412
    """
    if loader.kind == "iterable":
        return Verdict.skip("an iterable dataset has no indices: see iterable-sharding")
    if not draws.answered and isinstance(samples, DatasetSamples) and samples.trouble:
        return Verdict.skip("a sample cannot be read: see dataset-sample")
    if any(worker.ended.how == "hung" for worker in draws.workers):
        return Verdict.skip("drawing one sample twice takes too long: see dataset-sample")
    if not draws.answered:
        ended = next(worker.ended for worker in draws.workers if worker.ended.how != "answered")
        return Verdict.unknown(f"a process that draws samples {ended.in_words}")
    one, other = draws.workers
    if not one.first:
        return Verdict.skip("the dataset is empty")
    if one.first == one.second:
        return Verdict("the same sample comes out the same when it is drawn again: nothing is random")
    alike = [number for number, pair in enumerate(zip(one.first, one.second, strict=True)) if pair[0] != pair[1]]
    if any(one.first[number] != other.first[number] or one.second[number] != other.second[number] for number in alike):
        return Verdict("two workers draw different samples of the same index")
    if plan.num_workers is not None and plan.num_workers < 2:
        return Verdict("all workers would draw the same; with fewer than two that makes no difference")
    return Verdict("two workers draw the same random samples", [the_same(draws, loader)])


def the_same(draws: WorkerDraws, loader: Loader) -> Finding:
    why = "Its copies in all workers go on in the same way: the same crops and flips, as often as there are workers."
    init = loader.arguments and loader.arguments.worker_init_fn
    if draws.generators:
        named = draws.generators[0]
        more = f" (and {len(draws.generators) - 1} more)" if len(draws.generators) > 1 else ""
        return Finding(
            level="warn",
            subject=named.path,
            summary=f"All workers draw the same random numbers from {named.path}, a {named.type}{more}",
            why=why,
            fixes=(
                Fix("Draw from torch's generator, which differs in each worker", ("torch.rand(()).item()",)),
                Fix("Or make yours in the worker, when it is first used", (remake(named.type),)),
            ),
        )
    if init:
        return Finding(
            level="warn",
            subject="worker_init_fn",
            summary=f"All workers draw the same random numbers: worker_init_fn ({init}) gives each the same seed",
            why="torch seeds random, torch and NumPy in each worker before it is called; a fixed seed undoes that.",
            fixes=(
                Fix("Leave it out: torch seeds all three"),
                Fix("Or seed by torch's seed", ("numpy.random.seed(torch.initial_seed() % 2**32)",)),
            ),
        )
    return Finding(
        level="note",
        subject="dataset",
        summary="Two workers draw the same samples, which differ when they are drawn again",
        why="A generator that was made before the workers may be in use, out of sight; a counter looks the same. " + why,
    )


def remake(kind: str) -> str:
    if kind == "torch.Generator":
        return "self.rng = torch.Generator().manual_seed(torch.initial_seed())"
    if kind == "random.Random":
        return "self.rng = random.Random(torch.initial_seed())"
    return "self.rng = numpy.random.default_rng(torch.initial_seed())"


CHECK = Check(dataset_random)
