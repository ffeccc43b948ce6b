"""What a sample costs in one process: reading it for the first time and again, and collating it.

What others on this machine take is left out: the time in the queue for a CPU does not count.
"""

import itertools
import os
import time
import typing  # noqa: F401 (for comments)

from .accounts import between, machine_cpu_s, queued_s, received_bytes, stored_bytes
from .stream import stream_of

SLOW_PART = 0.1


def probe(arguments, step, loaded):
    """`batch_size` (None: the loader's own), `most_s` for all, `allowed_bytes`. Reads the first batches that a loader would."""
    loaded.limit_memory(arguments["allowed_bytes"])
    step("read and collate")
    own = Work(loaded)
    begin_s, before = loaded.clock_s(), books()
    for indices in batches_of(loaded, arguments["batch_size"]):
        own.do(indices)
        if loaded.clock_s() - begin_s > arguments["most_s"] / 2:
            break
    added, seconds = between(before, books()), loaded.clock_s() - begin_s
    told = own.means()
    told["batches"] = len(own.kept)
    if added["others_s"] is not None:
        told["others_cpus"] = max(0.0, added["others_s"]) / seconds
    if added["stored"] is not None:
        told["stored_bytes"] = added["stored"] / own.samples if own.samples else None
    if added["received"] is not None:
        told["received_bytes"] = max(0.0, added["received"]) / max(own.samples, 1)
    step("read the same again")
    if not loaded.iterable and own.samples:
        again = Work(loaded)
        begin_s, before = loaded.clock_s(), books()
        for indices in own.kept:
            again.do(indices, collate=False)
            if loaded.clock_s() - begin_s > arguments["most_s"] / 2:
                break
        told["again_s"] = again.read_s / again.samples
        stored = between(before, books())["stored"]
        told["again_stored_bytes"] = None if stored is None else stored / again.samples
    return told


def books():
    """What was used by now; None where the kernel does not tell."""
    machine_s = machine_cpu_s()
    others_s = None if machine_s is None else machine_s - time.process_time()
    return {"others_s": others_s, "stored": stored_bytes(os.getpid()), "received": received_bytes()}


class Work:
    def __init__(self, loaded):
        self.loaded = loaded
        self.stream = iter(loaded.dataset) if loaded.iterable else None
        self.batched = loaded.loader is None or loaded.loader.batch_sampler is not None
        self.samples, self.read_s, self.read_cpu_s, self.collate_s = 0, 0.0, 0.0, 0.0
        self.each = []  # type: list[float]
        self.kept = []  # type: list[object]
        self.first = (0, None)  # type: tuple[int, typing.Any]
        """Samples of the first batch, and the bytes asked for by then: it reads more than data, such as what is imported late."""

    def do(self, indices, collate=True):
        """Read a batch, and collate it; gives it."""
        begin_s, cpu_s = self.now_s(), time.thread_time()
        if self.stream is not None:
            samples = list(itertools.islice(self.stream, indices))
            if not samples:
                self.stream = iter(self.loaded.dataset)
                samples = list(itertools.islice(self.stream, indices))
        else:
            samples = self.loaded.read(indices if isinstance(indices, (list, tuple)) else [indices])
        self.read_cpu_s += time.thread_time() - cpu_s
        read_s = self.now_s() - begin_s
        self.read_s += read_s
        self.each.append(read_s)
        self.kept.append(indices)
        self.samples += len(samples)
        if len(self.kept) == 1:
            self.first = (self.samples, stored_bytes(os.getpid(), "rchar"))
        if not collate or not samples:
            return None
        begin_s = self.now_s()
        batch = self.loaded.collate_fn(samples if self.batched else samples[0])
        self.collate_s += self.now_s() - begin_s
        return batch

    def now_s(self):
        """A clock that stands while this thread waits for a CPU."""
        return self.loaded.clock_s() - queued_s()

    def means(self):
        number = max(self.samples, 1)
        ordered = sorted(self.each)
        others, asked = self.samples - self.first[0], None
        if others and self.first[1] is not None:
            asked = (stored_bytes(os.getpid(), "rchar") - self.first[1]) / others
        slowest = ordered[-max(1, int(len(ordered) * SLOW_PART)) :]
        return {
            "samples": self.samples,
            "asked_bytes": asked,
            "read_s": max(0.0, self.read_s) / number,
            "read_cpu_s": self.read_cpu_s / number,
            "collate_s": max(0.0, self.collate_s) / number,
            "typical_s": ordered[len(ordered) // 2] if ordered else 0.0,
            "slow_s": sum(slowest) / len(slowest) if slowest else 0.0,
        }


def batches_of(loaded, batch_size):
    """Indices of batches; of an iterable dataset how many samples each has."""
    if loaded.iterable:
        size = batch_size or (loaded.loader is not None and loaded.loader.batch_size) or 1
        return itertools.repeat(size)
    return iter(stream_of(loaded, batch_size, 0, 1)[1])
