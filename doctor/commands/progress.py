"""What a run waits for, on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dl_doctor.terminal import is_terminal
from dl_doctor.watching import Watcher

BAR = 24
"""Characters."""

SILENT_S = 1.0
"""Most runs are over by then."""


@contextmanager
def shown(meanwhile: Callable[[], object], budget_s: float | None = None) -> Iterator[Watcher]:
    """A watcher that keeps one line of standard error up to date, where that is a terminal, and takes it away at the end.

    Args:
        meanwhile: is called once, when the run begins to wait: it prepares what comes afterwards.
        budget_s: of a sweep, whose measurements have titles of several words: from the first one on a bar is shown.
    """
    terminal = is_terminal(sys.stderr)
    begin_s = time.monotonic()
    width = 0
    waiting = False
    measuring_s: float | None = None

    def watch(in_flight: Sequence[str]) -> None:
        nonlocal width, waiting, measuring_s
        if in_flight and not waiting:
            waiting = True
            meanwhile()
        passed_s = time.monotonic() - begin_s
        title = next((name for name in in_flight if " " in name), None)
        if title and measuring_s is None:
            measuring_s = passed_s
        if terminal and passed_s >= SILENT_S and in_flight:
            line = f"waiting for {', '.join(in_flight)} ({passed_s:.0f} s)"[:78]
            if title and measuring_s is not None and budget_s is not None:
                line = bar(passed_s - measuring_s, budget_s, title)[:78]
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            width = len(line)

    try:
        yield watch
    finally:
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")
            sys.stderr.flush()


def bar(passed_s: float, budget_s: float, title: str) -> str:
    """`[########----------------] at most 38 s left, loading with 8 workers`."""
    done = min(BAR, round(BAR * passed_s / budget_s))
    return f"[{'#' * done}{'-' * (BAR - done)}] at most {max(0.0, budget_s - passed_s):.0f} s left, {title}"
