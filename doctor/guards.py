"""The doctor's side of guard.py: a guard that has been started, and the pipes to it."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

GUARD = str(Path(__file__).with_name("guard.py"))
FORK_SERVER = Path(__file__).with_name("probes").joinpath("forkserver.py").read_text(encoding="utf-8")

HIGHEST_STREAM = 2
"""The descriptor of standard error."""


class Begun:
    """A guard that has been started, and our ends of the pipes to it."""

    def __init__(
        self,
        start: Callable[[tuple[int, ...], tuple[int, ...]], int],
        script: str | None = None,
        python: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Have it started.

        Args:
            start: is given the guard's ends and ours, and gives the guard's pid.
            script: what a process that was forked runs.
            python: its interpreter, where it is not ours.
            variables: its environment, where it is not ours.
        """
        self.script = script
        self.python = python
        self.variables = variables
        control, self.control = pipe()
        requests, self.requests = pipe()
        self.answers, answers = pipe()
        self.output, output = pipe()
        theirs = (control, requests, answers, output)
        try:
            self._pid = start(theirs, (self.control, self.requests, self.answers, self.output))
        finally:
            for number in theirs:
                os.close(number)
        for number in (self.requests, self.answers, self.output):
            os.set_blocking(number, False)
        self._open = True
        self._reaped = False

    @property
    def given_up(self) -> bool:
        """We have had the guard end it."""
        return self.control < 0

    def give_up(self) -> None:
        """Have the guard end everything. A byte says so: another thread's fork may hold the pipe open."""
        control, self.control = self.control, -1
        if control >= 0:
            with suppress(BrokenPipeError):
                os.write(control, b"!")
            os.close(control)

    def end(self, pid: int) -> None:
        """Have the guard kill one process, with all below it."""
        with suppress(BrokenPipeError):
            os.write(self.control, b"%d " % pid)

    def close(self) -> None:
        """Let go. The guard kills what is left and ends by itself; nothing is waited for."""
        self.give_up()
        was_open, self._open = self._open, False
        if was_open:
            for number in (self.requests, self.answers, self.output):
                os.close(number)

    def reaped(self) -> bool:
        """Whether it has ended and nothing is left of it."""
        with suppress(ChildProcessError):
            self._reaped = self._reaped or os.waitpid(self._pid, os.WNOHANG)[0] == self._pid
            return self._reaped
        return True


def pipe() -> tuple[int, int]:
    """Both ends, with numbers that are no standard stream's, where our process has closed one."""
    reading, writing = os.pipe()
    return beyond_standard_streams(reading), beyond_standard_streams(writing)


def beyond_standard_streams(number: int) -> int:
    if number > HIGHEST_STREAM:
        return number
    another = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGHEST_STREAM + 1)
    os.close(number)
    return another


def begin(python: str | None, variables: Mapping[str, str] | None = None) -> Begun:
    """Start a guard and the interpreter below it in which probes are forked, with this environment; None for ours."""

    def start(theirs: tuple[int, ...], _: tuple[int, ...]) -> int:
        answers = str(theirs[2])
        ours = [sys.executable, "-I", "-S", "-c", FORK_SERVER, answers, json.dumps(sys.path)]
        return start_guard(theirs, [python, "-c", FORK_SERVER, answers] if python else ours, variables)

    return Begun(start)


def start_guard(theirs: tuple[int, ...], command: Sequence[str], variables: Mapping[str, str] | None = None) -> int:
    """Start a guard with these descriptors and the command below it; gives the guard's pid."""
    guard = subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", GUARD, *map(str, theirs), *command],
        pass_fds=theirs,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=variables,
    )
    guard.returncode = 0  # whoever has the Begun reaps it; Popen need not warn that it still runs
    return guard.pid
