"""Load the driver's libraries and see where they come from. Nothing in them is called, so no GPU is touched."""

import ctypes

from .mapped import mapped_files


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
    return {"path": next(iter(mapped_files(name.partition(".so")[0] + ".so")), None), "error": None}
