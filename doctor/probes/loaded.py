"""The user's dataset or loader and what probes do with it, for other probes."""

import contextlib
import importlib
import inspect
import multiprocessing
import multiprocessing.process
import os
import random
import re
from time import monotonic  # by a name of ours: the job's code may patch the module

from .at_fork import forget_workers
from .limits import limit_memory
from .offsets import inherited, put_back
from .parcel import Parcel
from .shards import packages_of, shards_of
from .socket_folder import make, remove

BASE_SEED = 20_260_101
"""Of workers, where torch draws one for each epoch."""


SEGMENT = re.compile(r"</(torch_(\d+)_\d+_\d+)>")
"""In torch's exceptions: a file in /dev/shm, with the number of the process that made it."""


def imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Loaded:
    """The user's dataset, and the loader where there is one, with what probes do with them."""

    def __init__(self, found, torch, spec):
        self.torch = torch
        self.spec = spec
        self.loader = found if torch and isinstance(found, torch.utils.data.DataLoader) else None
        self.dataset = found if self.loader is None else self.loader.dataset
        self.clock_s = monotonic
        self._folder = None  # type: str | None
        self._files = inherited()
        self.reading = []  # type: list[object]
        """The indices of what is being read, or was last."""

        self.reading_since_s = monotonic()

    def put_back(self):
        """In the process that has made the dataset, when a probe has ended: the next one reads open files where this one did, and
        so does a caller of dl_doctor.check, whose process was forked.
        """
        put_back(self._files)

    def limit_memory(self, allowed_bytes, shared_bytes=None):
        """For a probe, which is forked: it may take so much, has no workers of others, and computes with one thread.

        What has used several before the fork would wait for threads that are not there; torch's workers do the same. Gives the
        function that looks.
        """
        forget_workers()
        if self.torch:
            self.torch.set_num_threads(1)
        return limit_memory(allowed_bytes, shared_bytes)

    @property
    def iterable(self):
        """Whether it gives its samples in its own order, as torch's IterableDataset does."""
        if self.torch and isinstance(self.dataset, self.torch.utils.data.IterableDataset):
            return True
        return not hasattr(self.dataset, "__getitem__")

    @property
    def foreign(self):
        """Whether it is a loader of another library, to which workers of torch do not apply."""
        return self.loader is None and self.iterable and not self.is_iterable_dataset

    @property
    def is_iterable_dataset(self):
        return bool(self.torch) and isinstance(self.dataset, self.torch.utils.data.IterableDataset)

    @property
    def collate_fn(self):
        """What makes a batch of samples: the loader's, or torch's default."""
        if self.loader is not None:
            return self.loader.collate_fn
        return self.torch.utils.data.default_collate if self.torch else None

    def description(self):
        return {
            "wrong": None,
            "kind": "other" if self.foreign else "iterable" if self.iterable else "map",
            "type": full_name(self.dataset),
            "length": length(self.dataset),
            "packages": packages_of(self.dataset),
            "shards": shards_of(self.dataset) if self.iterable else None,
            "options": options_of(self.torch.utils.data.DataLoader) if self.torch else [],
            "arguments": None if self.loader is None else arguments_of(self.loader, self.torch.utils.data),
        }

    def be_worker(self, number, workers, seeded_as=None):
        """Make this process a worker of torch: its one thread, its seeds, its worker_info, and worker_init_fn is called.

        Its seeds are those of worker `seeded_as`, where that is another one.
        """
        worker = self.torch.utils.data._utils.worker
        seeded_as = number if seeded_as is None else seeded_as
        seed = BASE_SEED + seeded_as
        self.torch.set_num_threads(1)
        random.seed(seed)
        self.torch.manual_seed(seed)
        if hasattr(worker, "_generate_state") and imported("numpy"):  # torch before 1.9 does not seed NumPy
            imported("numpy").random.seed(worker._generate_state(BASE_SEED, seeded_as))
        worker._worker_info = worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=self.dataset)
        if self.loader is not None and self.loader.worker_init_fn is not None:
            self.loader.worker_init_fn(number)

    def spare_shared_memory(self):
        """Have default_collate allocate its batches privately from now on, where a worker's are in /dev/shm."""
        for kind in self.torch._storage_classes:
            if kind.__name__.endswith("UntypedStorage"):
                kind._new_shared = classmethod(lambda cls, size, **_: cls(size))

    def read(self, indices):
        """Samples of a map-style dataset, as torch fetches them."""
        self.begin_to_read(indices)
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(indices)
        samples = []
        for index in indices:
            self.begin_to_read([index])
            samples.append(self.dataset[index])
        return samples

    def begin_to_read(self, indices):
        self.reading, self.reading_since_s = indices, monotonic()

    def weigh(self, thing, most_bytes, **more):
        """A Parcel of what is handed to another process."""
        return Parcel(thing, most_bytes, **more)

    def new_loader(self, **changes):
        """A DataLoader like the user's, or of the user's dataset, with these arguments instead; iterated here it is the job's."""
        arguments = {}
        if self.loader is not None:
            names = (
                "num_workers",
                "pin_memory",
                "timeout",
                "worker_init_fn",
                "multiprocessing_context",
                "generator",
                "collate_fn",
            )
            arguments.update({name: getattr(self.loader, name) for name in names})
            if hasattr(self.loader, "in_order"):
                arguments.update(in_order=self.loader.in_order)
            if self.loader.num_workers:
                arguments.update({name: getattr(self.loader, name) for name in ("prefetch_factor", "persistent_workers")})
            if self.is_iterable_dataset or self.loader.batch_sampler is None:
                arguments.update(batch_size=self.loader.batch_size, drop_last=self.loader.drop_last)
                if not self.is_iterable_dataset:
                    arguments.update(sampler=self.loader.sampler)
            else:
                arguments.update(batch_sampler=self.loader.batch_sampler)
        arguments.update(changes)
        if not arguments.get("num_workers"):
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                arguments.pop(name, None)
            arguments["timeout"] = 0
        elif self._folder is None:
            with contextlib.suppress(OSError):  # multiprocessing will say so, if it needs one
                self._folder = make()  # workers share it
        if (
            self.loader is not None
            and "batch_size" in changes
            and "batch_sampler" in arguments
            and "batch_sampler" not in changes
        ):
            arguments.pop("batch_sampler")
            arguments["sampler"] = self.loader.sampler
        return self.torch.utils.data.DataLoader(self.dataset, **arguments)

    def end_workers(self, iterator, said=""):
        """End the workers of a loader's iterator: one that is killed may leave what it was about to hand over in /dev/shm.

        So does a process that torch refuses a segment for want of space: `said` is what it said, which names the segment.
        """
        workers = [*getattr(iterator, "_workers", ()), *multiprocessing.active_children()]
        ours = {os.getpid(), *(worker.pid for worker in workers)}
        if hasattr(iterator, "_shutdown_workers"):
            getattr(iterator, "_shutdown_workers")()  # noqa: B009 (they end by themselves, and are ended after 5 s)
        for worker in multiprocessing.active_children():
            worker.terminate()
        for worker in multiprocessing.active_children():
            worker.join(1)
            if worker.is_alive():
                worker.kill()
        del iterator
        for name, pid in SEGMENT.findall(said):
            if int(pid) in ours:
                with contextlib.suppress(OSError):
                    os.unlink("/dev/shm/" + name)
        remove(self._folder)  # a probe does not end as Python does
        self._folder = None


def options_of(kind):
    """Which of the parameters that only some versions of torch have this DataLoader takes."""
    codes = [base.__init__.__code__ for base in kind.__mro__ if inspect.isfunction(base.__init__)]
    taken = {name for code in codes for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    return sorted(taken & {"in_order", "worker_method"})


def full_name(value):
    kind = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    return "%s.%s" % (getattr(kind, "__module__", "?"), getattr(kind, "__qualname__", repr(kind)))


def length(sized):
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def arguments_of(loader, data):
    """`data` is torch.utils.data."""
    context = getattr(loader, "multiprocessing_context", None)
    ours = (data.default_collate, data.default_convert)
    return {
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "drop_last": bool(loader.drop_last or getattr(loader.batch_sampler, "drop_last", False)),
        "timeout_s": float(loader.timeout),
        "start_method": context and context.get_start_method(),
        "collate_fn": None if loader.collate_fn in ours else full_name(loader.collate_fn),
        "worker_init_fn": loader.worker_init_fn and full_name(loader.worker_init_fn),
        "sampler": full_name(loader.sampler),
        "batch_sampler": full_name(loader.batch_sampler) if loader.batch_sampler is not None else None,
        "batches": length(loader),
        "rank_aware": rank_aware(loader),
        "in_order": bool(getattr(loader, "in_order", True)),
        "dataset_has_set_epoch": callable(getattr(loader.dataset, "set_epoch", None)),
    }


def rank_aware(loader):
    """Whether one of its parts has what torch's DistributedSampler and Accelerate's loaders and samplers have."""
    parts = [loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
    parts += [getattr(part, "sampler", None) for part in parts[1:]]
    names = ("num_replicas", "num_processes", "process_index", "world_size")
    return any(hasattr(part, name) for part in parts for name in names) or type(loader).__module__.startswith("accelerate.")
