"""How many samples a second a loader like the user's delivers with so many workers, and what its processes do meanwhile."""

import itertools
import time
import typing  # noqa: F401 (for comments)

from .accounts import Looks, account, between, queued_s
from .gpu_busy import GpuBusy
from .step_function import step_function
from .stream import Stream, stream_of

CYCLES_BEFORE = 2
"""Batches of each worker before the measurement begins: the first one opens files and fills caches."""

FEWEST_CYCLES = 4

MOST_MARKS = 400

STALLED = 0.1
"""Of the time without anything going on for want of memory: then it is ended."""


class Pressed(Exception):
    """The machine runs out of memory."""


def probe(arguments, step, loaded):
    """`workers`, `prefetch_factor`, `method`, `pin_memory`, `persistent`, `batch_size` (None: the loader's own), `begin`, `every`
    and `again` (which batches, see Stream), `window_s` to be measured, `most_s` for all, `worker_bytes` and `shared_bytes` that
    may be taken, `step_s` (None, or what is waited for each batch), `step_spec` (None, or the function that is called with each),
    `cached` (whether workers read nothing, but deliver the same samples again), `changes` (of the DataLoader's arguments, beyond
    these).

    Gives `marks` (moments, and samples by then, whenever every worker has delivered once more), and what was seen.
    """
    workers = arguments["workers"]
    look = loaded.limit_memory(arguments["worker_bytes"], arguments["shared_bytes"])
    changes = {  # type: dict[str, typing.Any]
        "num_workers": workers,
        "timeout": 0,
        "pin_memory": arguments["pin_memory"],
        "prefetch_factor": arguments["prefetch_factor"],
        "persistent_workers": True,
        "multiprocessing_context": arguments["method"],
    }
    changes.update(arguments["changes"])
    step("prepare")
    loader, sizes = prepared(loaded, arguments, changes)
    consume = consumer(arguments, step)
    step("start %d workers by %s" % (workers, arguments["method"]) if workers else "load in the main process")
    run = Run(loader, sizes, arguments, consume, look, loaded)
    try:
        run.go(step)
    except MemoryError:
        raise
    except Pressed:
        run.told["pressed"] = True
    except Exception as error:  # noqa: BLE001 (it is the answer)
        run.told["raised"] = "%s: %s" % (type(error).__name__, error)
    loaded.end_workers(run.iterator)
    return run.told


def prepared(loaded, arguments, changes):
    """The loader, and the list of its batches' sizes, which grows as they are asked for; None where all have the same."""
    if arguments["cached"]:
        return cached(loaded, arguments, changes)
    if loaded.iterable:
        if arguments["batch_size"] is not None:
            changes["batch_size"] = arguments["batch_size"]
        return loaded.new_loader(**changes), None
    name, stream = stream_of(loaded, arguments["batch_size"], arguments["begin"], arguments["every"], arguments["again"])
    return loaded.new_loader(**dict(changes, **{name: stream})), stream.sizes


def cached(loaded, arguments, changes):
    """The same for a loader whose workers have the first batch's samples already."""
    own = loaded.loader
    batched = own is None or own.batch_sampler is not None or arguments["batch_size"] is not None
    if loaded.iterable:
        size = arguments["batch_size"] or (own is not None and own.batch_size) or 1
        samples = list(itertools.islice(iter(loaded.dataset), size))
    else:
        given = next(iter(stream_of(loaded, arguments["batch_size"], 0, 1)[1]))
        samples = loaded.read(given if batched else [given])
    numbers = list(range(len(samples)))
    stream = Stream(loaded.torch, [numbers] if batched else numbers, 0, 1)
    order = {"batch_sampler": stream} if batched else {"sampler": stream, "batch_size": None}
    loader = loaded.torch.utils.data.DataLoader(Cached(samples), collate_fn=loaded.collate_fn, **order, **changes)
    return loader, stream.sizes


class Cached:
    """A dataset that reads nothing: it has these samples."""

    def __init__(self, samples):
        self.samples = samples

    def __getitem__(self, number):
        return self.samples[number]


def consumer(arguments, step):
    """What is done with each batch."""
    if arguments["step_spec"]:
        step("import " + arguments["step_spec"])
        return step_function(arguments["step_spec"])
    if arguments["step_s"]:
        return lambda _: time.sleep(arguments["step_s"])
    return None


class Run:
    def __init__(self, loader, sizes, arguments, consume, look, loaded):
        self.loader, self.sizes, self.consume, self.look = loader, sizes, consume, look
        self.torch, self.clock_s = loaded.torch, loaded.clock_s
        self.workers = max(1, arguments["workers"])
        self.window_s, self.most_s = arguments["window_s"], arguments["most_s"]
        self.each = 1 if arguments["batch_size"] is None else arguments["batch_size"]
        if sizes is None and arguments["batch_size"] is None:
            self.each = loader.batch_size or 1
        self.iterator = None  # type: typing.Any
        self.told = {"marks": [], "raised": None, "pressed": False}  # type: dict[str, typing.Any]
        self.told.update(startup_s=None, batches=0, exhausted=False, seen=None, waits_for_disk=None, gpu_busy=None)
        self.taking = {"waited_s": 0.0, "main_s": 0.0, "main_queued_s": 0.0}
        """What the main process spent on getting batches: seconds, those on a CPU, and those in the queue for one."""

    def go(self, step):
        begin = self.clock_s()
        self.iterator = iter(self.loader)
        batches = self.endless()
        step("wait for the first batch")
        self.take(batches)
        self.told["startup_s"] = self.clock_s() - begin
        step("measure")
        pids = [worker.pid for worker in getattr(self.iterator, "_workers", ())]
        until_s = begin + self.most_s
        for _ in range(CYCLES_BEFORE * self.workers - 1):
            if not self.take(batches) or self.clock_s() > until_s:
                return  # what has piled up meanwhile would be counted
        looks, busy, before = Looks(pids), GpuBusy(self.torch), self.books(pids)
        taken_before = dict(self.taking)
        self.measure(batches, until_s)
        self.told["seen"] = between(before, self.books(pids))
        self.told["seen"].update(between(taken_before, self.taking))
        self.told["waits_for_disk"], self.told["gpu_busy"] = looks.end(), busy.end()

    def books(self, pids):
        now = self.clock_s()
        return dict(account(pids), seconds=now)

    def measure(self, batches, until_s):
        samples, began_s = 0.0, self.clock_s()
        marks = [(began_s, 0.0)]
        checked_s, stalls_s = began_s, account([])["memory_stalls_s"]
        for number in itertools.count(1):
            size = self.take(batches)
            if not size:
                break
            samples += size
            now = self.clock_s()
            if number % self.workers == 0:
                marks.append((now, samples))
                if (now - began_s >= self.window_s and number >= FEWEST_CYCLES * self.workers) or now > until_s:
                    break
            if now > until_s + self.window_s:
                break
            if now - checked_s > 0.5:
                self.look()
                stalls_s, checked_s = self.check(stalls_s, checked_s, now), now
        every = -(-len(marks) // MOST_MARKS)
        self.told["marks"] = marks[::every]

    def check(self, stalls_s, since_s, now):
        stalled = account([])["memory_stalls_s"]
        if stalled is not None and stalls_s is not None and stalled - stalls_s > STALLED * (now - since_s):
            raise Pressed
        return stalled

    def take(self, batches):
        """Deliver one batch to the step; gives its samples, 0 where there is none."""
        since = self.clocks()
        batch = next(batches, None)
        for name, value in between(since, self.clocks()).items():
            self.taking[name] += value
        if batch is None:
            return 0
        if self.consume is not None:
            self.consume(batch)
        del batch
        number = self.told["batches"]
        self.told["batches"] += 1
        return self.sizes[number] if self.sizes is not None else self.each

    def clocks(self):
        return {"waited_s": self.clock_s(), "main_s": time.thread_time(), "main_queued_s": queued_s()}

    def endless(self):
        """Batches; of an iterable dataset that has come to its end, those of its next epoch."""
        while True:
            before = self.told["batches"]
            for batch in self.iterator:
                yield batch
            if self.told["batches"] == before:
                return
            self.told["exhausted"] = True
            self.iterator = iter(self.loader)
