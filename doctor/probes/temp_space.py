"""Make multiprocessing's temporary folder and listen on a socket in it, as managers, forkserver and the sharers of tensors do."""

import errno
import multiprocessing.connection
import os
import tempfile

from .socket_folder import socket_folder


def probe(arguments, step):  # noqa: ARG001
    step("look for a folder for temporary files")
    path, passed_over = found(), []
    for said_by, folder in candidates():
        if path and os.path.abspath(folder) == path:
            break
        step("write to %s" % folder)
        refused = refusal("%s (%s)" % (folder, said_by), lambda folder=folder: write(folder))
        if refused:
            passed_over.append(refused)
    if not path:
        return {"passed_over": passed_over}
    listening = "listen on a socket in %s" % path
    step(listening)
    refused = refusal(listening, listen)
    step("statvfs %s" % path)
    return {
        "path": path,
        "path_bytes": len(os.fsencode(path)),
        "real_path": os.path.realpath(path),
        "refusal": refused,
        "passed_over": passed_over,
        "no_exec": bool(os.statvfs(path).f_flag & os.ST_NOEXEC),
    }


def found():
    """None where no folder can be written to."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def candidates():
    """As tempfile takes them, each with who names it."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        if os.environ.get(name):
            yield name, os.environ[name]
    for folder in ("/tmp", "/var/tmp", "/usr/tmp"):
        yield "a usual folder", folder
    yield "the working directory", os.getcwd()


def write(folder):
    with tempfile.TemporaryFile(buffering=0, prefix=".dl-doctor-probe-", dir=folder) as file:
        file.write(b"x" * 4096)


def listen():
    with socket_folder():
        multiprocessing.connection.Listener(family="AF_UNIX").close()


def refusal(step, use):
    try:
        use()
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return {"step": step, "code": code, "error": error.strerror or str(error)}
    return None
