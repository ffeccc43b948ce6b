"""Probes: what can hang or crash is touched in a disposable process, with a deadline.

The doctor starts a guard (guard.py), the guard starts the interpreter that is examined (probes/forkserver.py), and that forks a
process for each probe. Where a dataset is at hand already, the process that has it is forked instead (forking.py). Whatever
happens to the doctor, nothing is left alive. What a probe does (raise, exit, die by a signal, hang) is an answer like any other,
for checks to judge.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals, strsignal
from typing import Any, Literal

import msgspec

from dl_doctor.fork_server import TAIL_BYTES, Conversation, ForkServer
from dl_doctor.guards import Begun, begin
from dl_doctor.model import Ended, How, Unavailable
from dl_doctor.probes.shortening import ending
from dl_doctor.system import Missing, System

HERE = Path(__file__).parent

START_S = 20.0
"""How long an interpreter may take to start: seconds where it comes over a network."""

QUICK_S = 15.0
"""For a probe that is done at once: what it may take where it has half of a slow CPU. Seen there: more than 5 s."""

DYING_S = 0.5
"""How long a probe may take to die of SIGKILL before it counts as stuck."""

GRACE_S = 0.8
"""How long a guard may take, past the deadline, to end everything and say so: as long, and some more."""


REAPING_S = 0.2
"""How long ends are waited for, so that nothing is left when we end."""

REAPING_FOR_A_CALLER_S = 5.0
"""The same where our process lives on, and would keep what is left as a zombie."""

LAST_LOOK_S = 5.0
"""What a watcher may take beyond the probe that it watches: a look that waits for the driver, and its answer."""

LOADED = "what is loaded"
"""Stands for an interpreter's path where the server is meant that has loaded something."""

WANTED_BY_SEVERAL = ("multiprocessing.connection", "multiprocessing.synchronize", "multiprocessing.util", "importlib.metadata")

Place = Literal["forked", "apart", "loading", "loaded"]
"""Where a probe runs, see Probes.run."""


class Probed(msgspec.Struct, frozen=True):
    """What a probe answered, if it did, and how it ended."""

    answer: dict[str, Any] | None
    ended: Ended


class Probes:
    """Runs the scripts in probes/, all within the time of the run."""

    own_python = sys.executable
    """The interpreter that runs the doctor."""

    caller: Begun | None = None
    """A fork of the process that called dl_doctor.check, or that a command has started, which is where its dataset is."""

    loaded_since_s: float | None = None
    """When there was something that probes can be `loaded` with, by the system's clock."""

    def __init__(self, system: System, end_s: float, caller: Begun | None = None) -> None:
        self._system = system
        self._end_s = end_s
        """When the run's time is over, by the system's clock."""

        self.caller = caller

        self.in_flight: list[str] = []
        """Names of the probes that are running."""

        self._servers: dict[str | None, ForkServer] = {}
        """Those that fork, by their interpreter."""

        self._guards: list[Begun] = [caller] if caller else []
        """Those that may not have been reaped yet."""

    async def run(
        self,
        probe: str,
        arguments: dict[str, Any] | None = None,
        *,
        python: str | None = None,
        deadline_s: float,
        place: Place = "forked",
        title: str | None = None,
        started: "asyncio.Future[int | None] | None" = None,
        beside: "asyncio.Future[Probed] | None" = None,
    ) -> Probed:
        """Run a probe in a process of its own, at most so long (and GRACE_S, where it is stuck in the kernel).

        The deadline counts from when the process has started, for which it has START_S: on a machine with little CPU that takes
        seconds.

        Args:
            probe: the file's name in probes/, without its ending.
            arguments: what it is given; JSON.
            python: the interpreter, whose environment is examined; None for ours, with what we can import. What is `loaded` is in
                the one that has loaded it.
            deadline_s: seconds after which it is killed.
            place: `forked` from an interpreter that runs anyway; or `apart`, in one that has just been started, for what runs
                the job's code. `loading` makes something in an interpreter of its own, and probes that are then `loaded` are
                forked from that.
            title: what whoever waits is told; None for the probe's name.
            started: is given its pid when it runs; None where it does not.
            beside: what it looks at; its deadline counts from when that is done.
        """
        title = title or probe
        if self._system.mounted:
            raise Missing(Unavailable.not_asked("--root shows files, and a probe is a process"))
        server = self._server(python, place)
        self.in_flight.append(title)
        try:
            asked = server.ask(str(HERE / "probes" / f"{probe}.py"), arguments or {}, place)
            await asyncio.wait({asked.started}, timeout=min(START_S, self._left_s()))
            if started is not None:
                started.set_result(asked.pid)
            if beside is not None:
                either: set[asyncio.Future[Any]] = {asked.ended, beside}
                await asyncio.wait(either, timeout=self._left_s(), return_when=asyncio.FIRST_COMPLETED)
            left_s = self._left_s()
            await asyncio.wait({asked.ended}, timeout=min(deadline_s, left_s))
            late = not asked.ended.done() or (server.given_up and not asked.pid)
            if late:
                server.end(asked)
                await asyncio.wait({asked.ended}, timeout=GRACE_S if server.given_up else DYING_S)
            if late and left_s < deadline_s:
                at = f" at: {asked.said['step']}" if "step" in asked.said else ""
                raise Missing(Unavailable.timeout(f"was cut short by the time of the run (--timeout){at}"))
            return probed(server, asked, late=late)
        finally:
            if place == "loading":
                self.loaded_since_s = self._system.clock_s()
            self.in_flight.remove(title)
            if place == "apart":
                server.close()

    async def run_each(
        self,
        probe: str,
        arguments: Sequence[dict[str, Any]],
        *,
        deadline_s: float,
        place: Place = "forked",
        title: str | None = None,
    ) -> list[Probed]:
        """Run a probe once for each of these arguments, all at the same time: one that hangs delays none of the others."""
        runs = (self.run(probe, given, deadline_s=deadline_s, place=place, title=title) for given in arguments)
        return await asyncio.gather(*runs)

    async def run_watched(
        self, probe: str, arguments: dict[str, Any], *, watcher: str, watching: dict[str, Any], python: str, deadline_s: float
    ) -> tuple[Probed, Probed | None]:
        """Run a probe apart, and while it runs another one in our own interpreter, which looks at what the first one does.

        The watcher is given `pid`, and ends when that process has, or after `most_s`. There is none where that does not start.
        """
        started: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        running = asyncio.ensure_future(
            self.run(probe, arguments, python=python, deadline_s=deadline_s, place="apart", started=started)
        )
        try:
            begun: set[asyncio.Future[Any]] = {running, started}
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            watched = None
            if started.done() and (pid := started.result()):
                given = {**watching, "pid": pid, "most_s": deadline_s}
                with suppress(Missing):  # what was measured is worth telling without it
                    watched = await self.run(watcher, given, deadline_s=LAST_LOOK_S, title=probe, beside=running)
            return await running, watched
        finally:
            running.cancel()

    def prepare(self, python: str) -> None:
        """Start an interpreter that probes will probably want, and have it import what several of them need."""
        if not self._system.mounted:
            self._server(python, "forked").import_early(WANTED_BY_SEVERAL)

    def _server(self, python: str | None, place: Place) -> ForkServer:
        """The one that forks in this interpreter, where it lives; a new one otherwise."""
        self._left_s()
        name = LOADED if place in ("loading", "loaded") else python
        known = None if place == "apart" else self._servers.get(name)
        if known and not known.given_up and not known.own.ended.done():
            return known
        if place == "loaded":
            raise Missing(Unavailable.failed("the process that had made the dataset has ended"))
        begun = self.caller if self.caller and place == "loading" else begin(python, self._variables)
        server = ForkServer(begun)
        self._guards.append(begun)
        if known:
            known.close()
        if place != "apart":
            self._servers[name] = server
        return server

    @property
    def _variables(self) -> Mapping[str, str] | None:
        """The environment that interpreters are started with; None for ours."""
        return self.caller.variables if self.caller else None

    def _left_s(self) -> float:
        left_s = self._end_s - self._system.clock_s() - GRACE_S
        if left_s <= 0:
            raise Missing(Unavailable.timeout("did not fit into the time of the run (--timeout)"))
        return left_s

    def close(self) -> None:
        """End all. The guards kill what is left, which takes them some ms, and end by themselves."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self.caller:
            self.caller.close()

    def see_off(self) -> None:
        """Reap the guards, once all is closed; one that is stuck is left."""
        end_s = time.monotonic() + (REAPING_FOR_A_CALLER_S if self.caller else REAPING_S)
        while self._guards and time.monotonic() < end_s:
            time.sleep(0.002)
            self._guards = [begun for begun in self._guards if not begun.reaped()]


def probed(server: ForkServer, asked: Conversation, *, late: bool) -> Probed:
    """What became of a probe; what does not die of SIGKILL waits otherwise than before."""
    if not asked.ended.done():
        asked.look(asked.pid)
    said = {**server.own.said, **asked.said}
    last = asked.ended.result() if asked.ended.done() else {}
    stuck: dict[str, Any] = next(iter(last.get("left") or []), {})
    raised = said.get("raised")
    how = how_it_ended(said, last, late=late)
    ended = Ended(
        how=how,
        exit_code=last.get("exit_code") if how == "exited" else None,
        signal=signal_name(last["signal"]) if how == "killed" else None,
        error=f"{raised['type']}: {raised['message']}" if raised else said.get("unstartable"),
        step=said.get("step"),
        pid=stuck.get("pid", said.get("pid")),
        state=stuck.get("state", said.get("state")),
        wait_channel=stuck.get("wait_channel", said.get("wait_channel")),
        output_tail=ending(raised["trace"], TAIL_BYTES) if raised else server.printed(),
    )
    return Probed(said["answer"] if how == "answered" else None, ended)


def how_it_ended(said: dict[str, Any], last: dict[str, Any], *, late: bool) -> How:
    if late:  # what is killed and still runs, or has been stopped for that, has had no CPU since
        return "stuck" if (last.get("left") or not last) and said.get("state") not in ("R", "S", "T") else "hung"
    if "unstartable" in said:
        return "unstartable"
    if "raised" in said:
        return "raised"
    if last.get("signal") is not None:
        return "killed"
    return "answered" if isinstance(said.get("answer"), dict) and last.get("exit_code") == 0 else "exited"


def signal_name(number: int) -> str:
    """`SIGSEGV`; the number where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_named(words: str) -> str:
    """`SIGSEGV` for strsignal(3)'s "Segmentation fault"; words that are none of those stay as they are."""
    return next((number.name for number in Signals if strsignal(number) == words), words)
