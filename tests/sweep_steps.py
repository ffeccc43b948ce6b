"""What a job does with a batch, for the sweep."""

import time


def busy(_: object) -> None:
    """As a step that the host launches kernel by kernel: the CPU is never idle."""
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
