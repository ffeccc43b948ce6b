"""A command of the user's, run until a Python of it iterates over a DataLoader.

It has the folder `observed` first on PYTHONPATH, and the name of a socket in a variable. What stands in that folder has a process
tell us of its loader, and stand still; the process is then forked, as forking.py forks one that calls dl_doctor.check.
"""

import os
import select
import shutil
import signal
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from dl_doctor.fork_server import ForkServer
from dl_doctor.guard import descendants, field, wait_channel
from dl_doctor.guards import Begun, start_guard
from dl_doctor.observed import sitecustomize
from dl_doctor.probing import HERE, REAPING_FOR_A_CALLER_S, signal_name

GRACE_S = 5.0
"""How long a command may take to end by SIGTERM before it is killed."""

FOLDER = str(HERE / "observed")

LAST_LINES = 10
"""Of what a command printed, that are told where it had no loader."""

MOST_PROCESSES = 8
"""That are told where a command takes too long."""

PEER = struct.Struct("3i")
"""SO_PEERCRED of socket(7): pid, uid, gid."""


class NotStarted(ValueError):
    """The command cannot be run; the message says what to write instead."""


class NoLoader(Exception):
    """The command has ended, or the time is over, and it has iterated over no DataLoader; the message says what it did."""


class Told(msgspec.Struct, frozen=True):
    """What a process says of itself, whose DataLoader is iterated for the first time."""

    pid: int
    python: str
    script: str | None
    """What it runs."""

    file: str
    """Where the loader is iterated."""

    line: int
    variables: dict[str, str]
    """Its environment, without what is ours."""

    @property
    def place(self) -> str:
        """`train.py:21`, from the working directory where it is below that."""
        path = Path(self.file)
        return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{self.line}"


class Command:
    """A command that runs, with all that it starts, below a guard."""

    def __init__(self, command: Sequence[str], say: Callable[[bytes], None]) -> None:
        """Start it. `say` is given what it prints, in a thread of its own. NotStarted where there is no such program."""
        self.begin_s = time.monotonic()
        self._ending = False
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"dl-doctor-{os.urandom(16).hex()}"
        listener.bind(f"\0{name}")
        listener.listen()
        path = os.environ.get("PYTHONPATH")
        variables = {sitecustomize.SOCKET: name, "PYTHONPATH": FOLDER if path is None else f"{FOLDER}{os.pathsep}{path}"}
        arguments = [program(command[0]), *command[1:]]

        def start(theirs: tuple[int, ...], _: tuple[int, ...]) -> int:
            nothing_to_read = os.open(os.devnull, os.O_RDONLY)
            try:
                return start_guard((theirs[0], nothing_to_read, *theirs[2:]), arguments, {**os.environ, **variables})
            finally:
                os.close(nothing_to_read)

        self._begun = Begun(start)
        self._heard = bytearray()
        self._pid: int | None = None
        self._ended: dict[str, int | None] | None = None
        self._others: list[socket.socket] = []
        """Processes that stand still and are not examined."""

        self._tail: deque[bytes] = deque([b""], maxlen=LAST_LINES + 1)
        self._listening = threading.Thread(target=self._pass_on, args=(os.dup(self._begun.output), say), daemon=True)
        self._listening.start()

    def first_loader(self, wait_s: float) -> "tuple[Told, Begun]":
        """Wait until a process iterates over a DataLoader; gives what it says, and a fork of it.

        Of several ranks it is local rank 0, or whoever comes first where they have no numbers. NoLoader where the command ends
        before, or `wait_s` seconds are over.
        """
        coming: list[socket.socket] = []
        while True:
            left_s = self.begin_s + wait_s - time.monotonic()
            sources: list[Any] = [self._listener, self._begun.answers, *coming]
            ready, _, _ = select.select(sources, [], [], max(0.0, left_s))
            if not ready:
                raise NoLoader(f"the command has iterated over no DataLoader within {wait_s:g} s (--wait).{self._doing()}")
            if self._begun.answers in ready:
                self._hear()
            if self._ended is not None:
                raise NoLoader(f"the command {how(self._ended)} before it iterated over a DataLoader.{self._printed()}")
            for connection in [one for one in coming if one in ready]:
                coming.remove(connection)
                told = heard(connection)
                if told is None or told.variables.get("LOCAL_RANK") not in (None, "0", os.environ.get("LOCAL_RANK")):
                    self._others.append(connection)
                else:
                    return told, fork_of(told, connection)
            if self._listener in ready:
                coming += accepted(self._listener)

    def end(self) -> None:
        """End it by SIGTERM, and kill what is left after GRACE_S. Nothing of it is left, and what it says of that is not told."""
        self._ending = True
        try:
            end_s = time.monotonic() + GRACE_S
            told = False
            while self._ended is None:
                if self._pid and not told:
                    told = True
                    with suppress(ProcessLookupError):
                        os.killpg(self._pid, signal.SIGTERM)
                if not select.select([self._begun.answers], [], [], max(0.0, end_s - time.monotonic()))[0]:
                    break
                self._hear()
        finally:
            self._begun.close()
            end_s = time.monotonic() + REAPING_FOR_A_CALLER_S
            while not self._begun.reaped() and time.monotonic() < end_s:
                time.sleep(0.002)
            for connection in (self._listener, *self._others):
                connection.close()
            self._listening.join(1.0)

    def _hear(self) -> None:
        """Take what the guard says: the pid, that it could not be started, how it ended."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._begun.answers, 1 << 16):
                self._heard += chunk
            self._ended = self._ended or {}
        while len(self._heard) >= ForkServer.PIECE.size:
            _, length = ForkServer.PIECE.unpack_from(self._heard)
            said = msgspec.json.decode(self._heard[ForkServer.PIECE.size : ForkServer.PIECE.size + length])
            del self._heard[: ForkServer.PIECE.size + length]
            if "unstartable" in said:
                raise NotStarted(f"the command cannot be run: {said['unstartable']}")
            self._pid = said.get("started", self._pid)
            self._ended = said.get("ended", self._ended)

    def _pass_on(self, output: int, say: Callable[[bytes], None]) -> None:
        """Until nobody can print any more."""
        os.set_blocking(output, True)
        while chunk := os.read(output, 1 << 16):
            first, *others = chunk.split(b"\n")
            self._tail[-1] = (self._tail[-1] + first)[-1000:]
            self._tail.extend(others)
            if not self._ending:
                say(chunk)
        os.close(output)

    def _printed(self) -> str:
        self._listening.join(1.0)
        lines = [line.decode("utf-8", "backslashreplace") for line in self._tail if line.strip()][-LAST_LINES:]
        return "\nIts last lines:" + "".join(f"\n    {line}" for line in lines) if lines else " It printed nothing."

    def _doing(self) -> str:
        """Its processes, and what they wait for."""
        pids = [*([self._pid] if self._pid else []), *descendants(self._pid or 0)][:MOST_PROCESSES]
        lines = [f"\n    {pid}  {command_line(pid)}: {waits(pid)}" for pid in pids]
        others = f" {len(self._others)} other ranks are at their loader." if self._others else ""
        return f"{others}\nIt is doing:{''.join(lines)}"


@contextmanager
def running(command: Sequence[str], say: Callable[[bytes], None]) -> Iterator[Command]:
    """The command while it runs; it is ended, whatever happens."""
    started = Command(command, say)
    try:
        yield started
    finally:
        started.end()


def program(name: str) -> str:
    """The file that a shell would run; NotStarted where there is none."""
    found = shutil.which(name)
    if found is not None:
        return os.path.abspath(found)  # noqa: PTH100 (links are followed by nobody: a virtual environment's python is one)
    hint = f"; write `python {name}`" if name.endswith(".py") else ""
    raise NotStarted(f"there is no program {name!r} that can be run{hint}")


def accepted(listener: socket.socket) -> list[socket.socket]:
    """The connection that somebody made, if it is one of this user's."""
    connection, _ = listener.accept()
    _, uid, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if uid == os.geteuid():
        return [connection]
    connection.close()
    return []


def heard(connection: socket.socket) -> Told | None:
    """What a process says, which closes its way to us behind it; None where it has ended instead."""
    said = bytearray()
    with suppress(OSError, msgspec.DecodeError):
        while piece := connection.recv(1 << 16):
            said += piece
        return msgspec.json.decode(said, type=Told)
    return None


def fork_of(told: Told, connection: socket.socket) -> Begun:
    """Have the process at the other end fork itself, with a guard that talks to us."""

    def start(theirs: tuple[int, ...], _: tuple[int, ...]) -> int:
        with connection:
            socket.send_fds(connection, [b"!"], theirs)
        return told.pid

    return Begun(start, script=told.script, python=told.python, variables=told.variables)


def how(ended: dict[str, int | None]) -> str:
    if number := ended.get("signal"):
        return f"was killed by {signal_name(number)}"
    return f"ended with code {ended['exit_code']}" if ended.get("exit_code") is not None else "ended"


def command_line(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()
    except OSError:
        return "?"
    return text if len(text) <= 60 else f"{text[:57]}..."


def waits(pid: int) -> str:
    state, channel = field(pid, 0), wait_channel(pid)
    if state is None:
        return "has ended"
    told = "computes" if state == "R" else f"waits in {channel}" if channel else "waits"
    return told if reached(pid) else f"{told}; not observed, its PYTHONPATH was set anew"


def reached(pid: int) -> bool:
    """Whether a process has our folder in its environment, as far as one may look."""
    try:
        return os.fsencode(FOLDER) in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return True
