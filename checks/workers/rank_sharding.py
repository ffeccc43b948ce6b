from dl_doctor.contract import Check
from dl_doctor.facts import Environment, Loader, Ranks
from dl_doctor.model import Finding, Fix, Quantity, Verdict


def rank_sharding(loader: Loader, environment: Environment, ranks: Ranks) -> Verdict:
    """Each rank reads samples of its own

    ## What it checks
    Where several ranks train, whether the loader's sampler deals the samples out to them.

    ## Why it matters
    Without, every rank reads all samples: eight GPUs do the work of one, eight times. Nothing fails, and the loss looks well.

    ## How it decides
    With a world of more than one, a loader whose sampler, batch_sampler or own type knows no rank warns. Samplers with
    `num_replicas` and loaders of Accelerate pass. A Lightning module's loader is a note, because Lightning puts a
    DistributedSampler in itself.

    For example, under torchrun with 8 processes `DataLoader(dataset, shuffle=True)` warns.

    ## How to fix
    Give the loader a DistributedSampler and call its set_epoch at the beginning of each epoch.

    ## Known limits
    A dataset that holds its rank's samples only, and a framework that wraps the loader later, are not seen. How datasets with an
    order of their own (IterableDataset) deal out samples is not judged here.

    ## References
    docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    if loader.not_examined:
        return Verdict.lacking("loader", loader.not_examined)
    said = environment.get("WORLD_SIZE") or ""
    world = max(int(said) if said.isdecimal() else 1, ranks.on_node)
    own = loader.arguments
    if world < 2:
        return Verdict.skip("a single rank")
    if own is None:
        return Verdict.skip("a dataset was named, and no loader")
    if loader.kind != "map":
        return Verdict.skip("the dataset has an order of its own")
    sampler = own.batch_sampler if own.batch_sampler and not own.batch_sampler.startswith("torch.") else own.sampler
    if own.rank_aware:
        return Verdict(f"{sampler} deals samples out to {world} ranks")
    wrapped = "train_dataloader()" in loader.choices
    return Verdict(f"{sampler} knows no ranks, and there are {world}", [same_order(sampler, world, wrapped=wrapped)])


def same_order(sampler: str, world: int, *, wrapped: bool) -> Finding:
    if wrapped:
        return Finding(
            level="note",
            subject="DataLoader.sampler",
            summary=f"{sampler} knows no ranks; Lightning's Trainer replaces it by a DistributedSampler unless told otherwise",
        )
    return Finding(
        level="warn",
        subject="DataLoader.sampler",
        summary=f"Every one of {world} ranks would read all samples: {sampler} knows no ranks",
        measured=Quantity(world, "ranks", "WORLD_SIZE"),
        why="Nothing fails, but all ranks together do the work of one. A framework that wraps the loader later "
        "(accelerator.prepare, Trainer) may still deal them out, and so may the dataset itself.",
        fixes=(
            Fix(
                "Deal the samples out",
                (
                    "sampler = DistributedSampler(dataset, shuffle=True)",
                    "DataLoader(dataset, sampler=sampler, ...)",
                    "sampler.set_epoch(epoch)  # before each epoch",
                ),
            ),
        ),
    )


CHECK = Check(rank_sharding)
