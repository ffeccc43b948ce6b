"""What a specification leads to, or what is wrong with it and what to write instead, for other probes."""

import ast
import difflib
import functools
import importlib
import inspect
import io
import itertools
import os
import sys
import types

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


class Wrong(Exception):
    """What is named cannot be examined; the message says why and what to write instead."""


def named(spec, step):
    """What a spec stands for, and whether it had to be called."""
    place, _, attributes = spec.rpartition(":")
    step("import " + place)
    file = file_of(spec)
    module = by_path(file, attributes) if file else by_name(place, attributes)
    step("look up " + spec)
    found = module
    path = place
    for name in attributes.split("."):
        if not hasattr(found, name):
            if found is module and name in below_the_guard(module):
                raise Wrong(
                    '%s defines `%s` below `if __name__ == "__main__":`, where an import does not find it, and no worker that is '
                    "spawned would: move it above" % (path, name)
                )
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


def below_the_guard(module):
    """Names of classes, functions and variables that a module has only when it is the program."""
    try:
        with open(module.__file__, "rb") as file:
            tree = ast.parse(file.read())
    except (AttributeError, TypeError, OSError, SyntaxError, ValueError):
        return set()
    names = set()  # type: set[str]
    for guard in tree.body:
        if isinstance(guard, ast.If) and "__name__" in ast.dump(guard.test):
            for node in ast.walk(ast.Module(guard.body, [])):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    names.add(node.name)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names.add(node.id)
    return names


def file_of(spec):
    """The path of the file that a spec names, which has to be there; None where it names a module."""
    path = spec.rpartition(":")[0]
    if not path.endswith(".py"):
        return None
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise Wrong("there is no file %s%s" % (path, did_you_mean(os.path.basename(path), listing(os.path.dirname(path)))))
    return path


def by_path(path, attributes):
    """As `python FILE` would have it: the file's folder stands first on sys.path. Its main guard does not run."""
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
