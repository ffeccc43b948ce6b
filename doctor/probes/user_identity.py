"""Ask as libraries do who this process runs as. A user without an entry makes some of them raise."""

import getpass
import os
import re
import sys


def probe(arguments, step):  # noqa: ARG001
    step("ask for the user's name")
    return {
        "uid": os.getuid(),
        "in_passwd": in_passwd(),
        "name_error": name_error(),
        "home": os.path.expanduser("~"),
        "home_said": "HOME" in os.environ,
        "torch_version": torch_version(step),
    }


def in_passwd():
    import pwd  # noqa: PLC0415 (a Python can be without it)

    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def name_error():
    try:
        getpass.getuser()
    except (KeyError, OSError) as error:
        return "%s: %s" % (type(error).__name__, error)
    return None


def torch_version(step):
    """By its file: nothing of torch is imported."""
    for folder in sys.path:
        path = os.path.join(folder, "torch", "version.py")
        step("read %s" % path)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.search(r"^__version__ *= *['\"]([^'\"]+)", file.read(), re.MULTILINE)
        except OSError:
            continue
        return found.group(1) if found else None
    return None
