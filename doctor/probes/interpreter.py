"""What this interpreter is: its version, its environment, its C library, and the pieces that a build can lack."""

import importlib
import os
import platform
import sys

PIECES = ("_ctypes", "_multiprocessing", "_posixshmem", "_bz2", "_lzma")


def probe(arguments, step):  # noqa: ARG001
    sys.dont_write_bytecode = True  # what is imported here for the first time leaves no file
    step("look at the interpreter")
    libc, libc_version = c_library()
    return {
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "kind": kind(),
        "libc": libc,
        "libc_version": libc_version,
        "missing": missing(step),
        **start_methods(),
    }


def kind():
    if sys.prefix != sys.base_prefix:
        return "venv"
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    return "system" if sys.prefix in ("/usr", "/usr/local") else "installation"


def c_library():
    """By what is mapped into this process; glibc also says its version."""
    try:
        with open("/proc/self/maps") as file:
            if "/ld-musl-" in file.read():
                return "musl", None
    except OSError:
        pass
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, OSError, ValueError):
        return None, None
    return name or None, version or None


def missing(step):
    found = []
    for name in PIECES:
        if name == "_posixshmem" and sys.version_info < (3, 8):
            continue  # shared_memory came with 3.8
        step("import " + name)
        try:
            module = importlib.import_module(name)
            if name == "_multiprocessing":
                module.SemLock  # noqa: B018 (built without semaphores, it is there and lacks this)
        except Exception as error:  # noqa: BLE001 (it is the answer)
            found.append({"module": name, "error": "%s: %s" % (type(error).__name__, error)})
    return found


def start_methods():
    """The first is the default; get_start_method() without allow_none would fix one."""
    try:
        multiprocessing = importlib.import_module("multiprocessing")
        return {
            "start_methods": multiprocessing.get_all_start_methods(),
            "chosen_start_method": multiprocessing.get_start_method(allow_none=True),
        }
    except Exception:  # noqa: BLE001 (what lacks is told by `missing`)
        return {}
