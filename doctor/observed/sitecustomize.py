"""In each Python that a command starts: whoever iterates over a DataLoader first stands still, and is examined in a fork.

Python imports this module at its start, because its folder is the first on PYTHONPATH; any from 3.8 on, with the standard library
and nothing of ours but files beside this folder. It imports nothing of the job's: the class is patched once the job has it.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

SOCKET = "_DL_DOCTOR_SOCKET"
"""The variable with the name of the doctor's socket, in Linux's abstract namespace."""

WATCHED = "torch.utils.data.dataloader"

OURS = "_dl_doctor_observing"
"""What files of ours are a package of while they are imported, whatever is installed for the job."""

HERE = os.path.dirname(os.path.abspath(__file__))


def leave_the_path():
    """Take our folder off sys.path: it has done its work here. Interpreters that this one starts find it on PYTHONPATH."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]


def run_what_is_hidden():
    """The user's, the site's or the distribution's own sitecustomize, if there is one."""
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class Finder:
    """Finds the module of DataLoader as the others do, and has it patched when it was run."""

    def find_spec(self, name, path=None, target=None):
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((one for one in found if one is not None), None)
        loader = getattr(spec, "loader", None)
        if loader is not None and hasattr(loader, "exec_module"):
            run = loader.exec_module

            def run_and_patch(module):
                run(module)
                patch(module.DataLoader)

            loader.exec_module = run_and_patch
        return spec


def patch(kind):
    """Have the first iteration over a loader of this class examined, in a process that is no worker of one."""
    iterate = kind.__iter__

    def offer_and_iterate(loader):
        if not is_worker():
            offer(loader, undo=lambda: setattr(kind, "__iter__", iterate))
        return iterate(loader)

    kind.__iter__ = offer_and_iterate


def is_worker():
    return getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None) is not None


def offer(loader, undo):
    """Tell the doctor of a loader, and stand still until the command is ended. Comes back where nobody listens any more."""
    import threading  # noqa: PLC0415 (torch has imported it)

    if not hasattr(offer, "lock"):
        offer.lock = threading.Lock()  # type: ignore[attr-defined]
    with offer.lock:  # type: ignore[attr-defined]
        connection = connected()
        if connection is None:
            undo()
            return
        descriptors = wanted(connection)
        if descriptors:
            fork_for(loader, descriptors, connection, undo)
        while True:
            stand_still()


def stand_still():
    import time  # noqa: PLC0415

    time.sleep(3600)


def connected():
    import socket  # noqa: PLC0415

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect("\0" + os.environ[SOCKET])
    except (OSError, KeyError):
        connection.close()
        return None
    return connection


def wanted(connection):
    """The descriptors of the doctor's that a guard takes; empty where the doctor wants no loader of this process, which it says
    by not answering until the end.
    """
    import array  # noqa: PLC0415
    import fcntl  # noqa: PLC0415
    import json  # noqa: PLC0415
    import socket  # noqa: PLC0415

    file, line = place()
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    told = {
        "pid": os.getpid(),
        "python": as_text(sys.executable),
        "script": as_text(os.path.abspath(program)) if program and os.path.isfile(program) else None,
        "file": as_text(file),
        "line": line,
        "variables": {as_text(name): as_text(value) for name, value in variables_without_ours().items()},
    }
    try:
        connection.sendall(json.dumps(told).encode("ascii"))
        connection.shutdown(socket.SHUT_WR)
        numbers = array.array("i")
        _, ancillary, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(4 * numbers.itemsize))
    except OSError:
        return []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    beyond_standard_streams = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in numbers]
    for number in numbers:
        os.close(number)
    return beyond_standard_streams


def as_text(name):
    """A path or a variable, whose bytes need not be UTF-8: those are shown by their numbers."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def place():
    """File and line of the job's own code from where the loader is iterated; of any code where none of it is the job's."""
    import traceback  # noqa: PLC0415

    frames = [(os.path.abspath(frame.f_code.co_filename), line) for frame, line in traceback.walk_stack(None)]
    others = [one for one in frames if os.path.dirname(one[0]) != HERE]
    return next((one for one in others if not is_library(one[0])), others[0])


def is_library(file):
    installed = ("/site-packages/", "/dist-packages/")
    return any(part in file for part in installed) or file.startswith(os.path.dirname(os.__file__)) or "<frozen" in file


def fork_for(loader, descriptors, connection, undo):
    """Fork this process as dl_doctor.check does. Nothing of ours is left in what the fork starts."""
    import types  # noqa: PLC0415
    from importlib import import_module  # noqa: PLC0415

    writes_none = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    package = types.ModuleType(OURS)
    package.__path__ = [os.path.dirname(HERE)]
    sys.modules[OURS] = package
    try:
        guard, at_fork, leaving = (import_module(OURS + name) for name in (".guard", ".probes.at_fork", ".probes.leaving"))
    finally:
        sys.dont_write_bytecode = writes_none
        for name in [name for name in sys.modules if name.split(".")[0] == OURS]:
            del sys.modules[name]
    alive = at_fork.unsafe_at_fork()

    def become(answers):
        undo()
        variables = variables_without_ours()
        for name in (SOCKET, "PYTHONPATH"):
            os.environ.pop(name, None)
        os.environ.update(variables)
        leaving.serve(answers, loader, alive)

    leaving.fork(guard.main, descriptors, (connection.detach(),), become)
    for number in descriptors:
        os.close(number)


def variables_without_ours():
    """The environment, but for what made this process an observed one."""
    variables = {name: value for name, value in os.environ.items() if name != SOCKET}
    entries = [entry for entry in variables.pop("PYTHONPATH", "").split(os.pathsep) if entry != HERE]
    return dict(variables, PYTHONPATH=os.pathsep.join(entries)) if any(entries) else variables


if __name__ == "sitecustomize":
    if SOCKET in os.environ:
        sys.meta_path.insert(0, Finder())
    leave_the_path()
    run_what_is_hidden()
