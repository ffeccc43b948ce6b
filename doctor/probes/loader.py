"""Make the dataset or the loader that the user names, here, for the probes that are forked from this process afterwards."""

import importlib
import importlib.util
import inspect
import multiprocessing
import os
import resource
import sys
import threading
import time

EXAMPLE = "def make_loader():\\n    return DataLoader(...)"


YES = ("true", "1", "on", "yes", "y", "t")
"""What tokenizers reads as yes."""


class Wrong(Exception):
    """What is named cannot be examined; the message says why and what to write instead."""


def probe(arguments, step):
    """`spec` names it, `allowed_bytes` is what making it may take beyond torch (None: all there is), `start_method` is what the
    default is to be (None: as it is).

    Gives a description, and a Loaded, which later probes get as their third argument.
    """
    step("import torch")
    torch = imported("torch")
    limit_memory(arguments["allowed_bytes"])
    if arguments.get("start_method"):
        make_default(arguments["start_method"])
    before = open_files()
    begin = time.monotonic()
    try:
        found, called = named(arguments["spec"], step)
        found, choices = unwrapped(found, arguments["spec"], torch, step)
    except Wrong as wrong:
        return {"wrong": str(wrong)}, None
    loaded = Loaded(found, torch, arguments["spec"])
    return dict(
        loaded.description(),
        make_s=time.monotonic() - begin,
        called=called,
        choices=choices,
        opened=sorted(open_files() - before),
        threads=sorted({thread.name for thread in threading.enumerate() if thread is not threading.main_thread()}),
        unsafe_at_fork=unsafe_at_fork(),
        daemonic=bool(multiprocessing.current_process().daemon),
        default_method=multiprocessing.get_start_method(allow_none=True),
        cuda_used=bool(torch and getattr(torch, "cuda", None) and torch.cuda.is_initialized()),
    ), loaded


def unsafe_at_fork():
    """Libraries that have threads or state here which a forked child would find broken. That one is imported says nothing."""
    loaded = sys.modules.get
    tensorflow = getattr(loaded("tensorflow.python.eager.context"), "_context", None)
    grpc_threads = ("grpc", "event_engine", "timer_manager", "default-execut", "resolver-execut")
    found = {
        "jax": getattr(loaded("jax._src.xla_bridge"), "_backends", None),
        "tensorflow": getattr(tensorflow, "_initialized", False),
        "grpc": loaded("grpc") and any(name.startswith(grpc_threads) for name in thread_names()),
        "fsspec": any(thread.name == "fsspecIO" for thread in threading.enumerate()),
        "tokenizers": loaded("tokenizers") and os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in YES,
    }
    return sorted(name for name, alive in found.items() if alive)


def thread_names():
    """Of the kernel's threads of this process, those of libraries too."""
    names = []
    for number in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/comm" % number) as file:
                names.append(file.read().strip())
        except OSError:  # it has ended
            continue
    return names


def imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def limit_memory(allowed_bytes):
    """Beyond what this process has now. What is refused more than that raises, and the machine does not feel it."""
    if allowed_bytes is None:
        return
    with open("/proc/self/status") as file:
        has = next((int(line.split()[1]) << 10 for line in file if line.startswith("VmData:")), 0)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = has + allowed_bytes if hard == resource.RLIM_INFINITY else min(has + allowed_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def make_default(method):
    """Let workers, locks and queues be made by this method where the program says none; it can still set its own."""
    default = multiprocessing.context._default_context  # its own attribute of the same name is what is used where nothing is set
    default._default_context = multiprocessing.get_context(method)  # type: ignore[attr-defined]


def open_files():
    """Paths that descriptors of this process lead to."""
    paths = set()  # type: set[str]
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return paths
    for number in numbers:
        try:
            paths.add(os.readlink("/proc/self/fd/" + number))
        except OSError:  # the descriptor of the listing
            continue
    return {path for path in paths if path.startswith("/") and not path.startswith(("/dev/", "/proc/"))}


def named(spec, step):
    """What a spec stands for, and whether it had to be called."""
    place, _, attributes = spec.rpartition(":")
    step("import " + place)
    module = by_path(place) if place.endswith(".py") else by_name(place)
    step("look up " + spec)
    found = module
    for name in attributes.split("."):
        if not hasattr(found, name):
            raise Wrong("%s has no `%s`%s" % (place, name, suggestion(module)))
        found = getattr(found, name)
    if looks_like_data(found):
        return found, False
    if not callable(found):
        raise Wrong("%s is of type %s: name a Dataset, a DataLoader or a function that makes one" % (spec, type(found).__name__))
    needed = required(found)
    if needed:
        raise Wrong(
            "%s needs %s: name a function without arguments that makes it, such as\n%s" % (spec, ", ".join(needed), EXAMPLE)
        )
    step("call " + spec)
    return found(), True


def by_path(path):
    """As `python FILE` would have it: the file's folder stands first on sys.path. Its main guard does not run."""
    if not os.path.isfile(path):
        raise Wrong("there is no file %s" % os.path.abspath(path))
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    name = os.path.basename(path)[: -len(".py")]
    if not name.isidentifier():
        raise Wrong("%s cannot be imported, and so no worker could: give it a name without %s" % (path, odd(name)))
    known = sys.modules.get(name)
    if known is not None and not same_file(known, path):
        raise Wrong("%s has the name of a module that is there already (%s): rename the file" % (path, known))
    return importlib.import_module(name)


def same_file(module, path):
    return os.path.realpath(getattr(module, "__file__", None) or "") == os.path.realpath(path)


def odd(name):
    return " ".join(sorted({repr(c) for c in name if not (c.isalnum() or c == "_")})) or "a digit in front"


def by_name(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise Wrong("there is no module %s in %s or on PYTHONPATH" % (error.name, os.getcwd())) from None
        raise


def suggestion(found):
    names = [name for name, value in vars(found).items() if not name.startswith("_") and not inspect.ismodule(value)]
    return ("; it has " + ", ".join(sorted(names)[:12])) if names else ""


def required(found):
    """Names of arguments that it cannot be called without."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return []
    given = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in given]


def looks_like_data(found):
    """An object, not a class, that gives samples or makes loaders."""
    return not inspect.isclass(found) and (
        hasattr(found, "__getitem__") or hasattr(found, "__iter__") or hasattr(found, "train_dataloader")
    )


def unwrapped(found, spec, torch, step):
    """The dataset or the loader in what a user has: a Lightning DataModule, a dict of splits, a list of loaders."""
    choices = []
    if hasattr(found, "train_dataloader"):
        if hasattr(found, "setup"):
            step("call %s.setup('fit')" % spec)
            found.setup("fit")
        step("call %s.train_dataloader()" % spec)
        found = found.train_dataloader()
        choices.append("train_dataloader()")
    loader = torch.utils.data.DataLoader if torch else ()
    if isinstance(found, dict) and found and all(isinstance(key, str) and looks_like_data(found[key]) for key in found):
        key = "train" if "train" in found else next(iter(found))
        choices.append("[%r] of %s" % (key, ", ".join(map(repr, found))))
        found = found[key]
    elif isinstance(found, (list, tuple)) and found and isinstance(found[0], loader):
        choices.append("[0] of %d" % len(found))
        found = found[0]
    if found is None or isinstance(found, (str, bytes, int, float)) or not looks_like_data(found):
        raise Wrong("%s gave %s, which is no Dataset and no DataLoader" % (spec, described(found)))
    return found, choices


def described(value):
    return "nothing (None): does it `return` what it makes?" if value is None else "a " + type(value).__name__


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
    }


class Loaded:
    """The user's dataset, and the loader where there is one, with what probes do with them."""

    def __init__(self, found, torch, spec):
        self.torch = torch
        self.spec = spec
        self.loader = found if torch and isinstance(found, torch.utils.data.DataLoader) else None
        self.dataset = found if self.loader is None else self.loader.dataset

    def limit_memory(self, allowed_bytes):
        """For a probe, which is forked: it may take so much, and computes with one thread, as torch's workers do.

        What has used several before the fork would wait for threads that are not there.
        """
        if self.torch:
            self.torch.set_num_threads(1)
        limit_memory(allowed_bytes)

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
            "arguments": self.loader and arguments_of(self.loader, self.torch.utils.data),
        }

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
        if (
            self.loader is not None
            and "batch_size" in changes
            and "batch_sampler" in arguments
            and "batch_sampler" not in changes
        ):
            arguments.pop("batch_sampler")
            arguments["sampler"] = self.loader.sampler
        return self.torch.utils.data.DataLoader(self.dataset, **arguments)
