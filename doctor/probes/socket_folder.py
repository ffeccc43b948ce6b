"""The folder that multiprocessing has its sockets in, made so that it can be removed at whatever instant we are killed.

Its path is the name of a file in memory before there is the folder, and the guard reads it there (guard.py, `traces`).
"""

import contextlib
import multiprocessing.process
import multiprocessing.util
import os
import shutil
import tempfile


@contextlib.contextmanager
def socket_folder():
    """While sockets are needed, in this process and its workers. Raises OSError where no such folder can be made."""
    path = make()
    try:
        yield
    finally:
        remove(path)


def make():
    """Give its path; None where there is one already."""
    if own_folder():
        return None
    usual = tempfile.mkdtemp
    tempfile.mkdtemp = announced  # only multiprocessing knows where it has to be
    try:
        return multiprocessing.util.get_temp_dir()
    finally:
        tempfile.mkdtemp = usual


def remove(path):
    """What `make` gave."""
    if path:
        multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]
        shutil.rmtree(path, ignore_errors=True)


def own_folder():
    """None where multiprocessing needed none yet."""
    return multiprocessing.process.current_process()._config.get("tempdir")  # type: ignore[attr-defined]


def announced(suffix="", prefix="", dir=None):  # noqa: A002 (the names that mkdtemp has)
    """Make a folder like tempfile.mkdtemp. The file in memory stays open until this process ends."""
    path = tempfile.mktemp(suffix, prefix, dir)
    with contextlib.suppress(AttributeError, OSError):  # another system, or a path that is too long for a socket too
        os.memfd_create(path)
    os.mkdir(path, 0o700)
    return path
