"""What goes on around a run while it collects: signals that end it early, and somebody who wants to know what it waits for."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence

INTERVAL_S = 0.2
"""Between two looks at what is in flight."""

Watcher = Callable[[Sequence[str]], None]
"""Is told every INTERVAL_S which probes are in flight."""


class Interruption:
    """The signal that ended the collecting early, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextlib.contextmanager
    def ends(self, work: "asyncio.Future[None]") -> Iterator[None]:
        """While this lasts, the first SIGINT or SIGTERM cancels `work`; a second one does what it does anywhere."""
        loop = asyncio.get_running_loop()

        def heard(number: int) -> None:
            self.signal = number
            forget()
            work.cancel()

        def forget() -> None:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError, RuntimeError):
                    loop.remove_signal_handler(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread, or Windows
                loop.add_signal_handler(number, heard, number)
        try:
            yield
        finally:
            forget()


async def tell(watcher: Watcher, in_flight: Callable[[], Sequence[str]]) -> None:
    """Tell the watcher until it is cancelled."""
    while True:
        await asyncio.sleep(INTERVAL_S)
        watcher(in_flight())
