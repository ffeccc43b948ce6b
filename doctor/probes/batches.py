"""Make some batches as a worker would, and weigh them: what goes through shared memory, and what through a pipe."""

import itertools
import random

from .patience import TookTooLong, patience, trouble

BATCHES = 8

FEW = 16
"""Of a loader with no more batches than that all are made, while there is time."""

BUDGET_S = 6.0
"""Once two batches are made and this is over, no more are begun."""

LOOKED_AT = 1_000
"""Batches of a sampler of its own among which the largest is looked for; for LOOK_S at most."""

LOOK_S = 1.0

INDICES_NAMED = 5


def probe(arguments, step, loaded):
    """`allowed_bytes`; `batch_size`, None for the loader's own; `workers`; `patience_s` for each thing that is done to a batch.
    Gives what facts/batches.py says of its fields.
    """
    loaded.limit_memory(arguments["allowed_bytes"])
    step("weigh what the dataset and collate_fn hold")
    held = loaded.weigh((loaded.dataset, loaded.collate_fn), arguments["allowed_bytes"], starting=True)
    told = {"held_bytes": held.shared_bytes}
    loaded.spare_shared_memory()
    step("become a worker")
    loaded.be_worker(0, max(arguments["workers"], 1))
    weighing = Weighing(loaded, arguments["allowed_bytes"], arguments["patience_s"], step, held.storages)
    end = loaded.clock_s() + BUDGET_S
    for indices in batches_of_indices(loaded, arguments["batch_size"], step):
        weighing.add(indices)
        if weighing.over or (weighing.made >= 2 and loaded.clock_s() > end):
            break
    found = dict(weighing.most, made=weighing.made) if weighing.made else {}
    return dict(told, **found, **weighing.told)


class Weighing:
    """What is known of the batches so far."""

    def __init__(self, loaded, allowed_bytes, patience_s, step, held):
        self.loaded = loaded
        self.allowed_bytes = allowed_bytes
        self.patience_s = patience_s
        self.step = step
        self.held = held
        self.over = False
        self.made = 0
        self.most = {"batch_bytes": 0, "kept_bytes": 0, "tensors": 0, "pipe_bytes": 0, "samples": 0}
        self.told = {"spare_views": []}  # type: dict[str, object]
        self.iterator = None
        self.taken = 0
        """Items of an iterable dataset."""

    def add(self, indices):
        """A batch of these samples; a number stands for so many of an iterable dataset."""
        samples = self.attempt("read", lambda: self.loaded.reading, lambda: self.samples(indices))
        if self.over or not samples:
            self.over = True
            return
        named = list(range(self.taken - len(samples), self.taken)) if isinstance(indices, int) else indices
        self.step("collate samples %s" % short(named))
        batch = self.attempt("collate", lambda: named, lambda: self.collate(samples), samples)
        if self.over:
            return
        self.step("pickle the batch of samples %s" % short(named))
        parcel = self.attempt("hand over", lambda: named, lambda: self.loaded.weigh(batch, self.allowed_bytes))
        if self.over:
            return
        if parcel.error is not None:
            self.attempt("hand over", lambda: named, raiser(parcel.error))
            return
        self.made += 1
        kept = parcel.bytes_of(place for place in parcel.storages if place in self.held)
        this = {
            "batch_bytes": parcel.shared_bytes - kept,
            "kept_bytes": kept,
            "tensors": len(parcel.storages),
            "pipe_bytes": parcel.stream_bytes,
            "samples": len(samples),
        }
        self.most = {name: max(this[name], most) for name, most in self.most.items()}
        self.told["spare_views"] = self.told["spare_views"] or spare_views(batch, parcel)

    def samples(self, indices):
        if isinstance(indices, int):
            return self.items(indices)
        if self.made == 0 and len(indices) > 1:
            self.step("read samples %s" % short(indices[:2]))
            held, batch = self.predicted(self.loaded.read(indices[:2]), len(indices))
            if held + batch > self.allowed_bytes:
                self.told["predicted_bytes"] = batch
                self.over = True
                return []
        self.step("read samples %s" % short(indices))
        return self.loaded.read(indices)

    def items(self, most):
        if self.iterator is None:
            self.step("iterate the dataset")
            self.iterator = iter(self.loaded.dataset)
        items = []
        self.loaded.begin_to_read([self.taken])
        for item in itertools.islice(self.iterator, most):
            items.append(item)
            self.taken += 1
            self.loaded.begin_to_read([self.taken])
        return items

    def predicted(self, two, count):
        """Bytes that so many samples take, and a batch of them, by the first two.

        Samples are often views of what they share, such as one tensor that the dataset holds: that counts once, or not at all.
        """
        one, both = (self.loaded.weigh(two[:number], self.allowed_bytes) for number in (1, 2))
        first, second = (new_bytes(parcel, self.held) for parcel in (one, both))
        held = first + (second - first) * (count - 1)
        shown = (sum(one.used.values()) + one.stream_bytes) * count
        own = self.loaded.loader is not None and self.loaded.collate_fn is not self.loaded.torch.utils.data.default_collate
        return held, max(held, shown) if own else shown

    def collate(self, samples):
        if self.loaded.loader is not None and unbatched(self.loaded.loader):
            return self.loaded.collate_fn(samples[0])
        return self.loaded.collate_fn(samples)

    def attempt(self, stage, indices, action, samples=()):
        try:
            with patience(self.patience_s):
                return action()
        except (Exception, TookTooLong) as error:  # noqa: BLE001 (it is the answer)
            self.over = True
            told = trouble(stage, indices()[:INDICES_NAMED], error)
            if stage == "read":
                told["last_s"] = self.loaded.clock_s() - self.loaded.reading_since_s
            self.told["trouble"] = dict(told, misfit=misfit(samples, indices()) if samples else None)
            return None


def raiser(error):
    def again():
        raise error

    return again


def batches_of_indices(loaded, batch_size, step):
    """Lists of indices, each of one batch; of an iterable dataset how many samples to take."""
    loader = loaded.loader
    if loaded.iterable:
        size = batch_size or (loader.batch_size if loader is not None else None) or 1
        return itertools.repeat(1 if loader is not None and unbatched(loader) else size, BATCHES)
    if loader is None:
        return random_batches(len(loaded.dataset), batch_size)
    step("iterate the sampler")
    if unbatched(loader):
        return [[index] for index in itertools.islice(loader.sampler, BATCHES)]
    if batch_size and batch_size != getattr(loader.batch_sampler, "batch_size", None):
        sampler = iter(loader.sampler)
        return [indices for indices in (list(itertools.islice(sampler, batch_size)) for _ in range(BATCHES)) if indices]
    return chosen(loader.batch_sampler, loaded.clock_s)


def unbatched(loader):
    return loader.batch_size is None and loader.batch_sampler is None


def random_batches(length, size):
    draw = random.Random(0)
    return [draw.sample(range(length), min(size, length)) for _ in range(BATCHES if length else 0)]


def chosen(batch_sampler, clock_s):
    """Of the batches of one epoch: the largest in sight and others, from near and far; this copy of the sampler is ours."""
    end, seen = clock_s() + LOOK_S, []
    for indices in itertools.islice(iter(batch_sampler), LOOKED_AT):
        seen.append(list(indices))
        if clock_s() > end:
            break
    if len(seen) <= FEW:
        return seen
    largest = max(range(len(seen)), key=lambda number: len(seen[number]))
    spread = [number * (len(seen) - 1) // (BATCHES - 1) for number in range(BATCHES)]
    return [seen[number] for number in dict.fromkeys([largest, *spread])][:BATCHES]


def new_bytes(parcel, held):
    """Of storages that are not among those held, and of what is no tensor."""
    return sum(size for place, size in parcel.storages.items() if place not in held) + parcel.stream_bytes


def spare_views(batch, parcel):
    """Tensors that show a quarter or less of a storage that travels whole, each with its path."""
    large = {place: size for place, size in parcel.storages.items() if size >= 4 * parcel.used.get(place, size)}
    if not large:
        return []
    found = []
    for path, tensor in tensors_of(batch, "batch"):
        place = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        if place in large:
            found.append({"path": path, "storage_bytes": large[place], "tensor_bytes": parcel.used[place]})
    total = {"storage_bytes": sum(large.values()), "tensor_bytes": sum(parcel.used[place] for place in large)}
    return [dict(path=found[0]["path"] if found else "batch", views=len(large), **total)]


def tensors_of(thing, path):
    if hasattr(thing, "storage_offset"):
        yield path, thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from tensors_of(value, "%s[%r]" % (path, key))
    elif isinstance(thing, (list, tuple)):
        for number, value in enumerate(thing):
            yield from tensors_of(value, "%s[%d]" % (path, number))


def misfit(samples, indices):
    """Where two samples differ in what collating takes to be alike: its path, and the two in words."""
    for number, sample in enumerate(samples[1:], 1):
        found = difference(samples[0], sample, "sample")
        if found:
            path, first, second = found
            return {"path": path, "first": [str(indices[0]), first], "second": [str(indices[number]), second]}
    return None


def difference(first, second, path):
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return path, "keys %s" % ", ".join(map(repr, first)), "keys %s" % ", ".join(map(repr, second))
        pairs = [(first[key], second[key], "%s[%r]" % (path, key)) for key in first]
    elif isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        if len(first) != len(second):
            return path, "%d items" % len(first), "%d items" % len(second)
        pairs = [(one, other, "%s[%d]" % (path, number)) for number, (one, other) in enumerate(zip(first, second))]
    else:
        one, other = in_words(first), in_words(second)
        return None if one == other else (path, one, other)
    return next((found for found in (difference(*pair) for pair in pairs) if found), None)


def in_words(value):
    if hasattr(value, "shape"):
        return "%s %s" % (str(getattr(value, "dtype", "")).replace("torch.", ""), tuple(value.shape))
    return type(value).__name__


def short(indices):
    text = ", ".join(map(str, indices[:3]))
    return text + (", ... (%d)" % len(indices) if len(indices) > 3 else "")
