"""Which samples of a map-style dataset are looked at, for other probes."""

import itertools
import random

SEED = 0

LOOKED_AT = 10_000
"""Indices of a sampler of its own among which some are drawn."""


def some_indices(loaded, most, step):
    """What the dataset is asked for: numbers, or whatever the loader's sampler gives. The ends are among them: a length is
    easily one too much.
    """
    draw, loader = random.Random(SEED), loaded.loader
    if loader is None or takes_all(loader):
        length = len(loaded.dataset)
        ends = sorted({0, length - 1})[:most] if length else []
        others = range(1, max(length - 1, 1))
        return ends + draw.sample(others, min(most - len(ends), len(others)))
    step("iterate the sampler")
    batched = loader.batch_sampler is not None
    indices = []  # type: list[object]
    for given in itertools.islice(iter(loader.batch_sampler if batched else loader.sampler), LOOKED_AT):
        indices.extend(given if batched else [given])
        if len(indices) >= LOOKED_AT:
            break
    return draw.sample(indices, min(most, len(indices)))


def takes_all(loader):
    """Whether the loader's sampler is one of torch's that give 0 to len(dataset) - 1; it may be made of something else."""
    plain = type(loader.sampler).__name__ in ("RandomSampler", "SequentialSampler")
    batches = loader.batch_sampler
    used = batches is None or (type(batches).__name__ == "BatchSampler" and batches.sampler is loader.sampler)
    return plain and used and loader.sampler.data_source is loader.dataset
