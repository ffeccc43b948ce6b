"""Read some samples as a worker would, and take their time and their size."""

import os

from .indices import some_indices
from .patience import TookTooLong, patience, trouble


def probe(arguments, step, loaded):
    """`allowed_bytes`; `samples` to read at most, and `budget_s` for it; `workers`; `patience_s` for one sample. Gives what
    facts/dataset_samples.py says.
    """
    loaded.limit_memory(arguments["allowed_bytes"])
    step("become a worker")
    workers = max(arguments["workers"], 1)
    loaded.be_worker(0, workers)
    told = read_some(arguments, step, loaded)
    if loaded.iterable and workers > 1 and not told["readings"] and "trouble" not in told:
        step("become the only worker")
        loaded.be_worker(0, 1)
        told = dict(read_some(arguments, step, loaded), first_worker_idle=True)
    return told


def read_some(arguments, step, loaded):
    readings, told = [], {}  # type: list[dict[str, object]], dict[str, object]
    end = loaded.clock_s() + arguments["budget_s"]
    before = open_files()
    for index, read in readers(loaded, arguments["samples"], step):
        step(("take item %s of the iterator" if loaded.iterable else "read sample %s") % (index,))
        try:
            with patience(arguments["patience_s"]):
                begin = loaded.clock_s()
                sample = read()
                now = loaded.clock_s()
        except StopIteration:
            break
        except (Exception, TookTooLong) as error:  # noqa: BLE001 (it is the answer)
            told["trouble"] = trouble("read", [index], error)
            break
        after = open_files()
        readings.append({"index": str(index), "took_s": now - begin, "opened": bool(after - before)})
        before = after
        step("weigh sample %s" % (index,))
        parcel = loaded.weigh(sample, arguments["allowed_bytes"])
        if parcel.error is None:
            readings[-1]["bytes"] = sum(parcel.storages.values()) + parcel.stream_bytes
        if now > end:
            break
    return dict(told, readings=readings)


def readers(loaded, most, step):
    """Pairs of an index and what reads its sample."""
    if loaded.iterable:
        items = Items(loaded.dataset)
        for number in range(most):
            yield number, items.take
        return
    for index in some_indices(loaded, most, step):
        yield index, lambda: loaded.read([index])[0]  # noqa: B023 (it is read before the next one)


class Items:
    """Of an iterable dataset. Its __iter__ is called with the first of them: much of the job's code may be in there."""

    def __init__(self, dataset):
        self._dataset = dataset
        self._iterator = None

    def take(self):
        if self._iterator is None:
            self._iterator = iter(self._dataset)
        return next(self._iterator)


def open_files():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add((number, os.readlink("/proc/self/fd/" + number)))
        except OSError:  # the descriptor of the listing
            continue
    return {place for place in found if place[1].startswith("/") and not place[1].startswith("/proc/")}
