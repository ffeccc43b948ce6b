"""Make multiprocessing's temporary folder and listen on a socket in it, as managers, forkserver and the sharers of tensors do."""

import errno
import multiprocessing.connection
import multiprocessing.util
import os
import shutil
import tempfile


def probe(arguments, step):  # noqa: ARG001
    step("look for a folder for temporary files")
    told = {"path": None, "passed_over": []}
    try:
        told["path"] = tempfile.gettempdir()
    except FileNotFoundError:
        pass
    for said_by, folder in candidates():
        if told["path"] and os.path.abspath(folder) == told["path"]:
            break
        step("write to %s" % folder)
        refused = refusal("%s (%s)" % (folder, said_by), lambda folder=folder: write(folder))
        if refused:
            told["passed_over"].append(refused)
    if told["path"]:
        told["path_bytes"] = len(os.fsencode(told["path"]))
        step("listen on a socket in %s" % told["path"])
        told["refusal"] = refusal("listen on a socket in %s" % told["path"], listen)
        step("statvfs %s" % told["path"])
        told["no_exec"] = bool(os.statvfs(told["path"]).f_flag & os.ST_NOEXEC)
        told["real_path"] = os.path.realpath(told["path"])
    return told


def candidates():
    """As tempfile takes them, each with who names it."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        if os.environ.get(name):
            yield name, os.environ[name]
    for folder in ("/tmp", "/var/tmp", "/usr/tmp"):
        yield "a usual folder", folder
    yield "the working directory", os.getcwd()


def write(folder):
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    try:
        os.write(descriptor, b"x" * 4096)
    finally:
        os.close(descriptor)


def listen():
    folder = multiprocessing.util.get_temp_dir()
    try:
        multiprocessing.connection.Listener(family="AF_UNIX").close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refusal(step, use):
    try:
        use()
    except OSError as error:
        code = errno.errorcode.get(error.errno, type(error).__name__)
        return {"step": step, "code": code, "error": error.strerror or str(error)}
    return None
