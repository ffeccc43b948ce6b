"""What the workers of a loader really take, told after a whole epoch; run by the job's Python.

    python epoch.py PROBE FOLDER WORKERS METHOD

PROBE is doctor/probes/worker_memory.py, for its `pages`; job.py in FOLDER has `make(**options)`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

ENDS = range(0, 24, 3)
"""Batches from the end at which memory is looked at: an allocator gives some back at one of them, and none at another."""

if __name__ == "__main__":
    probe, folder, workers, method = sys.argv[1:]
    sys.path.insert(0, folder)
    names: dict[str, Any] = {"__name__": "probe"}
    exec(Path(probe).read_text(encoding="utf-8"), names)
    import job

    loader = job.make(num_workers=int(workers), multiprocessing_context=method, persistent_workers=True)
    begin = time.monotonic()
    iterator = iter(loader)
    next(iterator)
    first_s = time.monotonic() - begin
    private = [0] * int(workers)
    for batch, _ in enumerate(iterator, 2):
        if len(loader) - batch in ENDS:
            now = [names["pages"](worker.pid)["private_bytes"] for worker in iterator._workers]
            private = [max(two) for two in zip(private, now, strict=True)]
    print(json.dumps({"private_bytes": private, "first_s": first_s, "epoch_s": time.monotonic() - begin}))
    iterator._shutdown_workers()  # by themselves, where at Python's end they would be killed and leave folders behind
