"""A fork of this process, with a guard, in place of an interpreter: there what it holds is examined."""

import sys
from pathlib import Path

from dl_doctor import guard
from dl_doctor.guards import Begun
from dl_doctor.probes.at_fork import unsafe_at_fork
from dl_doctor.probes.leaving import fork, serve


def fork_with(given: object) -> Begun:
    """Fork this process, in this thread; the probe that is loading there gets `given` and what is alive here that a fork breaks:
    threads of libraries are not in the fork any more. Nothing changes here.
    """
    alive = unsafe_at_fork()  # type: ignore[no-untyped-call]

    def start(theirs: tuple[int, ...], ours: tuple[int, ...]) -> int:
        pid: int = fork(guard.main, theirs, ours, lambda answers: serve(answers, given, alive))  # type: ignore[no-untyped-call]
        return pid

    return Begun(start, script=script())


def script() -> str | None:
    """The file that this process was started with; a notebook has none."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(path).absolute()) if isinstance(path, str) and Path(path).is_file() else None
