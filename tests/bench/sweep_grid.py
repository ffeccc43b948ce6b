"""Samples per second at each number of workers, in the simplest way: a DataLoader, a loop and a clock. In the job's Python.

`python sweep_grid.py SECONDS STEP_MS WORKERS...`, with the case in SWEEP_CASE, prints a list of rates as JSON.
"""

import json
import sys
import time

from sweep_case import make_loader
from torch.utils.data import DataLoader


def rate(workers: int, seconds: float, step_s: float) -> float:
    """Of batches that come after each worker has delivered two, and in whole turns of all workers."""
    own = make_loader()
    loader = DataLoader(own.dataset, batch_size=own.batch_size, shuffle=True, collate_fn=own.collate_fn, num_workers=workers)
    turn = max(workers, 1)
    number, begin_s, since = 0, 0.0, 0
    for number, _ in enumerate(loader, start=1):
        if step_s:
            time.sleep(step_s)
        now = time.monotonic()
        if number == 2 * turn:
            begin_s, since = now, number
        elif number > 2 * turn and number % turn == 0 and now - begin_s >= seconds:
            return own.batch_size * (number - since) / (now - begin_s)
    raise AssertionError(f"the loader ended after {number} batches")


if __name__ == "__main__":
    seconds, step_ms, *workers = sys.argv[1:]
    print(json.dumps([rate(int(number), float(seconds), float(step_ms) / 1000) for number in workers]))
