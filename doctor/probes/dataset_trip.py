"""Send the dataset to workers as torch's DataLoader does: weigh its pickle, then have a real child of each method receive it.

Sampler and generator stay in the main process and never travel.
"""

import inspect
import io
import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import multiprocessing.synchronize
import multiprocessing.util
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from multiprocessing.reduction import ForkingPickler

MOST_OBJECTS = 2000000
"""Looked at for the one that cannot be pickled; about 2 microseconds each."""

MOST_SECONDS = 8
"""Of pickling, without keeping anything of it."""

CHILD = "writer.send(True)"


def probe(arguments, step, loaded):
    """`methods` to try, the first as the job does; `allowed_bytes` of memory, `child_bytes` that one
    that starts anew takes of it for torch, `patience_s` for each child.

    Gives the weight of the pickle, what in it cannot travel and why, and how each trip ended.
    """
    loader = loaded.loader
    parts = {
        "dataset": loaded.dataset,
        "collate_fn": loaded.collate_fn,
        "worker_init_fn": loader.worker_init_fn if loader is not None else None,
    }
    share = arguments["allowed_bytes"] // 2  # one half for this process, one for the child
    loaded.limit_memory(share)
    if arguments["methods"][0] == "fork":
        # Locks of multiprocessing are made for fork then, and would be made for another method if that were the default.
        multiprocessing.synchronize.SemLock.__reduce__ = lambda _: (threading.Lock, ())  # type: ignore[method-assign,assignment]
    step("pickle the dataset")
    scale = Scale(share)
    told = {"error": weigh(parts.values(), scale, loaded.torch), "culprit": None, "heaviest": None, "trips": []}
    told.update(pickle_bytes=scale.bytes, storage_bytes=sum(scale.storages.values()), stopped=scale.stopped)
    told["heaviest"] = heaviest(loaded.dataset, scale, loaded.torch)
    if told["error"]:
        step("look for what cannot be pickled")
        told["culprit"] = culprit(parts, loaded.torch)
    told["not_tried"] = reason = too_large(scale, share, arguments["child_bytes"])
    signal.signal(signal.SIGALRM, out_of_patience)
    for method in arguments["methods"]:
        if reason and method != "fork":
            continue
        step("send the dataset to a child by %s" % method)
        trip = sent(method, parts, arguments["patience_s"])
        if trip["where"] == "child" and trip["error"] and not told["culprit"]:
            told["culprit"] = culprit(parts, loaded.torch, missing_in(trip["error"]))
        told["trips"].append(trip)
    return told


def too_large(scale, share, child_bytes):
    """Why a real child is better not tried: the pickle is kept in memory and the tensors move to /dev/shm."""
    if scale.stopped:
        return scale.stopped
    if scale.on_device:
        return "device"
    if child_bytes > 2 * share:
        return "child"
    room = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    free = min(share, room.f_bavail * room.f_frsize // 2) if room else share
    return "storages" if sum(scale.storages.values()) > free else None


class Scale:
    """A file that keeps nothing of what is written and counts it."""

    def __init__(self, most_bytes, most_seconds=MOST_SECONDS):
        self.most_bytes = most_bytes
        self.end = time.monotonic() + most_seconds
        self.bytes = 0
        self.storages = {}
        self.on_device = False
        self.stopped = None

    def write(self, piece):
        self.add(memoryview(piece).nbytes)

    def add(self, size):
        self.bytes += size
        if self.bytes > self.most_bytes:
            self.stopped = "size"
        elif time.monotonic() > self.end:
            self.stopped = "time"
        if self.stopped:
            raise Enough


class Enough(Exception):
    pass


class Found(Exception):
    pass


class Starting:
    """Stands for a child that is being started: locks and pipes of multiprocessing are pickled for no other purpose."""

    DupFd = int

    def duplicate_for_child(self, descriptor):
        return descriptor


def weigh(values, scale, torch):
    """Pickle them all as for a child; gives the exception in words, None where there was none or enough was seen."""

    class Weighing(ForkingPickler):
        def reducer_override(self, value):
            return stand_in(value, scale, torch)

    multiprocessing.context.set_spawning_popen(Starting())  # type: ignore[arg-type]
    try:
        for value in values:
            Weighing(scale).dump(value)
    except Enough:
        pass
    except MemoryError:
        scale.stopped = "memory"
    except BaseException as error:  # noqa: BLE001 (it is the answer)
        if scale.stopped is None:
            return in_words(error)
    finally:
        multiprocessing.context.set_spawning_popen(None)
    return None


def in_words(error):
    return "%s: %s" % (type(error).__name__, error)


def stand_in(value, scale, torch):
    """Count tensors, which travel beside the pickle, and arrays, without copying them; all else is pickled as it is."""
    if torch and isinstance(value, torch.Tensor):
        if value.device.type not in ("cpu", "meta"):
            scale.on_device = True
            return int, ()
        if value.requires_grad and not value.is_leaf:
            return NotImplemented  # torch refuses these
        try:
            storage = value.untyped_storage()
            scale.storages[storage.data_ptr()] = storage.nbytes()
        except (AttributeError, NotImplementedError, RuntimeError):  # sparse and the like: torch's own way
            return NotImplemented
        return int, ()
    numpy = sys.modules.get("numpy")
    if numpy and type(value) in (numpy.ndarray, numpy.memmap) and not value.dtype.hasobject:
        scale.add(value.nbytes)  # of a memmap too: its pickle holds the whole content
        return int, ()
    return NotImplemented


def heaviest(dataset, scale, torch):
    """The attribute with most of the weight, where there is much."""
    if scale.bytes + sum(scale.storages.values()) < 16 << 20:
        return None
    best = None
    for name, value in attributes(dataset):
        own = Scale(scale.most_bytes, 2)
        weigh([value], own, torch)
        weight = own.bytes + sum(own.storages.values())
        if best is None or weight > best["bytes"]:
            best = {"path": "dataset." + name, "type": full_name(type(value)), "bytes": weight}
    return best


class Tracer(pickle._Pickler):
    """Pickles in Python, slowly, and knows on which way it is."""

    def __init__(self, scale, torch, wanted):
        super().__init__(scale)
        self.dispatch_table = ForkingPickler(io.BytesIO()).dispatch_table
        self.way = []
        self.seen = 0
        self.wanted = wanted
        self.reducer_override = lambda value: stand_in(value, scale, torch)  # type: ignore[method-assign]

    def save(self, value, *rest, **more):
        self.seen += 1
        if self.seen > MOST_OBJECTS:
            raise Enough
        self.way.append(value)
        if self.wanted and self.wanted(value):
            raise Found
        super().save(value, *rest, **more)  # type: ignore[misc]
        self.way.pop()


def culprit(parts, torch, wanted=None):
    """What raises when it is pickled, or the first that is wanted: its path, type, name and where it is defined."""
    multiprocessing.context.set_spawning_popen(Starting())  # type: ignore[arg-type]
    try:
        for name, value in parts.items():
            tracer = Tracer(Scale(1 << 62), torch, wanted)
            try:
                tracer.dump(value)
            except (Enough, RecursionError, MemoryError):
                return None
            except BaseException:  # noqa: BLE001 (known already)
                return described(name, tracer.way)
    finally:
        multiprocessing.context.set_spawning_popen(None)
    return None


def missing_in(error):
    """What a child did not find, by its exception: a class or function, or all of a module."""
    attributes = re.findall(r"(?:Can't get attribute|has no attribute) '([^']+)'", error)
    modules = [name.split(".")[0] for name in re.findall(r"No module named '([^']+)'", error)]

    def wanted(value):
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            return False
        module = (getattr(value, "__module__", None) or "").split(".")[0]
        return getattr(value, "__qualname__", None) in attributes or module in modules

    return wanted


def described(name, way):
    value = way[-1]
    kind = value if inspect.isclass(value) else type(value)
    return {
        "path": path_along(name, way),
        "type": "class" if inspect.isclass(value) else full_name(kind),
        "name": getattr(value, "__qualname__", None) if inspect.isclass(value) or inspect.isroutine(value) else None,
        "module": getattr(value, "__module__", None) if inspect.isclass(value) or inspect.isroutine(value) else None,
        "line": line_of(value),
    }


def full_name(kind):
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)


def line_of(value):
    """`train.py:12`, where a function or class is defined."""
    code = getattr(value, "__code__", None)
    if code is not None:
        return "%s:%d" % (code.co_filename, code.co_firstlineno)
    if not inspect.isclass(value):
        return None
    codes = [member.__code__ for member in vars(value).values() if inspect.isfunction(member)]
    return "%s:%d" % (codes[0].co_filename, min(code.co_firstlineno for code in codes)) if codes else None


def path_along(path, way):
    """`dataset.transform.transforms[2].fn`. What pickle makes on its way (state, arguments) has no part in it."""
    owner = way[0]
    made = []  # type: list[object]
    for value in way[1:]:
        step = step_to(owner, value)
        if not step:
            step = next(filter(None, (step_to(box, value, state=True) for box in reversed(made))), "")
        if step:
            path, owner, made = path + step, value, []
        else:
            made.append(value)
    return path


def step_to(owner, value, state=False):
    """How one leads to the other: an index, a key or an attribute; empty where it does not."""
    if isinstance(owner, dict):
        for key, held in dict.items(owner):
            if held is value:
                return ".%s" % key if state and isinstance(key, str) and key.isidentifier() else "[%.80r]" % (key,)
    if isinstance(owner, (list, tuple)) and not state:
        for index, held in enumerate(owner):
            if held is value:
                return "[%d]" % index
    for name, held in attributes(owner):
        if held is value:
            return "." + name
    return ""


def attributes(value):
    """What an object holds, by name, without running code of its class."""
    try:
        held = list(object.__getattribute__(value, "__dict__").items())
    except (AttributeError, TypeError):
        held = []
    if inspect.isclass(value):
        return []
    names = [name for kind in type(value).__mro__ for name in slots(kind)]
    if type(value).__module__ in ("functools", "builtins"):
        names += ["func", "args", "keywords", "__self__"]
    for name in names:
        try:
            held.append((name, object.__getattribute__(value, name)))
        except AttributeError:
            continue
    return held


def slots(kind):
    names = kind.__dict__.get("__slots__", ())
    return [names] if isinstance(names, str) else [name for name in names if name not in ("__dict__", "__weakref__")]


class OutOfPatience(Exception):
    pass


def out_of_patience(*_):
    raise OutOfPatience


def sent(method, parts, patience_s):
    """How a trip ended: `where` it failed, in the parent (pickling, starting) or in the child."""
    told = {"method": method, "how": "answered", "where": None, "error": None, "exit_code": None, "printed": ""}
    begin = time.monotonic()
    with Overheard() as overheard:
        child = None
        signal.alarm(patience_s)
        try:
            context = multiprocessing.get_context(method)
            reader, writer = context.Pipe(duplex=False)
            child = context.Process(target=exec, args=(CHILD, dict(parts, writer=writer)), daemon=True)
            start(child, method)
            writer.close()
            multiprocessing.connection.wait([reader, child.sentinel])
            answered = received(reader)
            child.join()
            if not answered:
                told.update(how="exited", where="child", exit_code=child.exitcode)
        except OutOfPatience:
            told.update(how="hung", where="child")
        except (BrokenPipeError, ConnectionError, EOFError):  # it died before it had read all
            told.update(how="exited", where="child", exit_code=1)
            overheard.wait()
        except Exception as error:  # noqa: BLE001 (it is the answer)
            told.update(how="raised", where="parent", error=in_words(error))
        finally:
            signal.alarm(0)
            if child is not None and getattr(child, "_popen", None) is not None:
                child.kill()
        text = overheard.text()
    if told["where"] == "child":
        told.update(printed=text[-4000:], error=last_error(text))
    return dict(told, duration_s=round(time.monotonic() - begin, 6))


def received(reader):
    try:
        return reader.poll() and reader.recv() is True
    except EOFError:
        return False


def start(child, method):
    if method != "forkserver":
        return child.start()
    folder = multiprocessing.util.get_temp_dir()  # for its socket, which nobody needs when it has started
    try:
        return child.start()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Overheard:
    """Standard error of this process and of the children that it starts, kept in a file without a name."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile() if not hasattr(os, "memfd_create") else os.fdopen(os.memfd_create("said"), "w+b")
        self.kept = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def wait(self):
        """Until a traceback is whole, for a moment."""
        end = time.monotonic() + 2
        while time.monotonic() < end and not last_error(self.text()):
            time.sleep(0.02)

    def text(self):
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), 65536, max(size - 65536, 0)).decode("utf-8", "replace")

    def __exit__(self, *_):
        os.dup2(self.kept, 2)
        os.close(self.kept)
        self.file.close()


def last_error(text):
    """The last line of a traceback, such as `AttributeError: Can't get attribute 'Data'`."""
    lines = [line for line in text.splitlines() if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return lines[-1][:500] if lines else None
