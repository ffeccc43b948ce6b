"""Where probes run: an interpreter that forks a process for each. Its text is given as `python -c`, to Python 3.8 or newer:

    python -c TEXT ANSWERS [PATH]

So sys.path begins as it would for the job, with the working directory, and our own folder is not on it; with PATH, a list in
JSON, it is that. In a fork of a process that has a dataset at hand (forking.py) it is a module, and `main` is called.

Standard input gives requests, lines of JSON:

    {"number": 3, "path": "/.../probes/temp_space.py", "arguments": {}, "place": "forked"}    run this probe
    {"import": ["multiprocessing"]}                                                          spare those that come

Most probes are forked from this process, which spares each the start of an interpreter. One that runs the job's code is `apart`:
it becomes this process, which then is as fresh as the job's will be. One that is `loading` runs here and gives its answer and
something that it made, such as the job's dataset; those that are forked afterwards get that as a third argument.

A probe is a file with a function `probe`. What several probes need stands in files beside theirs, see `probe_in`.

ANSWERS takes frames, see `send`.
"""

import sys

if __name__ == "__main__":
    working_directory = sys.path.pop(0)  # a json.py of the user's is the job's trouble, not the probe's

import importlib
import json
import os
import re
import select
import signal
import struct
import types
import warnings
from os import fork as fork_process  # by names of our own: the job's code may patch modules, as gevent does
from os import read, waitpid, write
from select import select as wait_for

CODE = json.JSONEncoder(ensure_ascii=False)

PACKAGE = "_dl_doctor_probes"
"""What probes and the files beside them are in, whatever is installed for the job."""

ALONE_S = 2.0
"""How long a guard may take to end this process."""

answers = -1
requests = -1
pipes = {}  # type: dict[int, str]  # what the kernel calls these two
waking = []  # type: list[int]  # the two ends of a pipe that signals write to
running = {}  # type: dict[int, int]  # the number of each probe by its pid
neighbours = {}  # type: dict[str, types.ModuleType]  # what probes have imported from files beside theirs
loaded = []  # type: list[object]  # what a probe that was loading has made; before that, what it is given
putting_back = []  # type: ignore[var-annotated]  # functions of that, for what probes change and this process shares with them


def main(told, *given):
    """Serve until standard input ends. `told` is the descriptor of ANSWERS, `given` what the probe that is loading gets."""
    global answers, requests
    answers, requests = told, os.dup(0)
    pipes.update({number: name_of(number) for number in (answers, requests)})
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    loaded[:] = given
    os.set_inheritable(answers, False)
    be_the_first_to_go()
    hear_of_signals()
    unread = b""
    while True:
        ready = wait_for([requests, waking[0]], [], [])[0]
        if waking[0] in ready:
            read(waking[0], 512)
            reap()
        if requests in ready:
            chunk = read(requests, 65536)
            if not chunk:
                end()
            lines = (unread + chunk).split(b"\n")
            unread = lines.pop()
            for line in lines:
                take(json.JSONDecoder().decode(line.decode("utf-8")))


def end():
    """The guard looks at what is held here, and kills this process; where there is none any more, it ends by itself."""
    wait_for([], [], [], ALONE_S)
    os._exit(0)


def hear_of_signals():
    waking[:] = os.pipe()
    for descriptor in waking:
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waking[1])
    signal.signal(signal.SIGCHLD, lambda *_: None)


def name_of(descriptor):
    try:
        return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""


def kept(descriptor, flags):
    """Our end of a pipe; opened anew, from the parent's, where the job's code has closed it."""
    name = pipes[descriptor]
    if name_of(descriptor) == name:
        return descriptor
    folder = "/proc/%d/fd" % os.getppid()
    for number in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, number)) == name:
                again = os.open(os.path.join(folder, number), flags)
                pipes[again] = name
                return again
        except OSError:  # one that is not there any more
            continue
    os._exit(1)


def be_the_first_to_go():
    """When memory runs out, the kernel is to end this process and not the job's."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def take(request):
    global requests  # noqa: PLW0603
    if "import" in request:
        import_early(request["import"])
        return
    if request["place"] == "loading":
        answer(request)
        send(request["number"], {"ended": {"exit_code": 0, "signal": None, "left": []}})
        requests = kept(requests, os.O_RDONLY)
        hear_of_signals()
        return
    pid = 0 if request["place"] == "apart" else fork()
    if pid:
        running[pid] = request["number"]
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in (*waking, requests):
        os.close(descriptor)
    answer(request)
    os._exit(0)


def import_early(names):
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 (the probe that needs it will tell)
            return


def fork():
    """In a process group of its own, which both sides see to: neither knows who comes first."""
    flush()
    warnings.simplefilter("ignore")  # of threads that the job's sitecustomize has started
    pid = fork_process()
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass
    return pid


def reap():
    """Tell of each probe that has ended how it did."""
    for pid, number in list(running.items()):
        try:
            ended, status = waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # somebody else took it
            ended, status = pid, 0
        if ended:
            del running[pid]
            for put_back in () if running else putting_back:
                put_back()
            code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            died_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            send(number, {"ended": {"exit_code": code, "signal": died_by, "left": []}})


def flush():
    """What is printed; the job's code may have closed or replaced both streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001
            pass


def answer(request):
    """Run a probe here and tell what it answers or raises."""
    number, pid = request["number"], os.getpid()
    send(number, {"started": pid})
    try:
        told = run(request["path"], request["arguments"], lambda name: send(number, {"step": name}))
        if os.getpid() != pid:
            os._exit(0)  # the job's code has forked, and this is the child
        if request["place"] == "loading":
            told, made = told
            loaded[:] = [made]
            putting_back[:] = filter(None, [getattr(made, "put_back", None)])
        send(number, {"answer": told})
    except SystemExit as error:
        leave(error)
    except BaseException as error:  # noqa: BLE001 (it is the answer)
        import traceback  # noqa: PLC0415

        if os.getpid() != pid:
            os._exit(1)
        send(number, {"raised": {"type": type(error).__name__, "message": text_of(error), "trace": traceback.format_exc()}})
    flush()


def text_of(error):
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001 (an exception of the job's need not be sound)
        return "(its text raises %s)" % type(another).__name__


def leave(error):
    """End as Python does of SystemExit, but for what the job has registered for its end, and say where it was raised."""
    import traceback  # noqa: PLC0415

    code = error.code
    place = traceback.format_tb(error.__traceback__)[-1].splitlines()[0]
    os.write(2, ("%s\n" % place).encode("utf-8", "backslashreplace"))
    if not isinstance(code, (int, type(None))):
        os.write(2, ("%s\n" % (code,)).encode("utf-8", "backslashreplace"))
    flush()
    os._exit((code or 0) & 0xFF if isinstance(code, (int, type(None))) else 1)


def run(path, arguments, step):
    return probe_in(path)(arguments, step, *loaded)


def probe_in(path):
    """The function of this file. With `from .limits import ...` it has what the files beside it define: they are modules of a
    package by a name of ours, which stands in sys.modules only meanwhile, so that the job does not see it.
    """
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    package = neighbours.setdefault(PACKAGE, types.ModuleType(PACKAGE))
    package.__path__ = [os.path.dirname(path)]
    names = {"__name__": PACKAGE + ".it", "__package__": PACKAGE, "__file__": path}
    writes_none = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.modules.update(neighbours)
    try:
        exec(code, names)
    finally:
        sys.dont_write_bytecode = writes_none
        ours = [name for name in list(sys.modules) if name.split(".")[0] == PACKAGE]
        neighbours.update({name: sys.modules.pop(name) for name in ours})
    return names["probe"]


def send(number, message):
    """Write a line of JSON, in pieces that the kernel does not mix with those of others: who, how long, and the piece.

    What is no text (a lone surrogate) is shown by its number.
    """
    global answers  # noqa: PLW0603
    answers = kept(answers, os.O_WRONLY)
    text = CODE.encode(message)
    content = re.sub("[\ud800-\udfff]", lambda match: "\\\\u%04x" % ord(match.group()), text).encode("utf-8") + b"\n"
    most = select.PIPE_BUF - 6
    for begin in range(0, len(content), most):
        piece = content[begin : begin + most]
        write(answers, struct.pack(">IH", number, len(piece)) + piece)


if __name__ == "__main__":
    sys.path.insert(0, working_directory)
    if len(sys.argv) > 2:
        sys.path[:] = json.loads(sys.argv[2])
    main(int(sys.argv[1]))
