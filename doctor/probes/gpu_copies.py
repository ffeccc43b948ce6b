"""Copies on a GPU and over its link to the host, and what the CPU takes to launch work."""

import os
import time

from .gpu_devices import cpus_near, node_of_page
from .gpu_race import Run, measure

LEAST_BYTES = 1 << 20
"""Of a copy over a link that is very slow."""

L2_TIMES = 3
"""So much larger than the second-level cache is each buffer of a copy on the GPU: else the cache is measured."""

PARTS = 8
"""Copies over the link that are to fit into the time."""

LAUNCHES, AT_ONCE, WAITS = 10000, 500, 200
"""Fewer launches at once than the 1,024 that a GPU's queue holds (from memory), so that none waits for another's end."""

BURST_S = 0.05


def copy_on(device, size):
    """A Run that copies between two buffers of the GPU. It reads and writes: twice the bytes move."""
    size = min(size, device.budget // 2)
    if size < L2_TIMES * device.l2_bytes:
        device.raised["copy"] = "the memory that may be taken is too small: a cache of %d MiB would be measured" % (
            device.l2_bytes >> 20
        )
        return None

    def begun():
        device.use()
        source = device.torch.ones(size, dtype=device.torch.uint8, device=device.place)
        sink = device.torch.empty_like(source)

        def work():
            sink.copy_(source)

        return work

    work = Run(device, "copy", None, 0).guarded(begun)
    return work and Run(device, "copy", work, 2 * size)


class Pinned:
    """Buffers of pinned memory, one for each NUMA node, because that decides how fast they are copied.

    torch keeps pinned memory, and would give what one GPU had to the next one, wherever it lies.
    """

    def __init__(self, torch, size):
        self.torch, self.size = torch, size
        self.buffers = {}

    def near(self, device):
        """Pinned by a thread on CPUs next to the GPU, where the mask of this process has any; gives it and its node."""
        mask = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        close = frozenset(mask & cpus_near(device.told["pci"]))
        if close not in self.buffers:
            if close:
                os.sched_setaffinity(0, close)
            try:
                plain = device.kind == "cpu"
                buffer = self.torch.empty(self.size, dtype=self.torch.uint8, pin_memory=not plain).fill_(1)
            finally:
                if close:
                    os.sched_setaffinity(0, mask)
            self.buffers[close] = buffer
        buffer = self.buffers[close]
        return buffer, node_of_page(buffer.data_ptr())


def over_the_link(device, host, seconds, suffix=""):
    """Both directions, one after the other; gives what was found for each and when it began and ended."""
    size = min(host.numel(), device.budget)

    def begun():
        device.use()
        return device.torch.empty(size, dtype=device.torch.uint8, device=device.place)

    inside = Run(device, "link", None, 0).guarded(begun)
    if inside is None:
        return {}
    found = {}
    for what, sink, source in (("host to device", inside, host), ("device to host", host, inside)):
        run = fitted(device, what + suffix, sink, source, size, seconds)
        if run is not None:
            told, begin_s, end_s = measure([run], seconds)
            if run in told:
                found[what + suffix] = told[run], begin_s, end_s
    return found


def fitted(device, what, sink, source, size, seconds):
    """A Run of copies of which several fit into the time; None where it does not work."""
    trial = copying(device, what, sink, source, min(size, LEAST_BYTES))
    once_s = trial.calibrate(seconds)
    if once_s is None:
        return None
    while size > LEAST_BYTES and once_s * size / LEAST_BYTES > seconds / PARTS:
        size //= 2
    run = copying(device, what, sink, source, size)
    return run if run.calibrate(seconds) is not None else None


def copying(device, what, sink, source, size):
    sink, source = sink[:size], source[:size]

    def work():
        sink.copy_(source, non_blocking=True)

    return Run(device, what, work, size)


def overlap(device, run, host):
    """The part of a copy from the host that hides behind products: both take as long alone, then run at the same time."""
    streams = [device.module.Stream(device.index) for _ in range(2)]
    inside = device.torch.empty(min(host.numel(), device.budget), dtype=device.torch.uint8, device=device.place)
    copy = copying(device, run.what, inside, host, inside.numel())

    def taken(pairs):
        """Seconds by the CPU's clock, which two streams have in common."""
        device.wait()
        begin_s = time.perf_counter()
        for work, times, stream in pairs:
            with device.module.stream(stream):
                for _ in range(times):
                    work()
        device.wait()
        return time.perf_counter() - begin_s

    device.use()
    products = run.work, max(1, int(BURST_S / run.time_once())), streams[0]
    copies = copy.work, max(1, int(BURST_S / copy.time_once())), streams[1]
    taken([products, copies])
    products_s, copies_s, both_s = (min(taken(pairs) for _ in range(2)) for pairs in ([products], [copies], [products, copies]))
    return max(0.0, min(1.0, (products_s + copies_s - both_s) / min(products_s, copies_s)))


def launching(device, share=1.0):
    """Microseconds to launch a tiny kernel, and to launch one and wait for it; both by the CPU's clock."""
    device.use()
    tiny = device.torch.zeros(1, device=device.place)
    spent_s, launched = 0.0, 0
    for _ in range(max(1, int(share * LAUNCHES / AT_ONCE))):
        device.wait()
        begin_s = time.perf_counter()
        for _ in range(AT_ONCE):
            tiny.add_(1)
        spent_s += time.perf_counter() - begin_s
        launched += AT_ONCE
    device.wait()
    waits = max(1, int(share * WAITS))
    begin_s = time.perf_counter()
    for _ in range(waits):
        tiny.add_(1)
        device.wait()
    return 1e6 * spent_s / launched, 1e6 * (time.perf_counter() - begin_s) / waits
