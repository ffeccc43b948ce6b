"""Other features of the DataLoader that a sweep tries at its best number of workers, each against the same without it. Pure.

An arm is a record: what it changes, what must be gained, and what it costs. A new feature of torch is a new function in ARMS.
"""

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from dl_doctor.facts.bottleneck import FREED_BY_ORDER
from dl_doctor.facts.sweep_search import AS_GOOD
from dl_doctor.units import plain

Name = Literal["in_order", "worker_method", "prefetch_factor"]
"""Of the DataLoader's parameter."""

Value = int | bool | str | None

ROUNDS = 2
"""Without and with it, in turn, so that what drifts meanwhile hits both."""

AHEAD_PAYS = 1.05
"""What twice the batches ahead must gain for the memory that they take. Proposal."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    name: Name
    value: Value
    changes: dict[str, Value]
    """Of the DataLoader's arguments."""

    least_gain: float
    """Times the rate without it, from which on it is recommended."""

    price: str
    """What it costs, in a sentence without its full stop."""

    @property
    def setting(self) -> str:
        """As it stands in a line of Python."""
        return f'{self.name}="{self.value}"' if isinstance(self.value, str) else f"{self.name}={self.value}"


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether an arm is worth trying."""

    options: tuple[str, ...]
    """Parameters that the DataLoader has there, of those that not every version has."""

    workers: int
    prefetch_factor: int
    uneven: bool
    """Whether some batches take far longer than others."""

    coupled: bool
    """Whether it is measured with the step."""

    fed: bool
    """Whether the step gets what it takes already."""

    order_gain: float | None
    """The rate of any order against that in order, where it was looked at."""

    room_for_twice: bool
    """Whether memory and shared memory hold twice the batches ahead."""


def in_any_order(now: Situation) -> Arm | None:
    if "in_order" not in now.options or now.workers < 2 or now.fed or (now.order_gain or 0.0) < FREED_BY_ORDER:
        return None
    price = "the order of batches then changes from run to run, so results are not reproducible bit for bit"
    return Arm(name="in_order", value=False, changes={"in_order": False}, least_gain=FREED_BY_ORDER, price=price)


def by_threads(now: Situation) -> Arm | None:
    """Of pytorch/pytorch#161044. Threads share the dataset and hand batches over as they are: they take less memory."""
    if "worker_method" not in now.options or not now.workers:
        return None
    changes: dict[str, Value] = {"worker_method": "thread", "multiprocessing_context": None}
    price = "threads take less memory than processes; dataset and transforms must be safe for threads"
    return Arm(name="worker_method", value="thread", changes=changes, least_gain=AS_GOOD, price=price)


def further_ahead(now: Situation) -> Arm | None:
    if not now.workers or now.fed or not (now.uneven or now.coupled) or not now.room_for_twice:
        return None
    twice = 2 * now.prefetch_factor
    price = f"up to {now.workers * twice} batches are then held ahead instead of {now.workers * now.prefetch_factor}"
    return Arm(name="prefetch_factor", value=twice, changes={"prefetch_factor": twice}, least_gain=AHEAD_PAYS, price=price)


ARMS = (in_any_order, by_threads, further_ahead)


def arms_of(now: Situation) -> list[Arm]:
    """Those that are worth trying, in their order."""
    return [arm for arm in (make(now) for make in ARMS) if arm]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """An arm, with the samples per second of each round; what was recommended before it is in both."""

    arm: Arm
    workers: int
    without: tuple[float, ...] = ()
    with_it: tuple[float, ...] = ()
    failed: str | None = None
    """Why it could not be measured."""

    @property
    def over(self) -> bool:
        return self.failed is not None or len(self.with_it) == ROUNDS

    @property
    def left(self) -> int:
        """Measurements that it still needs."""
        return 2 * ROUNDS - len(self.without) - len(self.with_it)

    @property
    def with_it_next(self) -> bool:
        return len(self.without) > len(self.with_it)

    @property
    def gain(self) -> float | None:
        """Times the rate without it; None where it was not measured to its end."""
        if self.failed is not None or len(self.with_it) < ROUNDS:
            return None
        return statistics.geometric_mean(self.pairs)

    @property
    def pairs(self) -> list[float]:
        return [with_it / without for with_it, without in zip(self.with_it, self.without, strict=False)]

    @property
    def pays(self) -> bool:
        """Whether it gains enough, and no round says that it loses."""
        return self.gain is not None and self.gain >= self.arm.least_gain and min(self.pairs) >= min(1.0, self.arm.least_gain)

    @property
    def told(self) -> str:
        """A sentence without its full stop."""
        return f"{self.arm.setting} is {plain(self.gain or 0)} times as fast; {self.arm.price}"


class Trials:
    """At one number of workers. Asked for the changes of the next measurement, and told its rate."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._waiting: list[Trial] = []
        self.made: list[Trial] = []

    def offer(self, arms: Sequence[Arm]) -> None:
        """To be tried after all others, unless it was offered before."""
        known = {trial.arm.name for trial in (*self.made, *self._waiting)}
        self._waiting += [Trial(arm=arm, workers=self.workers) for arm in arms if arm.name not in known]

    def begin(self, arm: Arm, without: float, with_it: float) -> None:
        """With a first round that was measured already."""
        self.made.append(Trial(arm=arm, workers=self.workers, without=(without,), with_it=(with_it,)))

    def next(self, left_s: float, each_s: float) -> dict[str, Value] | None:
        """What changes of the DataLoader; None where all is tried, or where there is no time for all rounds of the next arm."""
        if not self.made or self.made[-1].over:
            if not self._waiting or left_s < self._waiting[0].left * each_s:
                return None
            self.made.append(self._waiting.pop(0))
        trial = self.made[-1]
        if left_s < trial.left * each_s:
            return None
        before = {name: value for arm in self.adopted for name, value in arm.changes.items()}
        return {**before, **trial.arm.changes} if trial.with_it_next else before

    def take(self, rate: float | None, trouble: str | None = None) -> None:
        """Samples per second; None where it could not be measured."""
        trial = self.made[-1]
        if rate is None:
            told = msgspec.structs.replace(trial, failed=trouble or "too few batches came")
        elif trial.with_it_next:
            told = msgspec.structs.replace(trial, with_it=(*trial.with_it, rate))
        else:
            told = msgspec.structs.replace(trial, without=(*trial.without, rate))
        self.made[-1] = told

    @property
    def adopted(self) -> tuple[Arm, ...]:
        return tuple(trial.arm for trial in self.made if trial.pays)
