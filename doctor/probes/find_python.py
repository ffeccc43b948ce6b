"""Which of these interpreters are there, and which has torch: found by files, so that nothing of theirs runs."""

import glob
import os
import sys

PACKAGES = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3/dist-packages",
    "local/lib/python3*/dist-packages",
    "Lib/site-packages",
)


def probe(arguments, step):
    """`candidates` are paths of interpreters or of environments.

    Gives for each the interpreter's path, whether it can be run, and whether its environment holds torch.
    """
    found = []
    for candidate in arguments["candidates"]:
        step("look at %s" % candidate)
        path = os.path.join(candidate, "bin", "python") if os.path.isdir(candidate) else candidate
        found.append({"path": path, "runs": os.access(path, os.X_OK) and not os.path.isdir(path), "torch": holds_torch(path)})
    return {"found": found, "own": sys.executable}


def holds_torch(python):
    """Whether torch lies in the environment that the interpreter at this path belongs to, or in the user's own folder."""
    places = [place for prefix in prefixes(python) for pattern in PACKAGES for place in glob.glob(os.path.join(prefix, pattern))]
    places += glob.glob(os.path.expanduser("~/.local/lib/python3*/site-packages"))
    return any(os.path.exists(os.path.join(place, "torch", "version.py")) for place in places)


def prefixes(python):
    """An environment's own folder beside its bin/, or the installation that a link leads to."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    if os.path.exists(os.path.join(beside, "pyvenv.cfg")):
        return [beside]
    return [beside, os.path.dirname(os.path.dirname(os.path.realpath(python)))]
