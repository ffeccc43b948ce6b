"""The function that is called with each batch, by what the user names it: pkg.module:name or path/file.py:name."""

import importlib
import importlib.util
import os
import sys


def step_function(spec):
    """Errors are those of importing it."""
    place, _, name = spec.rpartition(":")
    found = module_of_file(place) if place.endswith(".py") else module_named(place)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def module_of_file(path):
    name = os.path.basename(path)[: -len(".py")]
    described = importlib.util.spec_from_file_location(name, os.path.abspath(os.path.expanduser(path)))
    if described is None or described.loader is None:
        raise ImportError("%s is no Python file" % path)
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(described))
    described.loader.exec_module(module)
    return module


def module_named(name):
    """The working directory is on the path as it is for the job, even where a dataset's file has brought its own folder."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)
