"""Datasets that are broken in one way each, and healthy ones beside them: examined in the job's Python, never imported here."""

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
)

LENGTH = 64
MODULES_OWN = random.Random(0)


class Made(Dataset):
    """Sample i is what a function makes of i."""

    def __init__(self, make: object, length: int = LENGTH) -> None:
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> object:
        return self.make(index)


def loader_of(make: object, length: int = LENGTH, **options: object) -> DataLoader:
    return DataLoader(Made(make, length), **{"batch_size": 8, "num_workers": 2, **options})


def as_it_is(samples: list) -> list:
    return samples


def images() -> DataLoader:
    return loader_of(lambda index: (torch.zeros(3, 64, 64), index))


def dataset() -> Dataset:
    return Made(lambda index: torch.zeros(1024))


def small() -> DataLoader:
    return loader_of(lambda index: torch.zeros(10), batch_size=4)


def large() -> DataLoader:
    """As of PyTorch's oldest report of a full /dev/shm: images of 12 MiB, 8 in a batch, 4 workers."""
    return loader_of(lambda index: torch.zeros(3, 1024, 1024), num_workers=4)


def many_tensors() -> DataLoader:
    return loader_of(lambda index: [torch.zeros(5) for _ in range(100)], num_workers=8)


def views() -> DataLoader:
    return loader_of(lambda index: torch.zeros(1 << 20)[:1024], collate_fn=as_it_is)


def chunks() -> DataLoader:
    """Many views of one storage that together show all of it."""
    return loader_of(lambda index: list(torch.zeros(8, 1 << 18)), collate_fn=as_it_is)


def arrays() -> DataLoader:
    return loader_of(lambda index: np.zeros(1 << 16, dtype=np.float32), collate_fn=as_it_is)


class InMemory(Dataset):
    def __init__(self) -> None:
        self.whole = torch.zeros(1 << 20)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.whole[index : index + 1]


def shared() -> DataLoader:
    """Every batch shows the same storage."""
    return DataLoader(InMemory(), batch_size=8, num_workers=2, collate_fn=as_it_is)


def bucketed() -> DataLoader:
    """The largest batch comes last."""
    batches = [[index] for index in range(LENGTH - 16)] + [list(range(16))]
    return DataLoader(Made(lambda index: torch.zeros(1024)), batch_sampler=batches, num_workers=2)


def unbatched() -> DataLoader:
    return loader_of(lambda index: torch.zeros(4, 1024), batch_size=None)


def subset() -> DataLoader:
    """Only what the sampler gives can be read."""
    readable = list(range(0, LENGTH, 2))
    return loader_of(lambda index: [0, 1][index % 2 and 2], sampler=torch.utils.data.SubsetRandomSampler(readable))


def sizes() -> DataLoader:
    """Sample 5 is of another size."""
    return loader_of(lambda index: {"image": torch.zeros(3, 32, 31 if index == 5 else 32)})


def padded() -> DataLoader:
    return loader_of(
        lambda index: torch.zeros(index + 1),
        collate_fn=lambda samples: torch.nn.utils.rnn.pad_sequence(samples, batch_first=True),
    )


def none() -> DataLoader:
    return loader_of(lambda index: None if index == 3 else torch.zeros(3))


def keys() -> DataLoader:
    return loader_of(lambda index: {"image": 0} if index % 2 else {"image": 0, "label": 1})


def gradient() -> DataLoader:
    weight = torch.ones(3, requires_grad=True)
    return loader_of(lambda index: weight * index, collate_fn=as_it_is)


def damaged(index: int) -> object:
    if index == 17:
        raise FileNotFoundError(f"/data/{index}.png")
    return torch.zeros(3)


def one_damaged() -> DataLoader:
    return loader_of(damaged)


def crashing(index: int) -> object:
    if index == 17:
        os.kill(os.getpid(), 11)
    return torch.zeros(3)


def crash() -> DataLoader:
    return loader_of(crashing)


def straggler() -> DataLoader:
    return loader_of(lambda index: time.sleep(0.03 if index % 8 == 0 else 0.0005) or torch.zeros(3))


def greedy() -> DataLoader:
    return loader_of(lambda index: torch.zeros(1 << 40))


def rows_of_one() -> DataLoader:
    """As CIFAR in memory: 600 MiB, of which a batch shows 128 rows."""
    return DataLoader(TensorDataset(torch.zeros(50_000, 3, 32, 32), torch.arange(50_000)), batch_size=128)


def huge_batch() -> DataLoader:
    """Each sample fits, and a batch would not."""
    return loader_of(lambda index: torch.zeros(1 << 24), length=4096, batch_size=1024)


def bad_start(number: int) -> None:
    raise RuntimeError("no such device")


def init_fails() -> DataLoader:
    return loader_of(lambda index: torch.zeros(3), worker_init_fn=bad_start)


class Drawing(Dataset):
    def __init__(self, draw: object, rng: object = None) -> None:
        self.draw, self.rng = draw, rng

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> object:
        return self.draw(self.rng)


def draws(draw: object, rng: object = None, **options: object) -> DataLoader:
    return DataLoader(Drawing(draw, rng), **{"batch_size": 4, "num_workers": 2, **options})


def python_rng() -> DataLoader:
    return draws(lambda rng: rng.random(), random.Random(0))


def slow_rng() -> DataLoader:
    return draws(lambda rng: time.sleep(2.5) or rng.random(), random.Random(0))


class ByName(Dataset):
    """Knows its samples by their names, and gives several at once."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def __getitems__(self, names: list[str]) -> list:
        return [(name.upper(), self.rng.random()) for name in names]


def by_name() -> DataLoader:
    return DataLoader(ByName(), batch_size=4, num_workers=2, sampler=list("abcdefgh"))


class Endless(Dataset):
    """Without a length: its loader's sampler knows which samples there are."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3, 8, 8), float(index))


def no_length() -> DataLoader:
    return DataLoader(Endless(), batch_sampler=BatchSampler(SequentialSampler(range(50)), 4, False), num_workers=2)


def no_length_by_sampler() -> DataLoader:
    return DataLoader(Endless(), sampler=SequentialSampler(range(50)), batch_size=4, num_workers=2)


def numpy_rng() -> DataLoader:
    return draws(lambda rng: rng.random(), np.random.default_rng(0))


def numpy_state() -> DataLoader:
    return draws(lambda rng: rng["crop"].rand(), {"crop": np.random.RandomState(0)})


def torch_rng() -> DataLoader:
    return draws(lambda rng: torch.rand(3, generator=rng), torch.Generator())


def module_rng() -> DataLoader:
    return draws(lambda rng: MODULES_OWN.random())


def fixed_seed() -> DataLoader:
    return draws(lambda rng: np.random.rand(), worker_init_fn=lambda number: np.random.seed(42))


def global_numpy() -> DataLoader:
    return draws(lambda rng: np.random.rand())


def global_python() -> DataLoader:
    return draws(lambda rng: random.random())


def global_torch() -> DataLoader:
    return draws(lambda rng: torch.rand(3))


def global_half() -> DataLoader:
    """Of a type that NumPy does not have."""
    return draws(lambda rng: torch.rand(3).bfloat16())


def deterministic() -> DataLoader:
    return draws(lambda rng: torch.zeros(3), random.Random(0))


def by_index() -> DataLoader:
    """A generator of the constructor beside what is really used."""
    return draws(lambda rng: torch.rand(2), random.Random(0))


def counter() -> DataLoader:
    """Not random, and different each time."""
    counts = itertools.count()
    return draws(lambda rng: next(counts))


def waits() -> DataLoader:
    """For a lock that nobody gives back, and again where somebody interrupts it."""
    lock = threading.Lock()
    lock.acquire()

    def make(index: int) -> int:
        for _ in range(2):
            with contextlib.suppress(Exception):
                lock.acquire()
        return index

    return loader_of(make)


def computes() -> DataLoader:
    def make(index: int) -> int:
        while True:
            index += 1

    return loader_of(make)


class Lines(IterableDataset):
    def __init__(self, length: int | None, *, share: bool = False, step: int = 1) -> None:
        self.length, self.share, self.step = length, share, step

    def __iter__(self) -> Iterator[object]:
        info = get_worker_info()
        begin, step = (info.id, info.num_workers) if self.share and info else (0, 1)
        numbers = itertools.count() if self.length is None else range(self.length)
        yield from (torch.tensor(number * self.step) for number in itertools.islice(numbers, begin, None, step))


def iterable(data: IterableDataset, workers: int = 2) -> DataLoader:
    return DataLoader(data, batch_size=4, num_workers=workers)


def all_in_each() -> DataLoader:
    return iterable(Lines(1000))


def all_of_few() -> DataLoader:
    return iterable(Lines(5))


class OfTheLast(IterableDataset):
    """All items fall to the last worker."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[object]:
        info = get_worker_info()
        return iter(range(self.length if info.id == info.num_workers - 1 else 0))


def no_items() -> DataLoader:
    return iterable(OfTheLast(0))


def items_of_the_last() -> DataLoader:
    return iterable(OfTheLast(3))


def shared_out() -> DataLoader:
    return iterable(Lines(1000, share=True))


class Shuffled(IterableDataset):
    """All items in each worker, in an order of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(300).tolist())


def shuffled_in_each() -> DataLoader:
    return iterable(Shuffled())


class Noisy(IterableDataset):
    """All items in each worker, with noise, and their numbers."""

    def __iter__(self) -> Iterator[object]:
        return ({"x": number + torch.randn(3), "meta": (number,)} for number in range(1000))


def noisy() -> DataLoader:
    return iterable(Noisy())


def constant() -> DataLoader:
    """Made up for a benchmark: the same item for ever."""
    return iterable(Lines(None, step=0))


def one_worker() -> DataLoader:
    return iterable(Lines(1000), workers=1)


class Noise(IterableDataset):
    def __iter__(self) -> Iterator[object]:
        while True:
            yield torch.rand(3)


def noise() -> DataLoader:
    return iterable(Noise())


class Sharded(Lines):
    num_shards = 2


def two_shards() -> DataLoader:
    return iterable(Sharded(1000, share=True), workers=4)
