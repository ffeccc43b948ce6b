"""Make the dataset or the loader that the user names, here, for the probes that are forked from this process afterwards."""

import contextlib
import difflib
import functools
import importlib
import importlib.util
import inspect
import io
import itertools
import multiprocessing
import multiprocessing.context
import multiprocessing.reduction
import os
import random
import re
import resource
import shutil
import signal
import struct
import sys
import threading
import traceback
import types
from time import monotonic, sleep  # by names of ours: the job's code may patch the module

MOST_NAMES = 12
"""Of what a module has, that are told."""

ONCE_ONLY = (
    types.GeneratorType,
    types.AsyncGeneratorType,
    io.IOBase,
    filter,
    map,
    zip,
    enumerate,
    itertools.chain,
    itertools.cycle,
    itertools.islice,
    type(iter([])),
)  # type: tuple[type, ...]
"""What can be gone through a single time."""

BASE_SEED = 20_260_101
"""Of workers, where torch draws one for each epoch."""

PAGE_BYTES = 4096


YES = ("true", "1", "on", "yes", "y", "t")
"""What tokenizers reads as yes."""


SEGMENT = re.compile(r"</(torch_(\d+)_\d+_\d+)>")
"""In torch's exceptions: a file in /dev/shm, with the number of the process that made it."""


LOOK_EVERY_S = 0.01
"""Of CPU time, in which some 20 MiB of memory can be filled."""


class Wrong(Exception):
    """What is named cannot be examined; the message says why and what to write instead."""


def probe(arguments, step, *at_hand):
    """`spec` names it; `allowed_bytes` is what making it may take beyond torch (None: all there is), `start_method` what the
    default is to be (None: as it is). `at_hand`: it is made.

    Gives a description, and a Loaded, which later probes get as their third argument.
    """
    sys.dont_write_bytecode = True
    step("import torch")
    torch = imported("torch")
    limit_memory(arguments["allowed_bytes"])
    spec = arguments["spec"]
    if arguments.get("start_method"):
        make_default(arguments["start_method"])
    before = open_files()
    begin = monotonic()
    try:
        found, called = (at_hand[0], False) if at_hand else named(spec, step)
        found, choices = unwrapped(found, spec, torch, step)
    except Wrong as wrong:
        return {"wrong": str(wrong)}, None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    loaded = Loaded(found, torch, spec)
    return dict(
        loaded.description(),
        make_s=None if at_hand else monotonic() - begin,
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
        "opencv": loaded("cv2") and threads_waiting_in("/cv2/"),
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


def threads_waiting_in(part):
    """How many threads wait in a function that a library with this in its path has called, as their stacks tell.

    Threads of libraries have no names of their own, and are started by others too: BLAS, OpenMP.
    """
    with open("/proc/self/maps") as file:
        fields = [line.split() for line in file]
    code = [fields_[0].split("-") for fields_ in fields if len(fields_) > 5 and "x" in fields_[1] and part in fields_[5]]
    spans = [(int(begin, 16), int(end, 16)) for begin, end in code]
    found = 0
    for number in os.listdir("/proc/self/task") if spans else ():
        words = stack_of(number)
        found += any(begin <= word < end for word in words for begin, end in spans)
    return found


def stack_of(thread):
    """The innermost 4 KiB of the stack of a thread that waits in the kernel, as numbers; one that runs gets a moment to wait."""
    for _ in range(5):
        try:
            with open("/proc/self/task/%s/syscall" % thread) as file:
                fields = file.read().split()
            if len(fields) > 2:
                with open("/proc/self/mem", "rb", 0) as memory:
                    memory.seek(int(fields[-2], 16))
                    return struct.unpack("=512Q", memory.read(4096))
        except (OSError, ValueError, struct.error):  # it has ended, or nobody may look
            return ()
        sleep(0.01)
    return ()


def imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def limit_memory(allowed_bytes):
    """Beyond what this process has now. What is refused more than that raises, and the machine does not feel it.

    Shared memory and files of a tmpfs are no data of a process: of these each file may be as large, and /dev/shm is looked at
    every few milliseconds of CPU time.
    """
    if allowed_bytes is None:
        return
    with open("/proc/self/status") as file:
        has = next((int(line.split()[1]) << 10 for line in file if line.startswith("VmData:")), 0)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = has + allowed_bytes if hard == resource.RLIM_INFINITY else min(has + allowed_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    soft = allowed_bytes if hard == resource.RLIM_INFINITY else min(allowed_bytes, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    watch_shared_memory(allowed_bytes)


def watch_shared_memory(allowed_bytes):
    """Have MemoryError raised here as soon as /dev/shm holds more than now by so much. The timer is no child's.

    Gives the function that looks, for a process that computes nothing while its children do.
    """
    try:
        before = os.statvfs("/dev/shm")
    except OSError:
        return lambda: None

    def look(*_):
        now = os.statvfs("/dev/shm")
        if (before.f_bfree - now.f_bfree) * now.f_frsize > allowed_bytes:
            raise MemoryError("/dev/shm was filled with more than may be taken")

    signal.signal(signal.SIGPROF, look)
    signal.siginterrupt(signal.SIGPROF, False)  # libraries need not know what EINTR is
    signal.setitimer(signal.ITIMER_PROF, LOOK_EVERY_S, LOOK_EVERY_S)
    return look


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
    module = by_path(place, attributes) if place.endswith(".py") else by_name(place, attributes)
    step("look up " + spec)
    found = module
    path = place
    for name in attributes.split("."):
        if not hasattr(found, name):
            raise Wrong("%s has no `%s`%s" % (path, name, suggestion(found, name)))
        found = getattr(found, name)
        path = path + (":" if path == place else ".") + name
    if looks_like_data(found):
        return found, False
    if not callable(found):
        raise Wrong("%s is %s: name a Dataset, a DataLoader or a function that makes one" % (spec, described(found)))
    needed = required(found)
    if needed:
        raise Wrong("%s needs %s: name a function that gives them, such as `%s`" % (spec, listed(needed), wrapper(found, needed)))
    if inspect.iscoroutinefunction(inner(found)) or inspect.isasyncgenfunction(inner(found)):
        raise Wrong(
            "%s is an async function, which nothing awaits: name a plain one, such as `def make_data(): return asyncio.run(%s())`"
            % (spec, attributes)
        )
    step("call " + spec)
    return found(), True


def by_path(path, attributes):
    """As `python FILE` would have it: the file's folder stands first on sys.path. Its main guard does not run."""
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise Wrong("there is no file %s%s" % (path, did_you_mean(os.path.basename(path), listing(os.path.dirname(path)))))
    name = os.path.basename(path)[: -len(".py")]
    if not name.isidentifier():
        raise Wrong("%s cannot be imported, and so no worker could: give it a name without %s" % (path, odd(name)))
    if name in getattr(sys, "stdlib_module_names", sys.builtin_module_names) or name == "__main__":
        raise Wrong("%s has the name of a module of Python's own (%s): rename the file" % (path, name))
    known = sys.modules.get(name)
    if known is not None and not same_file(known, path):
        raise Wrong("%s has the name of a module that is there already, %s: rename the file" % (path, where(known)))
    sys.path[0] = os.path.dirname(path)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if "relative import" not in str(error):
            raise
        raise Wrong("%s imports relative to its package (%s): %s" % (path, error, as_module(path, attributes))) from None
    if not same_file(module, path):
        raise Wrong("%s is not what `import %s` finds, which is %s: rename the file" % (path, name, where(module)))
    return module


def as_module(path, attributes):
    """How to name a file as a module of its package."""
    folder, name = os.path.split(path[: -len(".py")])
    parts = [] if name == "__init__" else [name]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if len(parts) < 2:
        return "name it as a module, package.%s:%s, from the folder that holds the package" % (".".join(parts), attributes)
    here = "" if os.path.realpath(folder) == os.path.realpath(os.getcwd()) else ", from the folder %s" % folder
    return "name it as a module, %s:%s%s" % (".".join(parts), attributes, here)


def same_file(module, path):
    return os.path.realpath(getattr(module, "__file__", None) or "") == os.path.realpath(path)


def where(module):
    return getattr(module, "__file__", None) or "which is built in"


def odd(name):
    return " ".join(sorted({repr(c) for c in name if not (c.isalnum() or c == "_")})) or "a digit in front, or a keyword"


def by_name(name, attributes):
    if name.endswith(".ipynb"):
        raise Wrong("%s is a notebook: call dl_doctor.check(loader) in it, or name a .py file" % name)
    if os.sep in name or name.startswith("."):
        file = name + ".py"
        hint = "write %s:%s" % (file, attributes) if os.path.isfile(file) else "write path/file.py:name or package.module:name"
        raise Wrong("%s is neither a module nor a .py file: %s" % (name, hint))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not error.name or not (name == error.name or name.startswith(error.name + ".")):
            raise
        searched = ", ".join([os.getcwd()] + [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry])
        close = did_you_mean(name, [file[: -len(".py")] for file in listing(os.getcwd()) if file.endswith(".py")])
        raise Wrong(
            "there is no module %s in %s, nor installed for %s%s" % (error.name, searched, sys.executable, close)
        ) from None


def listing(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def suggestion(found, name):
    names = (
        [each for each, value in vars(found).items() if not each.startswith("_") and not inspect.ismodule(value)]
        if hasattr(found, "__dict__")
        else []
    )
    own = [
        each for each in names if getattr(getattr(found, each), "__module__", None) == getattr(found, "__name__", None)
    ] or names
    close = did_you_mean(name, names)
    return close or ("; it has " + ", ".join(sorted(own)[:MOST_NAMES]) if own else "")


def did_you_mean(name, names):
    close = difflib.get_close_matches(name, names, n=1)
    return "; did you mean %s?" % close[0] if close else ""


def inner(found):
    """The function below functools.partial, or what a callable object is called by."""
    while isinstance(found, functools.partial):
        found = found.func
    return found if inspect.isroutine(found) or inspect.isclass(found) else type(found).__call__


def required(found):
    """Names of arguments that it cannot be called without."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return []
    given = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in given]


def listed(names):
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def wrapper(found, needed):
    """The function to write around what needs arguments."""
    name = getattr(found, "__qualname__", None) or type(found).__name__
    return "def make_data(): return %s(%s)" % (name, ", ".join("%s=..." % each for each in needed))


def looks_like_data(found):
    """An object, not a class, that gives samples or makes loaders."""
    return not inspect.isclass(found) and (hasattr(found, "__getitem__") or hasattr(found, "__iter__") or makes_loaders(found))


def unwrapped(found, spec, torch, step):
    """The dataset or the loader in what a user has, and what was taken out of what on the way.

    A Lightning DataModule, a dict of splits, several loaders, a loader of WebDataset: each may hold the next.
    """
    choices = []
    for _ in range(8):
        inside = opened_up(found, spec, torch, step)
        if inside is None:
            break
        found, choice = inside
        choices.append(choice)
    refuse(found, " ".join([spec, *choices]))
    return found, choices


def makes_loaders(found):
    """Whether it has the method itself: an object may answer to any name."""
    return not inspect.isclass(found) and has_itself(found, "train_dataloader")


def has_itself(found, name):
    return inspect.getattr_static(found, name, None) is not None


def opened_up(found, spec, torch, step):
    """What lies in this and how it was come by; None where it is what is looked for."""
    if makes_loaders(found):
        return of_a_module(found, spec, step), "train_dataloader()"
    if is_kind(found, "CombinedLoader") and hasattr(found, "iterables"):
        return found.iterables, "iterables"
    if is_kind(found, "WebLoader") and getattr(found, "pipeline", None):
        return found.pipeline[0], "pipeline[0]"
    if isinstance(found, dict) and found and all(isinstance(key, str) for key in found):
        inside = [key for key in found if holds_data(found[key], torch)]
        first = inside[0] if len(inside) == len(found) else None
        key = "train" if looks_like_data(found.get("train")) else first
        return None if key is None else (found[key], "[%r] of %s" % (key, ", ".join(map(repr, found))))
    if isinstance(found, (list, tuple)):
        inside = [index for index, item in enumerate(found[:16]) if holds_data(item, torch)]
        if inside and (len(inside) == len(found) or isinstance(found, tuple)):
            return found[inside[0]], "[%d] of %d" % (inside[0], len(found))
    return None


def of_a_module(module, spec, step):
    """The training loader of a LightningDataModule. `prepare_data` is not called: it downloads."""
    try:
        if has_itself(module, "setup"):
            step("call %s.setup('fit')" % spec)
            module.setup(*(["fit"] if takes_one(module.setup) else []))
        step("call %s.train_dataloader()" % spec)
        return module.train_dataloader()
    except AttributeError as error:
        if "'NoneType' object has no attribute" in str(error) and getattr(module, "trainer", 0) is None:
            raise Wrong(
                "%s uses self.trainer, which only a Trainer sets (%s): name a function that makes the loader without it"
                % (spec, error)
            ) from None
        raise


def takes_one(function):
    try:
        inspect.signature(function).bind("fit")
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def is_kind(value, name):
    return any(kind.__name__ == name for kind in type(value).__mro__)


def holds_data(value, torch):
    """Whether it is a dataset or a loader for itself, not a sample: a list of samples is a dataset, a list of these is not."""
    if torch and isinstance(value, (torch.utils.data.Dataset, torch.utils.data.DataLoader)):
        return True
    if torch and isinstance(value, torch.Tensor):
        return False
    if hasattr(value, "features") and hasattr(value, "column_names"):  # of Hugging Face
        return True
    by_number = hasattr(value, "__getitem__") or isinstance(value, (set, frozenset))
    return hasattr(value, "__iter__") and hasattr(value, "__len__") and not by_number  # a loader of another library


def refuse(found, spec):
    """Raise Wrong of what gives no samples to a DataLoader."""
    if isinstance(found, ONCE_ONLY) or is_kind(found, "_BaseDataLoaderIter"):
        raise Wrong(
            "%s is %s, which is empty after one epoch and cannot be sent to a worker: "
            "write a subclass of torch.utils.data.IterableDataset, whose __iter__ begins anew each time"
            % (spec, described(found))
        )
    if isinstance(found, dict) and found and 0 not in found:
        raise Wrong(
            "%s is a dict with the keys %s, and a DataLoader asks for samples by their numbers from 0: name a Dataset"
            % (spec, ", ".join(map(repr, list(found)[:MOST_NAMES])))
        )
    if inspect.iscoroutine(found):
        found.close()
    if isinstance(found, (str, bytes, set, frozenset)) or not looks_like_data(found):
        raise Wrong("%s is no Dataset and no DataLoader, but %s" % (spec, described(found)))


def described(value):
    if value is None:
        return "nothing (None): does it `return` what it makes?"
    if inspect.isclass(value):
        return "the class %s itself: give an object of it, %s(...)" % (value.__name__, value.__name__)
    if inspect.isroutine(value):
        return "a function (%s)" % value.__name__
    name = type(value).__name__
    return ("an " if name[0].lower() in "aeiou" else "a ") + name


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
        "dataset_has_set_epoch": callable(getattr(loader.dataset, "set_epoch", None)),
    }


class Parcel:
    """What of an object goes through shared memory and what through a pipe, as torch's reductions have it; nothing is moved."""

    def __init__(self, thing, most_bytes, starting):
        self.storages = {}  # type: dict[int, int]
        """Bytes of each storage of CPU memory, whole however small the tensors are that show a part of it; by its address."""

        self.used = {}  # type: dict[int, int]
        """Bytes of the tensors that each is shown by."""

        self.stream_bytes = 0
        self.error = None  # type: BaseException | None
        self._most_bytes = most_bytes
        pickler = multiprocessing.reduction.ForkingPickler(self)
        ours = {}
        for kind, reduce in list(pickler.dispatch_table.items()):
            if getattr(reduce, "__name__", "") == "reduce_storage":
                ours[kind] = self._storage
            elif getattr(reduce, "__name__", "") == "reduce_tensor":
                ours[kind] = self._tensor(reduce)
        pickler.dispatch_table = {**pickler.dispatch_table, **ours}
        if starting:
            multiprocessing.context.set_spawning_popen(NoChild())  # type: ignore[arg-type]
        try:
            pickler.dump(thing)
        except Exception as error:  # noqa: BLE001 (the caller's to judge)
            self.error = error
        finally:
            multiprocessing.context.set_spawning_popen(None)

    def write(self, piece):
        """Of a file, for the pickler."""
        self.stream_bytes += memoryview(piece).nbytes
        if self.stream_bytes > self._most_bytes:
            raise TooLarge

    def _storage(self, storage):
        if storage.device.type == "cpu" and storage.nbytes():
            self.storages[storage.data_ptr()] = storage.nbytes()
        return type(None), ()

    def _tensor(self, reduce):
        def reduced(tensor):
            if str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu":
                place = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
                self.used[place] = self.used.get(place, 0) + tensor.numel() * tensor.element_size()
            return reduce(tensor)

        return reduced

    @property
    def shared_bytes(self):
        """Of /dev/shm: each storage is a file of whole pages."""
        return self.bytes_of(self.storages)

    def bytes_of(self, places):
        """The same for the storages at some of the addresses."""
        return sum(-(-self.storages[place] // PAGE_BYTES) * PAGE_BYTES for place in places)


class TooLarge(Exception):
    """A pickle is larger than we look at."""


class NoChild:
    """Stands for the process that is being started while something is pickled for it."""

    def duplicate_for_child(self, descriptor):
        return descriptor

    def DupFd(self, descriptor):  # noqa: N802 (multiprocessing's name)
        return descriptor


def rank_aware(loader):
    """Whether one of its parts has what torch's DistributedSampler and Accelerate's loaders and samplers have."""
    parts = [loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
    parts += [getattr(part, "sampler", None) for part in parts[1:]]
    names = ("num_replicas", "num_processes", "process_index", "world_size")
    return any(hasattr(part, name) for part in parts for name in names) or type(loader).__module__.startswith("accelerate.")


class TookTooLong(BaseException):
    """Raised in the job's code where it waits or computes; `except Exception` of the job's does not catch it."""

    def __init__(self, seconds, cpu_s, stack):
        super().__init__("it did not come back within %g s" % seconds)
        self.cpu_s = cpu_s
        self.stack = stack


def cpu_s():
    """Seconds of CPU that this process and its children have used."""
    ticks, me = 0, str(os.getpid())
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % number) as file:
                fields = file.read().rpartition(") ")[2].split()
        except OSError:  # it has ended
            continue
        if me in (number, fields[1]):
            ticks += sum(map(int, fields[11:15]))  # its own, and of children that it has waited for
    return ticks / os.sysconf("SC_CLK_TCK")


class Loaded:
    """The user's dataset, and the loader where there is one, with what probes do with them."""

    def __init__(self, found, torch, spec):
        self.torch = torch
        self.spec = spec
        self.loader = found if torch and isinstance(found, torch.utils.data.DataLoader) else None
        self.dataset = found if self.loader is None else self.loader.dataset
        self.clock_s = monotonic
        self.TookTooLong = TookTooLong
        self.watch_shared_memory = watch_shared_memory
        self._folder = own_folder()
        self.reading = []  # type: list[object]
        """The indices of what is being read, or was last."""

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
            "arguments": None if self.loader is None else arguments_of(self.loader, self.torch.utils.data),
        }

    def be_worker(self, number, workers):
        """Make this process a worker of torch: its one thread, its seeds, its worker_info, and worker_init_fn is called."""
        worker = self.torch.utils.data._utils.worker
        self.torch.set_num_threads(1)
        random.seed(BASE_SEED + number)
        self.torch.manual_seed(BASE_SEED + number)
        if hasattr(worker, "_generate_state") and imported("numpy"):  # torch before 1.9 does not seed NumPy
            imported("numpy").random.seed(worker._generate_state(BASE_SEED, number))
        worker._worker_info = worker.WorkerInfo(id=number, num_workers=workers, seed=BASE_SEED + number, dataset=self.dataset)
        if self.loader is not None and self.loader.worker_init_fn is not None:
            self.loader.worker_init_fn(number)

    def spare_shared_memory(self):
        """Have default_collate allocate its batches privately from now on, where a worker's are in /dev/shm."""
        for kind in self.torch._storage_classes:
            if kind.__name__.endswith("UntypedStorage"):
                kind._new_shared = classmethod(lambda cls, size, **_: cls(size))

    def read(self, indices):
        """Samples of a map-style dataset, as torch fetches them."""
        self.reading = indices
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(indices)
        samples = []
        for index in indices:
            self.reading = [index]
            samples.append(self.dataset[index])
        return samples

    @contextlib.contextmanager
    def patience(self, seconds):
        """Have TookTooLong raised in what runs inside, if it is still there after that."""
        begin = cpu_s()

        def give_up(_, frame):
            raise TookTooLong(seconds, cpu_s() - begin, "".join(traceback.format_stack(frame)))

        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def trouble(self, stage, indices, error):
        """What facts/trouble.py says of an exception, which may be TookTooLong."""
        late = isinstance(error, TookTooLong)
        return {
            "stage": stage,
            "indices": [str(index) for index in indices],
            "error": str(error) if late else "%s: %s" % (type(error).__name__, error),
            "trace": (error.stack if late else "".join(traceback.format_tb(error.__traceback__)))[-4000:],
            "cpu_s": error.cpu_s if late else None,
        }

    def weigh(self, thing, most_bytes, starting=False):
        """A Parcel of what is handed to another process; `starting`: to a worker that is being started."""
        return Parcel(thing, most_bytes, starting)

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
        folder = own_folder()
        if folder not in (None, self._folder):
            shutil.rmtree(folder, ignore_errors=True)  # where a fork server listened; a probe does not end as Python does


def own_folder():
    """Where multiprocessing has its sockets; None where it needed none yet."""
    return multiprocessing.process.current_process()._config.get("tempdir")  # type: ignore[attr-defined]
