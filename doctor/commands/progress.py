"""What a run waits for, on a terminal."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dl_doctor.terminal import is_terminal
from dl_doctor.watching import Watcher

SILENT_S = 1.0
"""Most runs are over by then."""


@contextmanager
def shown() -> Iterator[Watcher | None]:
    """A watcher that keeps one line of standard error up to date, and takes it away at the end; None without a terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    begin_s = time.monotonic()
    width = 0

    def watch(in_flight: Sequence[str]) -> None:
        nonlocal width
        passed_s = time.monotonic() - begin_s
        if passed_s >= SILENT_S and in_flight:
            line = f"waiting for {', '.join(in_flight)} ({passed_s:.0f} s)"[:78]
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            width = len(line)

    try:
        yield watch
    finally:
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")
            sys.stderr.flush()
