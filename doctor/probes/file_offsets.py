"""See which files that were open before a worker began have their offset moved when it reads samples.

Forked workers share the offset of a descriptor that they inherit. What is only mapped, read at given places (os.pread) or
written to does not depend on it, and what a worker opens itself is its own.
"""

import itertools
import os
import typing  # noqa: F401 (for comments)

from .offsets import inherited, offset_of

SAMPLES = 8


def probe(arguments, step, loaded):
    """`allowed_bytes`, `workers`, and `budget_s` after which no further sample is begun.

    Gives the descriptors that were watched, those whose offset was moved and their paths, how many samples were read, and what
    they raised.
    """
    files = [File(file) for file in inherited()]
    told = {"watched": [file.number for file in files], "moved": [], "samples_read": 0, "trouble": None}  # type: dict[str, typing.Any]
    if not files:
        return told
    loaded.limit_memory(arguments["allowed_bytes"])
    step("become a worker")
    if loaded.torch:
        loaded.be_worker(0, arguments["workers"])
    end = loaded.clock_s() + arguments["budget_s"]
    moved = []
    try:
        for displaced in (False, True):  # one that is always set back to the same place is not noticed at that place
            for file in files:
                os.lseek(file.copy, file.offset + (displaced and file not in moved), os.SEEK_SET)
            for file in files:  # several may be one, as a map holds a descriptor of its own of its file
                file.expected = file.offset
            for read in readers(loaded, step):
                try:
                    read()
                    told["samples_read"] += 1
                finally:
                    moved += [file for file in files if file not in moved and file.offset != file.expected]
                if loaded.clock_s() > end:
                    break
    except Exception as error:  # noqa: BLE001 (it is the answer)
        told["trouble"] = "%s: %s" % (type(error).__name__, error)
    told["moved"] = [{"descriptor": file.number, "file": file.path} for file in moved]
    return told


class File:
    def __init__(self, file):
        self.number, self.path = file.number, file.path
        self.copy = os.dup(file.number)  # shares the offset, and stays open when a worker closes its own
        self.expected = 0

    @property
    def offset(self):
        return offset_of(self.copy)


def readers(loaded, step):
    """What reads a sample each: the first ones of an iterable dataset, else those that the loader would read first."""
    if loaded.iterable:
        step("iterate the dataset")
        iterator = iter(loaded.dataset)
        for number in range(SAMPLES):
            step("read sample %d" % number)
            yield lambda: next(iterator, None)
        return
    for index in itertools.islice(indices(loaded), SAMPLES):
        step("read sample %s" % (index,))
        yield lambda: loaded.read([index])  # noqa: B023 (it is read before the next one)


def indices(loaded):
    loader = loaded.loader
    if loader is None:
        length = len(loaded.dataset)
        return iter(range(0, length, max(1, length // SAMPLES)))
    if loader.batch_sampler is None:
        return iter(loader.sampler)
    return itertools.chain.from_iterable(loader.batch_sampler)
