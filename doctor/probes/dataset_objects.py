"""Walk over what is reachable from the dataset: open handles, tensors on a GPU, and how many Python objects there are.

No code of the dataset's classes is run: attributes are read from where the interpreter keeps them. Modules, classes, loggers and
threads are not entered.
"""

import collections
import logging
import os
import re
import stat
import sys
import threading
import time
import types

from .attributes import attributes, full_name

MOST_SECONDS = 8
MOST_OBJECTS = 400000
SAMPLED = 1000
"""Of a container with ten times as many elements or more, so many at even distances stand for all."""

HANDLES = (
    # where the type is from (py-lmdb's names no module), its name (None: any), and what workers would share of it
    ("h5py", "File Dataset Group FileID", "h5py"),
    ("tables", "File Table EArray CArray VLArray", "h5py"),
    ("netCDF4", "Dataset Variable", "h5py"),
    ("lmdb", "Environment Transaction", "lmdb"),
    ("builtins", "Environment Transaction Cursor", "lmdb"),
    ("sqlite3", "Connection Cursor", "sqlite"),
    ("_io", "FileIO BufferedReader BufferedRandom TextIOWrapper", "file"),
    ("zipfile", "ZipFile", "file"),
    ("tarfile", "TarFile", "file"),
    ("psycopg2", "connection", "connection"),
    ("pymysql", "Connection", "connection"),
    ("redis", "Redis", "connection"),
    ("pymongo", "MongoClient", "connection"),
    ("socket", "socket", "connection"),
    ("cv2", "VideoCapture", "file"),
    ("av", "InputContainer", "file"),
    ("decord", "VideoReader", "file"),
)

PAGE_BYTES = 4096

NAMES_A_DESCRIPTOR = re.compile(r"(fd|fds|fileno|descriptor|handle|file)\d*(\[|$)", re.IGNORECASE)

LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None))
CONTAINERS = (list, tuple, set, frozenset, collections.deque)
CLOSED_TO_US = (type, types.ModuleType, logging.Logger, logging.Handler, threading.Thread, types.CodeType)


def probe(arguments, step, loaded):
    """`allowed_bytes` is what the walk may take of memory."""
    loaded.limit_memory(arguments["allowed_bytes"])
    step("look at what the dataset holds")
    walk = Walk(loaded.torch)
    walk.over({"dataset": loaded.dataset, "collate_fn": loaded.collate_fn})
    return walk.told()


class Walk:
    def __init__(self, torch):
        self.torch = torch
        self.numpy = sys.modules.get("numpy")
        self.end = time.monotonic() + MOST_SECONDS
        self.seen = set()
        self.kept = []  # so that an address in `seen` belongs to one object only
        self.handles = []
        self.numbers = regular_files()
        self.on_gpu = []
        self.whole = True
        self.count = 0.0
        self.bytes = 0.0
        self.by_attribute = collections.Counter()  # type: collections.Counter[str]
        self.kinds = {}

    def over(self, roots):
        ways = collections.deque((value, name, 1.0) for name, value in roots.items())
        while ways:
            value, way, weight = ways.popleft()
            if len(self.seen) > MOST_OBJECTS or time.monotonic() > self.end:
                self.whole = False
                return
            if type(value) is int and value in self.numbers:  # every small number is one and the same object
                self.note_descriptor(value, way)
            if id(value) in self.seen:
                continue
            self.seen.add(id(value))
            self.kept.append(value)
            if is_a(value, CLOSED_TO_US):
                continue
            self.weigh(value, way, weight)
            if not is_a(value, LEAVES) and not self.is_leaf(value, way):
                ways.extend(self.inside(value, way, weight))

    def note_descriptor(self, number, way):
        """One that os.open gave, by the name that it has."""
        path = shown(way)
        if NAMES_A_DESCRIPTOR.search(path.rpartition(".")[2]):
            known = {"path": path, "type": "int", "kind": "file", "file": self.numbers.pop(number), "descriptor": number}
            self.handles.append(known)

    def weigh(self, value, way, weight):
        """What reading it makes a worker's own: the page with its reference count, or as much of that as it takes."""
        size = min(size_of(value), PAGE_BYTES)
        self.count += weight
        self.bytes += weight * size
        self.by_attribute[attribute_of(way)] += weight * size

    def is_leaf(self, value, way):
        """Take down what is not entered: handles, tensors, arrays of numbers."""
        kind = type(value)
        if kind not in self.kinds:
            self.kinds[kind] = handle_kind(kind)
        if self.kinds[kind]:
            if is_open(value, self.kinds[kind]):
                self.handles.append(
                    {
                        "path": shown(way),
                        "type": full_name(kind),
                        "kind": self.kinds[kind],
                        "file": path_of(value),
                        "descriptor": descriptor_of(value) if self.kinds[kind] == "file" else None,
                    }
                )
            return True
        if (self.torch and is_a(value, self.torch.Tensor)) or looks_like_tensor(value):
            if getattr(getattr(value, "device", None), "type", None) == "cuda":
                self.on_gpu.append(shown(way))
            return True
        return bool(self.numpy and is_a(value, self.numpy.ndarray) and not value.dtype.hasobject)

    def inside(self, value, way, weight):
        """What it refers to, with the way there and for how many objects each stands."""
        if is_a(value, dict):
            keys, values = list(dict.keys(value)), list(dict.values(value))
            stride = stride_over(keys)
            keys, values = keys[::stride], values[::stride]
            found = [(key, (way, " (a key)"), weight * share(keys, stride)) for key in keys]
            return found + [(held, (way, "[%.60r]" % (key,)), weight * share(values, stride)) for key, held in zip(keys, values)]
        elements = elements_of(value, self.numpy)
        stride = stride_over(elements)
        chosen = elements[::stride]
        each = weight * share(chosen, stride)
        found = [(held, (way, "[%d]" % (index * stride)), each) for index, held in enumerate(chosen)]
        return found + [(held, (way, "." + name), weight) for name, held in attributes(value)]

    def told(self):
        heaviest = self.by_attribute.most_common(1)
        return {
            "handles": self.handles[:50],
            "on_gpu": self.on_gpu[:50],
            "objects": int(self.count),
            "object_bytes": int(self.bytes),
            "whole": self.whole,
            "heaviest": {"path": heaviest[0][0], "bytes": int(heaviest[0][1])} if heaviest else None,
        }


def stride_over(elements):
    return len(elements) // SAMPLED if len(elements) >= 10 * SAMPLED else 1


def share(chosen, stride):
    """For how many objects each one that was chosen stands: for itself alone where many are the same object."""
    return stride if len({id(one) for one in chosen}) > len(chosen) // 2 else 1


def attribute_of(way):
    """`dataset.names` of all that lies below it."""
    parts = []
    while isinstance(way, tuple):
        way, part = way
        parts.append(part)
    return way + (parts[-1] if parts else "")


def shown(way):
    parts = []
    while isinstance(way, tuple):
        way, part = way
        parts.append(part)
    return way + "".join(reversed(parts))


def is_a(value, kinds):
    """isinstance, which would ask the object for its `__class__`, and so its code."""
    return issubclass(type(value), kinds)


def size_of(value):
    """Of what Python has built itself; an object of a user's class is asked by `object` alone."""
    if type(value) in (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, collections.deque):
        return sys.getsizeof(value)
    return object.__sizeof__(value) + 16


def handle_kind(kind):
    """What stands in HANDLES for a type or one that it is derived from."""
    for base in kind.__mro__:
        for place, names, what in HANDLES:
            if (base.__module__ or "").split(".")[0] == place and base.__name__ in names.split():
                return what
    return None


def is_open(value, kind):
    """Whether it is open for reading; what cannot be told is."""
    try:
        if kind == "file" and hasattr(value, "fileno"):
            number = value.fileno()
            return number > 2 and (not hasattr(value, "readable") or value.readable())
        if kind == "file" and (hasattr(value, "fp") or hasattr(value, "fileobj")):
            return descriptor_of(value) is not None  # an archive in memory is none
        if kind == "h5py" and hasattr(value, "id"):
            return bool(value)
    except (OSError, ValueError):
        return False
    return True


def descriptor_of(value):
    """Its number; of an archive that of the file below it."""
    for name in ("fp", "fileobj"):
        value = getattr(value, name, None) or value
    try:
        return value.fileno()
    except (AttributeError, OSError, ValueError):  # io.UnsupportedOperation is one of these
        return None


def regular_files():
    """Paths of regular files that are open here, by their descriptors."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and stat.S_ISREG(os.fstat(int(name)).st_mode):
                found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:  # the descriptor of the listing
            continue
    return found


def path_of(value):
    """The file that it reads, where that is easily told."""
    for name in ("filename", "name", "path"):
        try:
            found = getattr(value, name, None)
            if name == "name" and type(value).__module__.startswith("h5py"):
                found = value.file.filename
            if callable(found):
                found = found()
        except Exception:  # noqa: BLE001 (a closed or odd one tells nothing)
            continue
        if isinstance(found, bytes):
            found = os.fsdecode(found)
        if isinstance(found, str) and found:
            return found
    return None


def looks_like_tensor(value):
    """Whether it looks like a tensor of some library."""
    kind = type(value)
    return "is_cuda" in vars(kind) and "device" in vars(kind)


def elements_of(value, numpy):
    """The elements of a container that Python or NumPy has built."""
    if is_a(value, CONTAINERS):
        kind = next(kind for kind in CONTAINERS if is_a(value, kind))
        return list(kind.__iter__(value))
    return numpy.asarray(value).ravel().tolist() if numpy and is_a(value, numpy.ndarray) else []
