"""Read some samples as a worker would, and take their time and their size."""

import os
import traceback

from .indices import some_indices


def probe(arguments, step, loaded):
    """`allowed_bytes`; `samples` to read at most, and `budget_s` for it; `workers`. Gives what facts/dataset_samples.py says."""
    loaded.limit_memory(arguments["allowed_bytes"])
    step("become a worker")
    loaded.be_worker(0, max(arguments["workers"], 1))
    readings, told = [], {}
    end = loaded.clock_s() + arguments["budget_s"]
    before = open_files()
    for index, read in readers(loaded, arguments["samples"], step):
        step("read sample %s" % (index,))
        begin = loaded.clock_s()
        try:
            sample = read()
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001 (it is the answer)
            message = "%s: %s" % (type(error).__name__, error)
            told["trouble"] = {
                "stage": "read",
                "indices": [str(index)],
                "error": message,
                "trace": traceback.format_exc()[-4000:],
            }
            break
        now = loaded.clock_s()
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
        step("iterate the dataset")
        iterator = iter(loaded.dataset)
        for number in range(most):
            yield number, iterator.__next__
        return
    for index in some_indices(loaded, most, step):
        yield index, lambda: loaded.read([index])[0]  # noqa: B023 (it is read before the next one)


def open_files():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add((number, os.readlink("/proc/self/fd/" + number)))
        except OSError:  # the descriptor of the listing
            continue
    return {place for place in found if place[1].startswith("/") and not place[1].startswith("/proc/")}
