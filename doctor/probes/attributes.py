"""What an object holds, without running code of its class, for other probes."""

import types


def attributes(value):
    """What it holds, with the name of each."""
    kind = type(value)
    if issubclass(kind, type):
        return []
    if issubclass(kind, types.FunctionType):
        return [*closure(value), ("__defaults__", value.__defaults__ or ())]
    if issubclass(kind, types.MethodType):
        return [("__self__", value.__self__), ("__func__", value.__func__)]
    try:
        held = list(object.__getattribute__(value, "__dict__").items())
    except (AttributeError, TypeError):
        held = []
    names = [name for base in kind.__mro__ for name in slots(base)]
    if kind.__module__ == "functools":
        names += ["func", "args", "keywords"]
    elif issubclass(kind, (types.BuiltinMethodType, BaseException)):
        names += ["__self__", "args"]
    for name in names:
        try:
            held.append((name, object.__getattribute__(value, name)))
        except AttributeError:
            continue
    return held


def closure(function):
    held = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            held.append(("<closure>.%s" % name, cell.cell_contents))
        except ValueError:  # not set yet
            continue
    return held


def slots(kind):
    names = kind.__dict__.get("__slots__", ())
    return [names] if isinstance(names, str) else [name for name in names if name not in ("__dict__", "__weakref__")]


def full_name(kind):
    """Of a type."""
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)
