"""Work that all GPUs do at once, timed by each GPU itself."""

import time

from .gpu_devices import words_of

BLOCK_S = 0.012
"""What a block takes at least: long against the launch that stands before it, which a kernel that waits in the queue has not."""

MOST_PIECES = 256
"""Of tiny work in a block: a GPU's queue holds 1,024 launches (from memory), and whoever launches one more has to wait."""

QUEUED = 3
"""Blocks that wait in a GPU's queue: it never runs dry while another GPU is served."""

PAUSE_S = 0.0002
SETTLED = 0.01
"""By how much the median block may still change once the clock is steady. Proposal."""

SLICE_S = 0.1
NOISY = 0.1
"""A spread above which all is measured once more (as torch.utils.benchmark warns)."""


class Run:
    """The same work again and again on one GPU, in blocks between two events."""

    def __init__(self, device, what, work, amount, block=1):
        self.device, self.what, self.work = device, what, work
        self.amount = amount  # operations or bytes of one piece of work
        self.block = block  # pieces in a block
        self.pending, self.taken = [], []

    @property
    def open(self):
        return self.what not in self.device.raised

    def calibrate(self, most_s):
        """Do it for the first time, which loads kernels, then twice against the clock; blocks are made long enough by that."""
        once_s = self.guarded(self.time_once)
        if once_s is not None:
            self.block = max(1, min(MOST_PIECES, int(BLOCK_S / once_s) + 1, int(most_s / 10 / once_s)))
        return once_s

    def time_once(self):
        self.device.use()
        self.work()
        self.device.wait()
        begin = self.device.mark()
        self.work()
        self.work()
        end = self.device.mark()
        self.device.wait()
        return max(begin.elapsed_time(end) / 2000, 1e-7)

    def guarded(self, action):
        """What it gives; None where it raises, which ends this work on this GPU."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 (out of memory, not supported, a GPU that is ill: it is told)
            self.device.raised[self.what] = words_of(error)
            return None

    def go_on(self):
        """Put one more block into the queue, if there is room; gives whether there was."""
        while self.pending and self.pending[0][1].query():
            begin, end = self.pending.pop(0)
            self.taken.append(begin.elapsed_time(end) / 1000)
        if len(self.pending) >= QUEUED:
            return False
        self.device.use()
        begin = self.device.mark()
        for _ in range(self.block):
            self.work()
        self.pending.append((begin, self.device.mark()))
        return True

    def finish(self):
        self.device.wait()
        self.taken.extend(begin.elapsed_time(end) / 1000 for begin, end in self.pending)
        self.pending = []

    def rates(self):
        """Amount per second of each block."""
        return [self.block * self.amount / taken for taken in self.taken if taken > 0]


def race(runs, seconds):
    """Have all GPUs work at once, for so long; gives when it began and when the last one had ended."""
    for run in runs:
        run.taken = []
    begin_s = time.monotonic()
    end_s = begin_s + seconds
    while time.monotonic() < end_s and any(run.open for run in runs):
        went_on = [run.guarded(run.go_on) for run in runs if run.open]
        if not any(went_on):
            time.sleep(PAUSE_S)
    for run in runs:
        if run.open:
            run.guarded(run.finish)
    return begin_s, time.monotonic()


def settle(runs, most_s):
    """Have all work until their clocks are steady. A clock cannot be seen from here, but what a block takes follows it."""
    before = {}  # type: dict[Run, float]
    end_s = time.monotonic() + most_s
    while time.monotonic() < end_s:
        race(runs, min(SLICE_S, most_s))
        now = {run: quantile(run.rates(), 0.5) for run in runs if run.open and run.rates()}
        if now and all(run in before and abs(now[run] - before[run]) <= SETTLED * before[run] for run in now):
            return
        before = now


def measure(runs, seconds):
    """Race; once more, where it was noisy, and of the two for each GPU the one that was less so. Gives the begin and the end."""
    begin_s, end_s = race(runs, seconds)
    found = {run: summary(run) for run in runs if run.open and run.rates()}
    if any(told["spread"] > NOISY for told in found.values()):
        end_s = race(runs, seconds)[1]
        for run in list(found):
            again = summary(run) if run.open and run.rates() else None
            if again and again["spread"] < found[run]["spread"]:
                found[run] = again
    return found, begin_s, end_s


def summary(run):
    rates = sorted(run.rates())
    median = quantile(rates, 0.5)
    spread = (quantile(rates, 0.75) - quantile(rates, 0.25)) / median
    return {"achieved": median, "best": rates[-1], "spread": spread, "blocks": len(rates)}


def quantile(values, share):
    """Between the two nearest, in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
