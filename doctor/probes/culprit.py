"""Which part of an object cannot be pickled, for other probes."""

import inspect
import pickle
import re

from .attributes import attributes, full_name
from .parcel import Parcel

MOST_OBJECTS = 2000000
"""Looked at for the one that cannot be pickled; about 2 microseconds each."""

MOST_SECONDS = 8


class Found(Exception):
    pass


class TooMany(Exception):
    pass


class Tracer(pickle._Pickler):
    """Pickles in Python, slowly, and knows on which way it is."""

    def __init__(self, parcel, wanted):
        super().__init__(parcel)
        self.dispatch_table = parcel.reductions()
        self.reducer_override = parcel.reduce  # type: ignore[method-assign]
        self.way = []
        self.seen = 0
        self.wanted = wanted

    def save(self, value, *rest, **more):
        self.seen += 1
        if self.seen > MOST_OBJECTS:
            raise TooMany
        self.way.append(value)
        if self.wanted and self.wanted(value):
            raise Found
        super().save(value, *rest, **more)  # type: ignore[misc]
        self.way.pop()


def culprit(parts, wanted=None):
    """What raises when it is pickled, or the first that is wanted: its path, type, name and where it is defined."""
    for name, value in parts.items():
        tracers = []

        def tracer(parcel):
            tracers.append(Tracer(parcel, wanted))  # noqa: B023 (it is called at once)
            return tracers[0]  # noqa: B023

        error = Parcel(value, 1 << 62, starting=True, most_seconds=MOST_SECONDS, pickler=tracer).error
        if isinstance(error, (TooMany, RecursionError, MemoryError)):
            return None
        if error is not None:
            return described(name, tracers[0].way)
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
