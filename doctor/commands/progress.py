"""What a run waits for, on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dl_doctor.terminal import is_terminal
from dl_doctor.watching import Watcher

SILENT_S = 1.0
"""Most runs are over by then."""


@contextmanager
def shown(meanwhile: Callable[[], object]) -> Iterator[Watcher]:
    """A watcher that keeps one line of standard error up to date, where that is a terminal, and takes it away at the end.

    `meanwhile` is called once, when the run begins to wait: it prepares what comes afterwards.
    """
    terminal = is_terminal(sys.stderr)
    begin_s = time.monotonic()
    width = 0
    waiting = False

    def watch(in_flight: Sequence[str]) -> None:
        nonlocal width, waiting
        if in_flight and not waiting:
            waiting = True
            meanwhile()
        passed_s = time.monotonic() - begin_s
        if terminal and passed_s >= SILENT_S and in_flight:
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
