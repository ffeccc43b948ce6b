"""How long the user's step takes on batches that are there already, and whether it keeps the CPU busy meanwhile."""

import itertools
import time

from .accounts import queued_s
from .step_function import step_function
from .sweep_costs import Work, batches_of

BATCHES = 4
WARM = 3
HOST_BUSY = 0.8
"""Of the step's time, that the main process computes before the GPU is even waited for."""


def probe(arguments, step, loaded):
    """`step_spec` (pkg.module:function, called with each batch), `batch_size`, `most_s`, `allowed_bytes`."""
    loaded.limit_memory(arguments["allowed_bytes"])
    step("make batches")
    work = Work(loaded)
    batches = [work.do(indices) for indices in itertools.islice(batches_of(loaded, arguments["batch_size"]), BATCHES)]
    step("import " + arguments["step_spec"])
    function = step_function(arguments["step_spec"])
    step("call " + arguments["step_spec"])
    cuda = loaded.torch.cuda if loaded.torch.cuda.is_available() else None
    wait = cuda.synchronize if cuda else (lambda: None)
    for batch in batches[:WARM]:
        function(batch)
    wait()

    def now_s():
        """A clock that stands while this thread waits for a CPU, which others have."""
        return loaded.clock_s() - queued_s()

    begin_s, cpu_s, called_s, calls = now_s(), time.thread_time(), 0.0, 0
    while not calls or now_s() - begin_s < arguments["most_s"] / 2:
        since_s = now_s()
        function(batches[calls % len(batches)])
        called_s += now_s() - since_s
        calls += 1
    computed_s = time.thread_time() - cpu_s
    wait()
    all_s = now_s() - begin_s
    return {"step_s": all_s / calls, "host_bound": called_s >= 0.9 * all_s and computed_s >= HOST_BUSY * called_s}
