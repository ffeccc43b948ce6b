"""Load the driver's libraries and see where they come from. Nothing in them is called, so no GPU is touched."""

import ctypes
import os


def probe(_arguments, step):
    found = {}
    for key, name in (("nvml", "libnvidia-ml.so.1"), ("cuda", "libcuda.so.1")):
        step("load %s" % name)
        found[key] = loaded(name)
    return found


def loaded(name):
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return {"path": None, "error": str(error)}
    return {"path": mapped(name.partition(".so")[0] + ".so"), "error": None}


def mapped(beginning):
    """The file, whose name begins so, that lies in our memory."""
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as file:
        paths = (line.rstrip("\n").partition("/")[1:] for line in file)
        return next((slash + rest for slash, rest in paths if os.path.basename(rest).startswith(beginning)), None)
