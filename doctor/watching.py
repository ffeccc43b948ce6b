"""What goes on around a run while it collects: signals that end it early, and somebody who wants to know what it waits for."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

INTERVAL_S = 0.2
"""Between two looks at what is in flight."""

SOON_S = 0.01
"""The same where nothing is yet: whoever has something to prepare does it while the first ones start."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask a process to end."""

PATIENCE_S = 1.0
"""What a signal waits for the loop; in between, collectors do what takes some ms."""

Watcher = Callable[[Sequence[str]], None]
"""Is told which probes are in flight: when the first have been started, and every INTERVAL_S."""


class Interruption:
    """The signal that ended the collecting early, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._end: Callable[[], object] = lambda: None

    def end(self) -> None:
        """As the first SIGINT would, from another thread."""
        self.signal = signal.SIGINT
        self._end()

    @contextlib.contextmanager
    def ends(self, work: "asyncio.Future[None]") -> Iterator[None]:
        """While this lasts, the first SIGINT or SIGTERM cancels `work`, and a second one ends the process.

        So does the first one where the loop does not come round to hear of it: a collector waits in a system call.
        """
        loop = asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(work.cancel)
        if self.signal is not None:
            work.cancel()

        def arrived(number: int, _frame: FrameType | None) -> None:
            for each in ENDING:
                signal.signal(each, signal.SIG_DFL)
            self.signal = number
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
            loop.call_soon_threadsafe(heard)

        def heard() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            work.cancel()

        if threading.current_thread() is not threading.main_thread():  # which alone may say what signals do
            yield
            self._end = lambda: None
            return
        before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGALRM)}
        for number in ENDING:
            signal.signal(number, arrived)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)


async def tell(watcher: Watcher, in_flight: Callable[[], Sequence[str]]) -> None:
    """Tell the watcher until it is cancelled."""
    while True:
        seen = in_flight()
        watcher(seen)
        await asyncio.sleep(INTERVAL_S if seen else SOON_S)
