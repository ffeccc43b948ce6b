"""The keeper of probes: nothing that they start outlives it, and it does not outlive the doctor.

It is run by path, with the standard library only, and by our own interpreter: the examined one may be broken, or lie on a disk
that does not answer. In a fork of a user's process (probes/leaving.py) it is that one's, from Python 3.8 on.

    PYTHON -I -S guard.py CONTROL REQUESTS ANSWERS OUTPUT COMMAND...

CONTROL is a descriptor to read. A number is the pid of a process below the guard, which is killed with all below that. When "!"
comes or it ends, however the doctor ended, everything below the guard is killed. REQUESTS is what the command reads, ANSWERS a
descriptor to write frames to, see `send`; OUTPUT takes what the command and its children print. The guard is the reaper of all
its descendants, so that also a daemon which forked twice, began a session of its own and closed all descriptors is found.

Its first frame tells the command's pid, its last one how it ended: {"ended": {"exit_code": 0, "signal": null, "left": []}}.
What is stuck in the kernel does not die of SIGKILL: it is left there, and named by pid, state and wait channel.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SUB_REAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""

PATIENCE_S = 0.5
"""How long a process may take to die of SIGKILL before it counts as stuck."""

CLEANING_S = 0.25
"""Of that, how long a process may take to remove what the job's processes left in /dev/shm. It takes some 30 ms."""

LEFT_TO_PROBES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)

MOST_NAMED = 16
"""Processes that are named when they do not die; one frame holds them."""

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./:,()'")
"""Characters that stand for themselves in JSON."""


def main(control: int, requests: int, answers: int, output: int, become: Callable[[int], None]) -> None:
    """Guard a process that `become` makes something of; it is given ANSWERS, and does not come back."""
    woken = wake_up_on_signals()
    child = start(become, requests, answers, output)
    become_the_reaper()
    send(answers, {"started": child})
    os.close(output)
    statuses: dict[int, int] = {}
    wait(child, statuses, control, woken)
    left = end_all(child, statuses)
    send(answers, {"ended": {**outcome(statuses.get(child)), "left": left[:MOST_NAMED]}})


def become_the_reaper() -> None:
    """While the interpreter starts: it is asked for nothing before the first frame has told that this is done."""
    import ctypes  # noqa: PLC0415 (it takes longer than the rest of the guard)

    try:
        ctypes.CDLL(None).prctl(SUB_REAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):  # elsewhere than on Linux the process group has to do
        pass


def wake_up_on_signals() -> int:
    """A descriptor that can be read when a child ended. Signals meant for the job do not end the guard: CONTROL does."""
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return woken


def start(become: Callable[[int], None], requests: int, answers: int, output: int) -> int:
    """Start what is guarded, in a process group of its own. It inherits no descriptor of the doctor's but these."""
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        for number in LEFT_TO_PROBES:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(requests, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        become(answers)
    finally:
        os._exit(127)


def execute(command: list[str], answers: int) -> None:
    """Become this command."""
    try:
        os.set_inheritable(answers, True)
        os.execv(command[0], command)
    except OSError as error:
        send(answers, {"unstartable": f"{command[0]}: {error.strerror}"})


def wait(child: int, statuses: dict[int, int], control: int, woken: int) -> None:
    """Until the command has ended, or the doctor wants it to, or is gone."""
    while True:
        reap(statuses)
        if child in statuses:
            return
        ready, _, _ = select.select([control, woken], [], [])
        if control in ready:
            orders = os.read(control, 512)
            if not orders or b"!" in orders:
                return
            for pid in map(int, orders.split()):
                end(pid)
        else:
            os.read(woken, 512)


def reap(statuses: dict[int, int]) -> None:
    """Take note of the children that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        statuses[pid] = status


def end_all(child: int, statuses: dict[int, int]) -> list[dict[str, object]]:
    """Kill all descendants, also those that appear meanwhile; gives those that do not die.

    Those that clean up when the others are gone get a moment for it.
    """
    begin_s = time.monotonic()
    end_s = begin_s + PATIENCE_S
    left_behind: set[str] = set()
    while True:
        below = descendants(os.getpid())
        left_behind |= kill_all([pid for pid in below if time.monotonic() > begin_s + CLEANING_S or not cleans_up(pid)])
        remove(left_behind)
        if child not in statuses and not below:  # /proc does not tell
            kill(-child)
        reap(statuses)
        alive = [pid for pid in below if field(pid, 0) not in ("Z", "X", None)]
        if (not below and child in statuses) or time.monotonic() > end_s:
            return [{"pid": pid, "state": field(pid, 0), "wait_channel": wait_channel(pid)} for pid in alive]
        time.sleep(0.005)


def end(pid: int) -> None:
    """Kill one process with all below it, if it is one of ours."""
    if pid in descendants(os.getpid()):
        remove(kill_all([pid, *descendants(pid)]))


def kill_all(pids: list[int]) -> set[str]:
    """Kill these processes and give what they leave. They are stopped first: what is looked at stays as it is."""
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    left_behind = traces(pids)
    for pid in pids:
        kill(pid)
    return left_behind


def traces(pids: list[int]) -> set[str]:
    """What nobody removes when these processes are killed: files of ours and segments of torch that have a name yet, folders that
    multiprocessing listens in or is about to (probes/socket_folder.py), and names of its semaphores.

    They are known by being in use, not by their names alone: other containers may have the same /dev/shm. What this process has
    inherited, where it is a fork of a user's, is the user's.
    """
    segments = tuple(f"/dev/shm/torch_{pid}_" for pid in pids)
    listening = {f"socket:[{inode}]": os.path.dirname(path) for inode, path in sockets()}
    held, semaphores = set(), set()
    for pid in pids:
        files = mapped(pid)
        held |= {path for path, _ in files} | {listening.get(name, name) for name in opened(pid)}
        semaphores |= {inode for path, inode in files if path.startswith("/dev/shm/sem.")}
    held -= {listening.get(name, name) for name in opened(os.getpid())}
    semaphores -= {inode for _, inode in mapped(os.getpid())}
    return {path for path in map(real_name, held) if path.startswith(segments) or is_temporary(path)} | names_of(semaphores)


def real_name(path: str) -> str:
    """Of a file in memory the name that it was given."""
    return path[len("/memfd:") : -len(" (deleted)")] if path.startswith("/memfd:/") else path


def is_temporary(path: str) -> bool:
    """Whether it is a file of ours or a folder for multiprocessing's sockets."""
    return os.path.basename(path).startswith((".dl-doctor-probe-", "pymp-")) and not path.endswith(" (deleted)")


def names_of(semaphores: set[int]) -> set[str]:
    """Of multiprocessing's, which the maps of a process show by names that they had before."""
    found = set()
    for name in names_in("/dev/shm") if semaphores else ():
        path = "/dev/shm/" + name
        try:
            if name.startswith("sem.mp-") and os.stat(path).st_ino in semaphores:
                found.add(path)
        except OSError:  # it is gone
            pass
    return found


def mapped(pid: int) -> list[tuple[str, int]]:
    """Path and inode of files that a process has mapped."""
    fields = [line.split(None, 5) for line in lines(f"/proc/{pid}/maps")]
    return [(row[5], int(row[4])) for row in fields if len(row) == 6 and row[5].startswith("/")]


def sockets() -> list[tuple[str, str]]:
    """Inode and path of Unix sockets with a path."""
    fields = [line.split(None, 7) for line in lines("/proc/self/net/unix")]
    return [(row[6], row[7]) for row in fields if len(row) == 8]


def opened(pid: int) -> set[str]:
    """What a process has open, by the kernel's names: paths, sockets by inode, files in memory."""
    names = set()
    for number in names_in(f"/proc/{pid}/fd"):
        try:
            names.add(os.readlink(f"/proc/{pid}/fd/{number}"))
        except OSError:  # it is closed
            pass
    return names


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it is gone, or we may not look
        return []


def lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def remove(paths: set[str]) -> None:
    """Files, and folders with the files in them."""
    for path in paths:
        try:
            if os.path.isdir(path):
                for name in os.listdir(path):
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
            else:
                os.unlink(path)
        except OSError:  # somebody was faster
            pass


def cleans_up(pid: int) -> bool:
    """Whether it is multiprocessing's resource tracker, which removes semaphores that nobody has removed."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:  # it is gone
        return False


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a process this signal, or with a negative number a process group."""
    try:
        os.kill(pid, number)
    except OSError:  # it is gone
        pass


def descendants(pid: int) -> list[int]:
    """Pids of all processes below this one."""
    children: dict[str, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            children.setdefault(field(int(name), 1) or "", []).append(int(name))
    below: list[int] = []
    pending = [pid]
    while pending:
        found = children.get(str(pending.pop()), [])
        below += found
        pending += found
    return below


def field(pid: int, index: int) -> str | None:
    """A field of /proc/PID/stat behind the name, which may hold spaces and brackets: 0 is the state, 1 the parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].split()[index].decode("ascii", "replace")
    except (OSError, IndexError):  # it is gone
        return None


def wait_channel(pid: int) -> str | None:
    """The function of the kernel that it waits in; None where it waits in none, or we may not know."""
    try:
        with open(f"/proc/{pid}/wchan", "rb") as file:
            name = file.read().decode("ascii", "replace")
    except OSError:
        return None
    return name if name not in ("", "0") else None


def outcome(status: int | None) -> dict[str, object]:
    if status is None:
        return {"exit_code": None, "signal": None}
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


def send(descriptor: int, message: dict[str, object]) -> None:
    """Write a frame, as forkserver.py does: number 0 in four bytes, the length of what follows in two, and a line of JSON."""
    line = as_json(message).encode("ascii") + b"\n"
    try:
        os.write(descriptor, bytes(4) + len(line).to_bytes(2, "big") + line)
    except OSError:  # nobody reads any more
        pass


def as_json(value: object) -> str:
    """What the guard has to say, as JSON. Importing json would take as long as all else that it does."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_json(name)}: {as_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if isinstance(value, str):
        return (
            '"'
            + "".join(c if c in PLAIN else f"\\u{ord(c):04x}" for c in value if c < "\ud800" or "\udfff" < c <= "\uffff")
            + '"'
        )
    return "null" if value is None else str(value)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:5]]
    main(numbers[0], numbers[1], numbers[2], numbers[3], lambda answers: execute(sys.argv[5:], answers))
