"""Probes: what can hang or crash is touched in a disposable process, with a deadline.

The doctor starts a guard (guard.py) and the guard starts the probe, so that whatever happens to the doctor nothing is left alive.
What a probe does (raise, exit, die by a signal, hang) is an answer like any other, for checks to judge.
"""

import asyncio
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from signal import Signals
from typing import Any

import msgspec

from dl_doctor.model import Ended, How, Unavailable
from dl_doctor.system import Missing, System

HERE = Path(__file__).parent
GUARD = str(HERE / "guard.py")
START = (HERE / "probes" / "start.py").read_text(encoding="utf-8")

TAIL_BYTES = 16 << 10
"""Kept of what a probe prints: the end."""

LARGEST_ANSWER_BYTES = 16 << 20

START_S = 20.0
"""How long an interpreter may take to start: seconds where it comes over a network."""

QUICK_S = 15.0
"""For a probe that is done at once: what it may take where it has half of a slow CPU. Seen there: more than 5 s."""

MOST_STARTS = 4
"""Interpreters that are started at the same time."""

GRACE_S = 0.8
"""How long the guard may take, past the deadline, to end everything and say so; its own patience and some more."""


class Probed(msgspec.Struct, frozen=True):
    """What a probe answered, if it did, and how it ended."""

    answer: dict[str, Any] | None
    ended: Ended


class Probes:
    """Runs the scripts in probes/, all within the time of the run."""

    def __init__(self, system: System, end_s: float) -> None:
        self._system = system
        self._end_s = end_s
        """When the run's time is over, by the system's clock."""

        self.own_python = sys.executable
        self.in_flight: list[str] = []
        """Names of the probes that are running."""

        self._starts = asyncio.Semaphore(MOST_STARTS)
        self._guards: list[int] = []
        """Pids of guards that may not have been reaped yet."""

    async def run(
        self, probe: str, arguments: dict[str, Any] | None = None, *, python: str = sys.executable, deadline_s: float
    ) -> Probed:
        """Run a probe in an interpreter of its own, at most so long (and GRACE_S, where it is stuck in the kernel).

        The deadline counts from when the interpreter has started, for which it has START_S: on a machine with little CPU that
        takes seconds, and only a few are started at a time.

        Args:
            probe: the file's name in probes/, without its ending.
            arguments: what it is given; JSON.
            python: the interpreter, whose environment is examined.
            deadline_s: seconds after which it and all that it started are killed.
        """
        if self._system.mounted:
            raise Missing(Unavailable.not_asked("--root shows files, and a probe is a process"))
        path = str(HERE / "probes" / f"{probe}.py")
        self.in_flight.append(probe)
        try:
            with ExitStack() as stack:
                async with self._starts:
                    left_s = self._left_s()
                    begun = Running([python, "-c", START, path], json.dumps(arguments or {}))
                    running = stack.enter_context(closing(begun))
                    self._guards.append(running.guard.pid)
                    await asyncio.wait({running.started}, timeout=min(START_S, left_s))
                left_s = self._left_s()
                await asyncio.wait({running.ended}, timeout=min(deadline_s, left_s))
                late = not running.ended.done()
                running.end()
                await asyncio.wait({running.ended}, timeout=GRACE_S)
                if late and left_s < deadline_s:
                    raise Missing(Unavailable.timeout("was cut short by the time of the run (--timeout)"))
                return running.result(late=late)
        finally:
            self.in_flight.remove(probe)

    def _left_s(self) -> float:
        left_s = self._end_s - self._system.clock_s() - GRACE_S
        if left_s <= 0:
            raise Missing(Unavailable.timeout("did not fit into the time of the run (--timeout)"))
        return left_s

    async def see_off(self) -> None:
        """Reap the guards, which end by themselves; one that is stuck is left."""
        for _ in range(20):
            self._guards = [pid for pid in self._guards if not reaped(pid)]
            if not self._guards:
                return
            await asyncio.sleep(0.01)

    async def run_each(
        self, probe: str, arguments: Sequence[dict[str, Any]], *, python: str = sys.executable, deadline_s: float
    ) -> list[Probed]:
        """Run a probe once for each of these arguments, all at the same time: one that hangs delays none of the others."""
        return await asyncio.gather(*(self.run(probe, given, python=python, deadline_s=deadline_s) for given in arguments))


def reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


class Running:
    """A guard at work: its pipes, and what has come through them so far."""

    def __init__(self, command: list[str], arguments: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = self._loop.create_future()
        """The interpreter runs, or never will."""

        self.ended: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        """The guard's last word; empty when it died without one."""

        self._frames = bytearray()
        self._tail = bytearray()
        self._messages: dict[str, Any] = {}
        control, self._control = os.pipe()
        self._answers, answers = os.pipe()
        self._output, output = os.pipe()
        theirs = (control, answers, output)
        numbers = [str(number) for number in theirs]
        try:
            self.guard = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", GUARD, *numbers, *command, str(answers), arguments],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            for number in theirs:
                os.close(number)
        for number, take in ((self._answers, self._take_frames), (self._output, self._take_output)):
            os.set_blocking(number, False)
            self._loop.add_reader(number, take)

    def end(self) -> None:
        """Have the guard kill what is left of the probe."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    def close(self) -> None:
        """Let go. The guard ends by itself, and nothing is waited for."""
        self.end()
        self._take_output()
        for number in (self._answers, self._output):
            self._loop.remove_reader(number)
            os.close(number)
        self.guard.returncode = 0  # who sees the guards off reaps it; Popen need not warn that it still runs

    def result(self, *, late: bool) -> Probed:
        last = self.ended.result() if self.ended.done() else {}
        stuck: dict[str, Any] = next(iter(last.get("left") or []), {})
        raised = self._messages.get("raised")
        how = self._how(last, late=late)
        self._take_output()
        ended = Ended(
            how=how,
            exit_code=last.get("exit_code") if how == "exited" else None,
            signal=signal_name(last["signal"]) if how == "killed" else None,
            error=f"{raised['type']}: {raised['message']}" if raised else self._messages.get("unstartable"),
            step=self._messages.get("step"),
            pid=stuck.get("pid"),
            state=stuck.get("state"),
            wait_channel=stuck.get("wait_channel"),
            output_tail=(raised["trace"] if raised else self._tail.decode("utf-8", "backslashreplace"))[-TAIL_BYTES:],
        )
        return Probed(self._messages["answer"] if how == "answered" else None, ended)

    def _how(self, last: dict[str, Any], *, late: bool) -> How:
        if late:
            return "stuck" if last.get("left") or not last else "hung"
        if "unstartable" in self._messages:
            return "unstartable"
        if "raised" in self._messages:
            return "raised"
        if last.get("signal") is not None:
            return "killed"
        return "answered" if isinstance(self._messages.get("answer"), dict) and last.get("exit_code") == 0 else "exited"

    def _take_output(self) -> None:
        with suppress(BlockingIOError):
            while chunk := os.read(self._output, TAIL_BYTES):
                self._tail += chunk
                del self._tail[:-TAIL_BYTES]
            self._loop.remove_reader(self._output)

    def _take_frames(self) -> None:
        with suppress(BlockingIOError):
            while chunk := os.read(self._answers, 1 << 16):
                self._frames += chunk
                self._split()
            self._say_ended({})  # nobody can write any more
            self._loop.remove_reader(self._answers)

    def _split(self) -> None:
        while len(self._frames) >= 4:
            (length,) = struct.unpack(">I", self._frames[:4])
            if length > LARGEST_ANSWER_BYTES:
                self._say_ended({})
                self._frames.clear()
                return
            if len(self._frames) < 4 + length:
                return
            try:
                message = msgspec.json.decode(self._frames[4 : 4 + length], type=dict[str, Any])
            except msgspec.DecodeError:  # something else wrote into the pipe
                message = {"ended": {}}
            del self._frames[: 4 + length]
            self._say_started()
            if "ended" in message:
                self._say_ended(message["ended"])
            self._messages.update(message)

    def _say_started(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def _say_ended(self, last: dict[str, Any]) -> None:
        self._say_started()
        if not self.ended.done():
            self.ended.set_result(last)


def signal_name(number: int) -> str:
    """`SIGSEGV`; the number where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
