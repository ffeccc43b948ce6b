"""Datasets whose loaders are watched: the doctor predicts what they take, and here it is taken.

    python loaders.py CONFIGURATIONS

is run by the job's Python. It runs a loader of each, in ranks of its own, for a whole epoch, and prints a list of peaks in JSON.
The doctor examines the same file (`--loader loaders.py:make_loader`), with one configuration in LAB_CONFIGURATION. Nothing of
pytest or of the doctor is imported.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

Configuration = dict[str, Any]
"""`kind`, `workers`, `prefetch`, `method`, `batch_size`, and `ranks`."""

KIB = 1024

LATE_S = 0.4
"""Sample 0 takes that long, so that all that is in flight waits for it, in the main process."""

POLL_S = 0.001


def tensors(_: int) -> object:
    return torch.zeros(3, 128, 128), 1


def many(_: int) -> object:
    return [torch.zeros(7 + number) for number in range(20)]


def views(_: int) -> object:
    return torch.zeros(512 * KIB, dtype=torch.uint8)[:KIB]


def mixed(index: int) -> object:
    return {
        "image": torch.zeros(3, 96, 96, dtype=torch.uint8),
        "boxes": np.zeros((16, 4), dtype=np.float32),
        "label": index,
        "score": 0.5,
        "name": "sample",
        "masks": (torch.zeros(96, 96), torch.zeros(96, 96, dtype=torch.bool)),
    }


def arrays(_: int) -> object:
    return np.zeros((64, 64), dtype=np.float32)


def slices(_: int) -> object:
    """Stands for views of what the dataset itself holds."""


KINDS = {"tensors": tensors, "many": many, "views": views, "mixed": mixed, "arrays": arrays, "slices": slices}

OWN_COLLATE = ("views", "arrays", "slices")
"""Kinds whose batches are lists of samples."""


class Samples(Dataset):
    """Samples of one kind; it holds a tensor, too, which moves to shared memory where a worker is spawned."""

    def __init__(self, kind: str, length: int) -> None:
        self.make, self.length = KINDS[kind], length
        self.held = torch.zeros(1024 * KIB, dtype=torch.uint8)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> object:
        if index == 0:
            time.sleep(LATE_S)
        return self.held[index:] if self.make is slices else self.make(index)


def make_loader() -> DataLoader:
    return loader_of(json.loads(os.environ["LAB_CONFIGURATION"]))


def loader_of(made: Configuration) -> DataLoader:
    batches = made["workers"] * made["prefetch"] * 3 + 4
    return DataLoader(
        Samples(made["kind"], batches * made["batch_size"]),
        batch_size=made["batch_size"],
        num_workers=made["workers"],
        prefetch_factor=made["prefetch"],
        multiprocessing_context=made["method"],
        collate_fn=list if made["kind"] in OWN_COLLATE else None,
    )


def watched(made: Configuration) -> dict[str, int]:
    """The peaks of all ranks together: bytes of /dev/shm, descriptors of the process that has the most, and polls."""
    peaks = {"shm_bytes": 0, "descriptors": 0, "polls": 0, "inherited": len(os.listdir("/proc/self/fd")) - 1}
    ranks = {started(made) for _ in range(made["ranks"])}
    while ranks:
        usage = os.statvfs("/dev/shm")
        peaks["shm_bytes"] = max(peaks["shm_bytes"], (usage.f_blocks - usage.f_bfree) * usage.f_frsize)
        if peaks["polls"] % 5 == 0:
            peaks["descriptors"] = max([peaks["descriptors"], *map(descriptors, processes_of(ranks))])
            ranks -= {pid for pid in ranks if ended(pid)}
        peaks["polls"] += 1
        time.sleep(POLL_S)
    return peaks


def started(made: Configuration) -> int:
    pid = os.fork()
    if not pid:
        for number, _ in enumerate(loader_of(made)):  # slowly at first, so that the workers get ahead
            time.sleep(0.1 if number < 3 else 0.002)
        os._exit(0)
    return pid


def ended(pid: int) -> bool:
    found, status = os.waitpid(pid, os.WNOHANG)
    if found and status:
        raise RuntimeError(f"a rank ended with {status}")
    return bool(found)


def processes_of(ranks: set[int]) -> Iterator[int]:
    for pid in ranks:
        yield pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())
        except OSError:
            continue


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # it has just ended
        return 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps([watched(made) for made in json.loads(sys.argv[1])]))
