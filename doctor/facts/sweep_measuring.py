"""A measurement of a sweep: the probe that takes it, what each of its processes is told, and how long it may take. Pure."""

from typing import Any, Literal

import msgspec

from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.sweep_room import Room
from dl_doctor.facts.sweep_search import Purpose
from dl_doctor.facts.worker_draws import arguments_of
from dl_doctor.units import count

LONGEST_WINDOW_S, SHORTEST_WINDOW_S = 3.0, 0.5
"""That a setting is measured for, by what time there is."""

WINDOWS_IN_BUDGET = 24
"""So many windows, with what starting takes, make a sweep."""

LONGEST_WINDOWS = 4
"""A slow dataset may take so many windows for the few batches that make a measurement."""

TURNS = 6
"""Batches that each worker delivers for a measurement: two before it begins, and four while it goes on."""

STARTING_S = 15.0
"""What a process may take beyond what it was told: 4 workers by spawn on 2 CPUs have their first batch after 9 to 11 s."""

SHARING_S = 4.0
"""For seeing whether workers of an iterable dataset share its items out; more if 16 of them take longer."""

Kind = Literal["costs", "sharing", "step", "cached", "rung", "any order", "arm", "first"]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    probe: str
    arguments: list[dict[str, Any]]
    """Of each process that runs at the same time."""

    title: str
    """For whoever waits."""

    most_s: float
    workers: int = 0
    purpose: Purpose = "ladder"
    warm: bool = True


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, as far as is known so far; 0 where it is not."""

    batch_s: float
    """Of one process, for reading and collating."""

    starting_s: float
    """What the first batch takes longer than that."""

    step_s: float | None
    cpus: float
    """That a rank may use."""


class Measuring(msgspec.Struct, frozen=True, kw_only=True):
    """What all measurements of a sweep have in common, of which it makes each."""

    plan: LoaderPlan
    """With the ranks of the sweep."""

    method: str
    """By which workers are started."""

    room: Room
    window_s: float
    """For which a setting is measured."""

    step_spec: str | None
    own_batch_size: int | None
    """None where the loader has its own."""

    pin_memory: bool

    def costs(self) -> Measurement:
        return self._alone("costs", "sweep_costs", "what a sample costs")

    def step(self) -> Measurement:
        return self._alone("step", "sweep_step", "the step", step_spec=self.step_spec)

    def _alone(self, kind: Kind, probe: str, title: str, **more: Any) -> Measurement:
        """Of one process without workers."""
        most_s = 2 * self.window_s
        arguments = {"batch_size": self.own_batch_size, "allowed_bytes": self.room.allowed_bytes, "most_s": most_s, **more}
        return Measurement(kind=kind, probe=probe, arguments=[arguments], title=title, most_s=most_s)

    def sharing(self) -> Measurement:
        arguments = arguments_of("iterable", self.room.allowed_bytes, 2, min(SHARING_S, self.window_s))
        return Measurement(
            kind="sharing", probe="worker_draws", arguments=arguments, title="whether workers share the data", most_s=SHARING_S
        )

    def loading(
        self,
        kind: Kind,
        workers: int,
        purpose: Purpose,
        changes: dict[str, Any],
        *,
        begin: int,
        again: int | None,
        warm: bool,
        pace: Pace,
        left_s: float,
    ) -> Measurement:
        """A DataLoader with so many workers, in a process for each rank.

        Args:
            kind: what it is for.
            workers: of each rank.
            purpose: what the search wants it for.
            changes: of the DataLoader's arguments, beyond the number of workers.
            begin: the first batch that is read, by the first rank; the ranks take turns from there.
            again: how many batches are read over and over; None for all that come.
            warm: whether they have been read before.
            pace: for how long it may take.
            left_s: of the budget.
        """
        cached = kind == "cached"
        most_s = self._most_s(workers, pace, left_s, cached=cached)
        plain = {
            "workers": workers,
            "prefetch_factor": self.plan.prefetch_factor,
            "method": "fork" if cached else self.method,  # what is cached cannot be sent, and rates are the same
            "pin_memory": self.pin_memory,
            "batch_size": self.own_batch_size,
            "window_s": self.window_s / 2 if cached else self.window_s,
            "most_s": most_s,
            "worker_bytes": self.room.allowed_bytes // (self.plan.ranks * max(workers, 1)),
            "shared_bytes": self.room.allowed_bytes,
            "step_s": None if cached or self.step_spec else pace.step_s,
            "step_spec": None if cached else self.step_spec,
            "cached": cached,
            "changes": changes or ({"in_order": False} if kind == "any order" else {}),
            "every": 1 if cached else self.plan.ranks,
            "again": again,
        }
        return Measurement(
            kind=kind,
            probe="sweep_rung",
            arguments=[{**plain, "begin": 0 if cached else begin + rank} for rank in range(self.plan.ranks)],
            title=f"{title_of(kind, changes)} with {count(workers, 'worker')}",
            most_s=most_s,
            workers=workers,
            purpose=purpose,
            warm=warm,
        )

    def _most_s(self, workers: int, pace: Pace, left_s: float, *, cached: bool) -> float:
        """Some windows, or as many turns of slow batches or steps as count, and what starting takes; within what is left."""
        loading_s = pace.batch_s * max(1.0, workers / pace.cpus)
        taking_s = max(workers, 1) * (pace.step_s or 0.0)
        turns_s = 0.0 if cached else TURNS * max(loading_s, taking_s)
        return min(left_s, max(LONGEST_WINDOWS * self.window_s, turns_s) + pace.starting_s + 0.5 * workers)


def window_s(budget_s: float) -> float:
    return min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, budget_s / WINDOWS_IN_BUDGET))


def title_of(kind: Kind, changes: dict[str, Any]) -> str:
    told = ", ".join(f"{name}={value}" for name, value in changes.items()) or "as before"
    titles = {
        "cached": "handing over",
        "any order": "loading in any order",
        "arm": f"trying {told}",
        "first": "loading for the first time",
    }
    return titles.get(kind, "loading")
