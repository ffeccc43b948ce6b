"""What one worker of the user's loader keeps for itself: a real one reads at most 2,000 samples, and its pages are counted.

A forked worker shares its parent's pages until a reference to an object on them is counted; then the kernel copies the page. How
many an epoch copies is told by samples that follow one another (how densely objects lie), by samples at random, earlier and later
(how many pages a single one touches, and how soon there are none left), and by the former once more (what else is copied).
"""

import itertools
import random
import signal
import time
import typing  # noqa: F401 (for comments)

SHARES = (("warm up", 0.2), ("at random", 0.12), ("in order", 0.28), ("the same again", 0.28), ("at random later", 0.12))
"""Of the samples and of the time."""


class Late(Exception):
    """The worker did not come back in time."""


def late(*_):
    raise Late


def probe(arguments, step, loaded):
    """`method`, `batch_size` to read in, `samples` and `reading_s` at most, `patience_s` for all, and `allowed_bytes`."""
    loaded.limit_memory(arguments["allowed_bytes"])
    told = {"readings": [], "raised": None, "late": False}  # type: dict[str, typing.Any]
    iterator = None
    signal.signal(signal.SIGALRM, late)
    signal.alarm(arguments["patience_s"])
    begin = time.monotonic()
    try:
        feed = Feed(loaded, arguments["samples"], arguments["batch_size"])
        told["random_order"] = feed.random_order
        step("start a worker by %s" % arguments["method"])
        loader = loaded.new_loader(
            num_workers=1,
            prefetch_factor=1,
            persistent_workers=True,
            multiprocessing_context=arguments["method"],
            pin_memory=False,
            timeout=0,
            collate_fn=id,  # a number instead of a batch: nothing goes through shared memory
            **feed.changes,
        )
        for name, share in SHARES:
            if not feed.begin(name, share, arguments["reading_s"] * share):
                continue
            step("read samples: %s" % name)
            before = None if iterator is None else pages(worker_of(iterator).pid)
            iterator = iter(loader)
            if "started_s" not in told:
                told["started_s"] = time.monotonic() - begin
            for _ in feed.batches_of(iterator):
                if "first_batch_s" not in told:
                    told["first_batch_s"] = time.monotonic() - begin
            after = pages(worker_of(iterator).pid)
            told["readings"].append({"name": name, "samples": feed.given, "before": before or after, "after": after})
    except Late:
        told["late"] = True
    except Exception as error:  # noqa: BLE001 (it is the answer)
        told["raised"] = "%s: %s" % (type(error).__name__, error)
    finally:
        signal.alarm(0)
        loaded.end_workers(None if told["late"] else iterator, told["raised"] or "")
    return told


def worker_of(iterator):
    return getattr(iterator, "_workers")[0]  # noqa: B009 (there is no other way to its number)


class Feed:
    """What the worker is given to read, as the user's loader would: keys of a sampler, or batches of them."""

    def __init__(self, loaded, samples, batch_size):
        self._samples = samples
        self._size = max(1, min(batch_size, samples // 20))
        self._units = []  # type: list[typing.Any]
        self._end_s = 0.0
        self.given = self.used = 0
        self._draw = random.Random(0)
        loader, data = loaded.loader, loaded.torch.utils.data
        self._iterable = loaded.is_iterable_dataset
        self._own = None  # type: typing.Any
        self._keys = None  # type: typing.Any
        samplers = (data.RandomSampler, data.SequentialSampler, data.DistributedSampler)
        self.random_order = loader is None or not isinstance(loader.sampler, data.SequentialSampler)
        if self._iterable:
            self.changes = {} if loader is not None and loader.batch_size is None else {"batch_size": self._size}
            return
        batches = loader and loader.batch_sampler
        of_torch = type(batches) is data.BatchSampler and batches.sampler is loader.sampler
        if loader is not None and not of_torch:
            self._own = iter(loader.sampler if batches is None else batches)  # what it gives is known to the dataset alone
        elif loader is None or (type(loader.sampler) in samplers and of_this(loader)):
            self._keys = range(len(loaded.dataset))
        else:
            self._keys = list(itertools.islice(iter(loader.sampler), samples))
        alone = loader is not None and loader.batch_sampler is None
        self.changes = {"sampler": self, "batch_size": None} if alone else {"batch_sampler": self}

    def begin(self, name, share, seconds):
        """Prepare a reading; False where there is nothing to read for it."""
        self._end_s = time.monotonic() + seconds
        wanted = max(1, int(self._samples * share))
        if name == "the same again":
            self._units = self._units[: self.used]
            self._end_s += 10 * seconds  # all of them
        elif self._own is not None:
            self._units = list(itertools.islice(self._own, max(1, wanted // self._size)))
        elif self._keys is not None:
            self._units = self._drawn(name, wanted)
        self.given = self.used = 0
        return bool(self._units) or (self._iterable and name in ("warm up", "in order"))

    def _drawn(self, name, wanted):
        wanted = min(wanted, len(self._keys))
        if name == "in order":
            first = self._draw.randrange(len(self._keys) - wanted + 1)
            keys = list(self._keys[first : first + wanted])
        else:
            keys = [self._keys[index] for index in self._draw.sample(range(len(self._keys)), wanted)]
        return [keys[at : at + self._size] for at in range(0, len(keys), self._size)]

    def __iter__(self):
        for unit in self._units:
            if self.used and time.monotonic() > self._end_s:
                return
            self.used += 1
            self.given += len(unit) if isinstance(unit, (list, tuple)) else 1
            yield unit

    def __len__(self):
        return len(self._units)

    def batches_of(self, iterator):
        """All of what was given; of a dataset with an order of its own as much as there is time for."""
        if not self._iterable:
            for batch in iterator:
                yield batch
            return
        most = max(1, self._samples // 3 // self._size)
        for batch in itertools.islice(iterator, most):
            self.given += self._size
            yield batch
            if time.monotonic() > self._end_s:
                break
        time.sleep(0.05)  # it makes one more, and waits


def of_this(loader):
    """Whether the sampler numbers the loader's dataset; torch's take anything with a length."""
    return getattr(loader.sampler, "data_source", getattr(loader.sampler, "dataset", None)) is loader.dataset


def pages(pid):
    """Bytes that a process has for itself, and anonymous ones that it still shares, by /proc/PID/smaps.

    Shared mappings (rw-s) are not counted: batches on their way, of which some happen to be mapped here alone.
    """
    private = shared = 0
    counted = anonymous = False
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                fields = rest.split()
                counted = fields[0][3] == "p"
                anonymous = len(fields) < 5 or fields[4].startswith("[")
            elif counted and name == "Private_Dirty:":
                private += int(rest.split()[0]) << 10
            elif counted and anonymous and name in ("Shared_Dirty:", "Shared_Clean:"):
                shared += int(rest.split()[0]) << 10
    return {"private_bytes": private, "shared_bytes": shared}
