"""The batches of the job's own sampler without an end, for probes that measure: each reads on where another one stopped."""

import itertools

SEED = 20_260_101
"""Of the samplers, so that every process that is forked for a measurement has the same order."""


class Stream:
    """Stands for a sampler, or a batch sampler, of a loader. It stays in the main process: it need not be picklable.

    Of the batches of all epochs it gives every `every`-th one from `begin` on. Where `again` is given, these are only so many,
    over and over.
    """

    def __init__(self, torch, sampler, begin, every, again=None):
        self.torch, self.sampler, self.begin, self.every, self.again = torch, sampler, begin, every, again
        self.sizes = []  # type: list[int]
        """Samples of each batch that was asked for."""

    def __iter__(self):
        self.torch.manual_seed(SEED)
        endless = itertools.cycle(itertools.islice(self.endless(), self.again)) if self.again else self.endless()
        for indices in itertools.islice(endless, self.begin, None, self.every):
            self.sizes.append(len(indices) if isinstance(indices, (list, tuple)) else 1)
            yield indices

    def endless(self):
        """The sampler is begun anew when it is exhausted, as the next epoch would."""
        there = True
        while there:
            there = False
            for indices in self.sampler:
                there = True
                yield indices


def stream_of(loaded, batch_size, begin, every, again=None):
    """What the job's loader asks a map-style dataset for, and the argument of DataLoader that takes it.

    `batch_size` is another one than the loader's own; without a loader the order is random, as in training.
    """
    data, loader = loaded.torch.utils.data, loaded.loader
    if loader is None:
        sampler = data.RandomSampler(loaded.dataset)
        return "batch_sampler", Stream(loaded.torch, data.BatchSampler(sampler, batch_size, False), begin, every, again)
    if batch_size is not None:
        return "batch_sampler", Stream(
            loaded.torch, data.BatchSampler(loader.sampler, batch_size, loader.drop_last), begin, every, again
        )
    if loader.batch_sampler is not None:
        return "batch_sampler", Stream(loaded.torch, loader.batch_sampler, begin, every, again)
    return "sampler", Stream(loaded.torch, loader.sampler, begin, every, again)
