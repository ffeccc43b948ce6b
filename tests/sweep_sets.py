"""Loaders of known cost, for the sweep: examined in the job's Python, never imported here. Times are of one sample."""

import mmap
import multiprocessing
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

BATCH = 8
READ_S = 0.004


def compute(seconds: float) -> None:
    """Keep a CPU busy for so much of its time, whoever else wants it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Made(Dataset):
    def __init__(self, make: object, length: int = 100_000) -> None:
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> object:
        return self.make(index)


SMALL = torch.zeros(64)


def loader_of(make: object, length: int = 100_000, **options: object) -> DataLoader:
    return DataLoader(Made(make, length), **{"batch_size": BATCH, "num_workers": 2, "persistent_workers": True, **options})


def slept(seconds: float) -> torch.Tensor:
    time.sleep(seconds)
    return SMALL


def computed(seconds: float) -> torch.Tensor:
    compute(seconds)
    return SMALL


def latency() -> DataLoader:
    return loader_of(lambda index: slept(READ_S))


def cpu() -> DataLoader:
    return loader_of(lambda index: computed(READ_S))


LOCK = multiprocessing.get_context("fork").Lock()


def locked(seconds: float) -> torch.Tensor:
    with LOCK:
        time.sleep(seconds)
    return SMALL


def lock() -> DataLoader:
    """All workers take turns."""
    return loader_of(lambda index: locked(READ_S))


def slow_collate(samples: list) -> torch.Tensor:
    compute(READ_S * len(samples))
    return torch.stack(samples)


def collate() -> DataLoader:
    return loader_of(lambda index: computed(READ_S / 10), collate_fn=slow_collate)


def ipc() -> DataLoader:
    """3 MB of small objects in each batch: they are pickled through a pipe, and the main process unpickles all."""
    return loader_of(lambda index: [bytes(200) for _ in range(4000)], collate_fn=list)


class Server(threading.Thread):
    """Answers after READ_S with 20 KB, to each connection: what is remote."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.listening.getsockname()

    def run(self) -> None:
        while True:
            connection, _ = self.listening.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    @staticmethod
    def answer(connection: socket.socket) -> None:
        with connection:
            while connection.recv(1):
                time.sleep(READ_S)
                connection.sendall(bytes(20_000))


class Remote(Dataset):
    """Connects in each process that reads, and again after a fork."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address, self.connection, self.pid = address, None, 0

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.pid != os.getpid():
            self.connection, self.pid = socket.create_connection(self.address), os.getpid()
        self.connection.sendall(b"!")
        left = 20_000
        while left:
            left -= len(self.connection.recv(left))
        return SMALL


def network() -> DataLoader:
    """The server is a process of its own, which ends with the one that made the dataset."""
    server = Server()
    if os.fork() == 0:
        server.run()
    server.listening.close()
    return DataLoader(Remote(server.address), batch_size=BATCH, num_workers=2, persistent_workers=True)


def straggler() -> DataLoader:
    """One sample in 64 takes 50 times as long."""
    return loader_of(lambda index: slept(0.2 if index % 64 == 0 else READ_S), num_workers=4)


def slow_start(_: int) -> None:
    time.sleep(2)


def startup() -> DataLoader:
    """An epoch of half a second."""
    return loader_of(lambda index: slept(READ_S), 256, persistent_workers=False, worker_init_fn=slow_start)


class Shards(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(400):
            yield slept(READ_S)


def iterable() -> DataLoader:
    """It comes to its end while it is measured, and begins anew."""
    return DataLoader(Shards(), batch_size=BATCH, num_workers=2, persistent_workers=True)


def unbatched() -> DataLoader:
    return DataLoader(Made(lambda index: slept(8 * READ_S)), batch_size=None, num_workers=2)


def needless() -> DataLoader:
    """Reading takes nothing: every worker is in the way."""
    return loader_of(lambda index: SMALL)


def raising() -> DataLoader:
    def broken(index: int) -> object:
        raise ValueError(f"sample {index} is damaged")

    return loader_of(broken)


def slow() -> DataLoader:
    return loader_of(lambda index: slept(0.2))


class Hoarding(Dataset):
    """Each process that reads takes PRIVATE_BYTES for itself, as a decoder with a cache of its own does."""

    PRIVATE_BYTES = 64 << 20

    def __init__(self) -> None:
        self.own, self.pid = b"", 0

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.pid != os.getpid():
            self.own, self.pid = b"1" * self.PRIVATE_BYTES, os.getpid()
        return slept(READ_S)


def hoarding() -> DataLoader:
    return DataLoader(Hoarding(), batch_size=BATCH, num_workers=2, persistent_workers=True)


class Stored(Dataset):
    """64 KiB at a random place of a file of 64 MiB, past the page cache, as if memory were too small for it."""

    BLOCK = 1 << 16

    def __init__(self, path: str) -> None:
        self.path, self.file = path, None

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.file is None:
            self.file, self.space = os.open(self.path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, self.BLOCK)
        os.preadv(self.file, [self.space], index * self.BLOCK)
        return SMALL


def disk() -> DataLoader:
    """The file is the one that the variable names: on a disk that a test has made slow."""
    data = Stored(os.environ["SWEEP_SETS_FILE"])
    return DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True)


class WithThreads(DataLoader):
    """A stand-in for a torch whose DataLoader has worker_method (pytorch/pytorch#161044), which none that is released has: each
    thread makes whole batches, and shares the dataset.
    """

    def __init__(self, *given: object, worker_method: str = "multiprocessing", **named: object) -> None:
        super().__init__(*given, **named)
        self.worker_method = worker_method

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self.worker_method != "thread":
            return super().__iter__()
        return self.batches()

    def batches(self) -> Iterator[torch.Tensor]:
        def make(indices: list[int]) -> torch.Tensor:
            return self.collate_fn([self.dataset[index] for index in indices])

        with ThreadPoolExecutor(self.num_workers) as pool:
            indices = iter(self.batch_sampler)
            ahead = deque(pool.submit(make, next(indices)) for _ in range(2 * self.num_workers))
            while ahead:
                yield ahead.popleft().result()
                ahead.append(pool.submit(make, next(indices)))


def threads() -> DataLoader:
    torch.utils.data.DataLoader = WithThreads  # as if it were torch's own
    return WithThreads(Made(lambda index: slept(READ_S)), batch_size=BATCH, num_workers=2, persistent_workers=True)


class Lines(IterableDataset):
    """Numbers, all of them in each worker."""

    def __iter__(self) -> Iterator[int]:
        for number in range(400):
            time.sleep(READ_S)
            yield number


def repeating() -> DataLoader:
    return DataLoader(Lines(), batch_size=BATCH, num_workers=4, persistent_workers=True)


class Sharded(Lines):
    """Each worker has its shard, of which it knows how many there are."""

    num_shards = 2

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        number, workers = (info.id, info.num_workers) if info else (0, 1)
        shards = [shard for shard in range(self.num_shards) if shard % workers == number]
        for item in range(10_000):
            for shard in shards:
                time.sleep(READ_S)
                yield 2 * item + shard


def two_shards() -> DataLoader:
    return DataLoader(Sharded(), batch_size=BATCH, num_workers=4, persistent_workers=True)


def very_slow() -> DataLoader:
    """4 s for a batch."""
    return loader_of(lambda index: slept(0.5), num_workers=4)
