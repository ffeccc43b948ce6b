"""The course of a sweep: what is measured next, and what is known so far. It looks at nothing itself."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from dl_doctor.facts.bottleneck import FED, SLOW_BATCHES, STORED_BYTES, Costs, Known
from dl_doctor.facts.cold_and_warm import Epochs, data_bytes, epochs_that_count
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.recommending import Choice, choose
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.sweep_advice import half_widths
from dl_doctor.facts.sweep_arms import Situation, Trials, arms_of, in_any_order
from dl_doctor.facts.sweep_measuring import TURNS, Kind, Measurement, Measuring, Pace, window_s
from dl_doctor.facts.sweep_room import room_of
from dl_doctor.facts.sweep_rungs import Delivery, Measured, delivery_of, disturbed, measurement_of, received_of
from dl_doctor.facts.sweep_search import MOST_WORKERS, Bounds, Purpose, Tried, next_on_ladder, next_rung
from dl_doctor.facts.sweep_trouble import Undelivered, in_a_line, trouble_of, without_answer
from dl_doctor.facts.trouble import refused_memory
from dl_doctor.facts.worker_draws import WorkerDraws, draws_of
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probed
from dl_doctor.settings import SweepOptions
from dl_doctor.units import count, plain

WITH_SETTLING = 1.5
"""Times a window that a measurement takes, after its first batch."""

SLOW_WINDOWS = 2
"""A measurement that takes more windows than that, because batches take long, is worth saving."""

RUNGS = 10
"""Measurements of a sweep, at least, for an estimate of its time: five numbers of workers, a gap, two of them twice more."""

OVERTIME_S = 1.0
"""That the last setting may take beyond the budget, by what starting workers took before it."""


class Course:
    """Asked for what comes next, and told what came of it."""

    def __init__(
        self,
        options: SweepOptions,
        loader: Loader,
        plan: LoaderPlan,
        method: str,
        cpu: CpuBudget,
        memory: MemoryBudget,
        shm: SharedMemory | Unavailable,
    ) -> None:
        self.options, self.loader, self.method = options, loader, method
        self.ranks = options.ranks or plan.ranks
        self.plan = msgspec.structs.replace(plan, ranks=self.ranks)
        self.room = room_of(memory, shm)
        self.measuring = Measuring(
            plan=self.plan,
            method=method,
            room=self.room,
            window_s=window_s(options.budget_s),
            step_spec=options.step,
            own_batch_size=self._own_batch_size(),
            pin_memory=bool(plan.pin_memory) and not loader.cuda_used,
        )
        self.persistent = bool(loader.arguments and loader.arguments.persistent_workers)
        self.measured: list[Measured] = []
        self.first: list[Measured] = []
        """While reading for the first time, where settings are compared while reading again."""

        self.costs: Costs | None = None
        self.cached: dict[int, float] = {}
        self.delivering_s: float | None = None
        self.order_gain: float | None = None
        self.started_s = 0.0
        """Until the first batch came, where a measurement had too little time for that."""

        self.step_s = options.step_time_s
        self.host_bound = False
        self.broke: str | None = None
        """What the loader itself raised, or how its process ended, in a line."""

        self.unmeasurable = self._too_slow_a_step()
        """Why nothing can be measured, though the loader may be well."""

        self.limited_by: str | None = None
        """What kept it from more workers."""

        self.no_room: str | None = None
        """The same, where it is memory or shared memory."""

        self.nothing_to_read: str | None = None
        """Why more workers would have nothing of their own to read, of an iterable dataset."""

        self.repeats = False
        """Whether each worker gives all of an iterable dataset."""

        self.sharing = ""
        """What is to be said beside more workers of an iterable dataset: that each may give everything."""

        self.trials: Trials | None = None
        self.out_of_time = False
        self.complete = False
        self._done: set[tuple[Kind, int]] = set()
        self._read_batches = 0
        self._repeated: set[int] = set()
        wished = max([MOST_WORKERS, plan.num_workers or 0, *(options.workers or ())])
        parts, self._parts_in_words = self._parts()
        if parts and parts < wished and not options.workers:
            # a sampler gives a measurement more batches than an epoch has, so more workers would only seem to be faster
            wished = parts if loader.kind == "map" else max(parts, plan.num_workers or 0)
            self.nothing_to_read = f"{self._parts_in_words}: more workers would have nothing to read"
        most, self.no_room = self.room.most_workers(self.plan, wished)
        self.limited_by = self.no_room
        self.bounds = Bounds(
            cpus=cpu.cpus * plan.ranks / self.ranks,
            most=most,
            parts=parts,
            current=plan.num_workers,
            listed=options.workers,
            demand=self.demand_per_s,
            budget_s=options.budget_s,
        )

    def _own_batch_size(self) -> int | None:
        """None where the loader has its own."""
        own = self.loader.arguments
        return None if own is not None and own.batch_size == self.plan.batch_size else self.plan.batch_size

    @property
    def epoch_samples(self) -> float | None:
        """Of one epoch of one rank."""
        own = self.loader.arguments
        batches = own.batches if own else None
        if batches is not None and self.plan.batch_size is not None:
            whole = float(batches * self.plan.batch_size)
            return min(whole, self.loader.length) if self.loader.length is not None else whole
        return None if self.loader.length is None else float(self.loader.length)

    @property
    def epoch_batches(self) -> int | None:
        own = self.loader.arguments
        if own is not None and own.batches is not None:
            return own.batches
        if self.loader.length is None or not self.plan.batch_size:
            return None
        return math.ceil(self.loader.length / self.plan.batch_size)

    def _parts(self) -> tuple[int | None, str]:
        """Of an epoch, which one worker each reads: shards that an iterable dataset tells of, or batches."""
        if self.loader.kind == "iterable":
            shards = self.loader.shards or None
            return shards, count(shards, "shard") if shards else ""
        batches = self.epoch_batches or None
        return batches, f"an epoch of {batches} batch{'' if batches == 1 else 'es'}"

    @property
    def demand_per_s(self) -> float | None:
        """Samples that the step takes per second."""
        return self.plan.batch_size / self.step_s if self.step_s and self.plan.batch_size else None

    @property
    def first_batch_s(self) -> float:
        """What one process takes for its first batch; 0 where that is not known yet."""
        if self.costs is None:
            return 0.0
        size = self.plan.batch_size
        return size * (self.costs.read_s + self.costs.collate_s) if size else self.costs.typical_s

    @property
    def batch_s(self) -> float:
        """The same for those after it: the first one may open files, or import what reads them."""
        size = self.plan.batch_size
        if self.costs is None or not size or self._reads_again:
            return self.first_batch_s
        later_s = [max(one.workers, 1) * size / one.rate.samples_per_s for one in self.measured]
        if self.costs.batches == 1 and self.costs.again_s is not None and self.costs.from_memory:
            later_s.append(size * (self.costs.again_s + self.costs.collate_s))
        return min([self.first_batch_s, *later_s])

    @property
    def undecided(self) -> bool:
        """Whether it is still on the way up, where time is over or it is interrupted, before the setting of now was tried or
        while that is the best so far: that one worker is no faster than none says nothing of four.
        """
        if not self.measured or next_on_ladder(self.tried, self.bounds) is None:
            return False
        reach = min(2 if self.bounds.current is None else self.bounds.current, self.bounds.most)
        asked_for = self.bounds.listed is not None
        return not asked_for and (max(one.workers for one in self.measured) < reach or self.choice.conclusion == "keep")

    @property
    def more_than_batches(self) -> bool:
        """Whether the job has more workers than an epoch has batches: then its setting is not measured."""
        current, parts = self.bounds.current, self.bounds.parts
        return self.loader.kind == "map" and current is not None and parts is not None and current > parts

    @property
    def no_room_for_more(self) -> str | None:
        """What keeps it from the next workers that it would try, where it is memory: not where time, or the user's list, does."""
        listed = self.bounds.listed
        wanted = next_on_ladder(self.tried, self.bounds) is None and (listed is None or max(listed) > self.bounds.most)
        return self.no_room if wanted else None

    @property
    def data_bytes(self) -> int | None:
        return data_bytes(self.costs, self.loader.length)

    @property
    def epochs(self) -> Epochs:
        """Those that count."""
        return epochs_that_count(self.data_bytes, self.room.headroom_bytes)

    @property
    def reads_a_disk(self) -> bool:
        """Whether it may matter if data is read for the first time."""
        seen = [self.costs and self.costs.stored_bytes, *(one.evidence.stored_bytes for one in self.measured)]
        return any((stored or 0.0) >= STORED_BYTES for stored in seen)

    @property
    def judged(self) -> list[Measured]:
        """All that was measured, with a mark where others disturbed it."""
        return [msgspec.structs.replace(one, disturbed=self._disturbed(one)) for one in [*self.measured, *self.first]]

    @property
    def tried(self) -> list[Tried]:
        return [one.tried(self.epoch_samples, persistent=self.persistent) for one in self.measured]

    @property
    def choice(self) -> Choice:
        """A setting of now with more workers than there are parts is not kept, however fast: the rest of them read nothing."""
        current, parts = self.bounds.current, self.bounds.parts
        sensible = None if current is not None and parts is not None and current > parts else current
        return choose(self.tried, sensible, half_widths(self.measured))

    @property
    def in_order(self) -> bool:
        """Whether the loader as it is delivers batches in the sampler's order."""
        return self.loader.arguments is None or self.loader.arguments.in_order

    @property
    def known(self) -> Known:
        alone = [one.rate.samples_per_s for one in self.measured if one.workers == 1]
        alone = alone or [one.rate.samples_per_s for one in self.measured if one.workers == 0]
        return Known(
            costs=self.costs.of_later_epochs if self.costs and self._reads_again else self.costs,
            one_worker_per_s=sum(alone) / len(alone) if alone else None,
            cached=self.cached,
            delivering_s=self.delivering_s,
            demand_per_s=self.demand_per_s,
            host_bound=self.host_bound,
            persistent=self.persistent,
            parts=self.bounds.parts,
            parts_in_words=self._parts_in_words,
            received_bytes=received_of(self.measured),
            order_gain=self.order_gain,
        )

    def next(self, left_s: float) -> Measurement | None:
        """What comes next in the time that is left; None at the end."""
        self.out_of_time = self.out_of_time or left_s < self.measuring.window_s
        if self.broke or self.unmeasurable or self.out_of_time:
            return None
        if ("costs", 0) not in self._done:
            return self.measuring.costs()
        if self.loader.kind == "iterable" and ("sharing", 0) not in self._done:
            return self.measuring.sharing()
        if self.options.step and ("step", 0) not in self._done:
            return self.measuring.step()
        if ("cached", 1) not in self._done:
            return self._loading("cached", 1, left_s)
        return self._next_loading(left_s)

    def _next_loading(self, left_s: float) -> Measurement | None:
        if (shaken := self._to_repeat(left_s)) is not None:
            return self._loading("rung", shaken.workers, left_s, shaken.purpose)
        rung = next_rung(self.tried, self.bounds)
        best = max(self.tried, key=lambda one: one.score).workers if self.tried else 0
        climbed = rung is None or rung.purpose == "verify"
        if climbed and best > 1 and self._has_slow_batches and self._may_reorder and not self._was_measured("any order"):
            return self._loading("any order", best, left_s)
        if climbed and (trial := self._next_trial(left_s)):
            return trial  # in any order, before time is spent on comparing numbers of workers in order
        if climbed and self._reads_again and not self._all_read and not self._was_measured("first"):
            return self._loading("first", best, left_s, "first")
        if rung is not None and self._fits(left_s):
            return self._loading("rung", rung.workers, left_s, rung.purpose)
        if rung is not None:
            self.out_of_time = True
            return None
        self.complete = True
        if best > 1 and ("cached", best) not in self._done:
            return self._loading("cached", best, left_s)
        self._offer_arms()
        return self._next_trial(left_s)

    def take(self, asked: Measurement, answers: Sequence[Probed], throttled: float | None) -> None:
        """What came of the measurement that was asked for."""
        if asked.kind in ("costs", "step", "sharing"):
            self._done.add((asked.kind, 0))
            self._take_alone(asked, answers)
            return
        self._done.add((asked.kind, asked.workers))
        trouble = next(filter(None, map(trouble_of, answers)), None)
        found, deliveries = None, []
        if trouble is None:
            deliveries = [delivery_of(answer.answer or {}) for answer in answers]
            if asked.kind != "cached" and asked.arguments[0]["again"] is None:
                ahead = asked.workers * asked.arguments[0]["changes"].get("prefetch_factor", self.plan.prefetch_factor)
                self._read_batches += self.ranks * (max(one.batches for one in deliveries) + ahead)
            found = measurement_of(
                deliveries,
                workers=asked.workers,
                purpose=asked.purpose,
                warm=asked.warm,
                epoch_samples=self.epoch_samples,
                throttled=throttled,
            )
        if asked.kind != "rung":
            self._take_beside(asked, found, trouble)
        elif found:
            self._keep(found)
        elif trouble is not None:
            self._stop_at(asked.workers, trouble)
        elif not self._starts_later_than_thought(deliveries):
            self.out_of_time = True

    def _starts_later_than_thought(self, deliveries: Sequence[Delivery]) -> bool:
        """Whether a measurement came to nothing because starting took its time: another try, which has more, is worth it."""
        before_s = self.started_s
        self.started_s = max([before_s, *(one.startup_s or 0.0 for one in deliveries)])
        return self.started_s > max(2 * before_s, self.measuring.window_s)

    def _take_beside(self, asked: Measurement, found: Measured | None, trouble: Undelivered | None) -> None:
        """What was measured to understand settings, and is not compared with them."""
        if asked.kind == "arm" and self.trials is not None:
            self.trials.take(found.rate.samples_per_s if found else None, trouble.text if trouble else None)
        elif found is None:
            return
        elif asked.kind == "cached":
            self.cached[asked.workers] = found.rate.samples_per_s
            used = found.evidence.cpus_used
            self.delivering_s = used / found.rate.samples_per_s if asked.workers == 1 and used else self.delivering_s
        elif asked.kind == "any order":
            in_order = [one.rate.samples_per_s for one in self.measured if one.workers == asked.workers]
            self._take_any_order(asked.workers, in_order[-1], found.rate.samples_per_s)
        elif asked.kind == "first":
            self.first.append(found)

    def _take_alone(self, asked: Measurement, answers: Sequence[Probed]) -> None:
        answer = answers[0]
        if asked.kind == "sharing":
            self._take_sharing(draws_of("iterable", answers))
        elif answer.answer is None:
            trouble = without_answer(answer)
            if asked.kind == "step":
                self.unmeasurable = f"--step {self.options.step}: {in_a_line(trouble)}"
            else:
                self._stop_at(0, trouble)
        elif asked.kind == "costs":
            self.costs = msgspec.convert(answer.answer, Costs)
            self._read_batches = answer.answer["batches"]
            self.bounds = msgspec.structs.replace(self.bounds, slow=TURNS * self.batch_s > SLOW_WINDOWS * self.measuring.window_s)
        else:
            self.step_s, self.host_bound = answer.answer["step_s"], answer.answer["host_bound"]
            self.bounds = msgspec.structs.replace(self.bounds, demand=self.demand_per_s)
            self.unmeasurable = self._too_slow_a_step()

    def _too_slow_a_step(self) -> str | None:
        """Not even one number of workers could be measured."""
        if not self.step_s or TURNS * self.step_s <= self.options.budget_s:
            return None
        needed_s = math.ceil(RUNGS * TURNS * self.step_s / 10) * 10
        return f"the step takes {plain(self.step_s)} s of each batch; --budget {needed_s} may be enough"

    def _take_sharing(self, draws: WorkerDraws) -> None:
        """Where each worker gives everything, more of them are no gain, however many samples come: one is the most."""
        if draws.unclear:
            where = "where each gives all of it, more of them repeat data (see iterable-sharding)"
            self.sharing = f"Whether workers share the data out is not known, as {draws.unclear}: {where}."
        elif draws.answered and draws.the_same and self.bounds.listed is not None:
            self.sharing = "Every worker gives all items: more of them repeat data (see iterable-sharding)."
        elif draws.answered and draws.the_same:
            self.repeats, self.limited_by, self.no_room = True, None, None
            self.nothing_to_read = "every worker gives all items: more of them repeat data (see iterable-sharding)"
            self.bounds = msgspec.structs.replace(self.bounds, most=min(self.bounds.most, 1))

    def _take_any_order(self, workers: int, in_order: float, as_they_come: float) -> None:
        """A first look; where it says that order costs much, it is measured again."""
        self.order_gain = as_they_come / in_order
        if arm := in_any_order(self._situation(workers)):
            self.trials = Trials(workers)
            self.trials.begin(arm, in_order, as_they_come)

    def _offer_arms(self) -> None:
        """Features of the DataLoader, at the setting that is recommended so far."""
        chosen = self.choice.workers
        if chosen is None:
            return
        if self.trials is None or self.trials.workers != chosen:
            self.trials = Trials(chosen)
        self.trials.offer(arms_of(self._situation(chosen)))

    def _next_trial(self, left_s: float) -> Measurement | None:
        if self.trials is None:
            return None
        at = [one for one in self.measured if one.workers == self.trials.workers][-1]
        changes = self.trials.next(left_s, at.startup_s + WITH_SETTLING * at.rate.seconds)
        return None if changes is None else self._loading("arm", self.trials.workers, left_s, changes=changes)

    def _situation(self, workers: int) -> Situation:
        rate = next(one.rate.samples_per_s for one in reversed(self.measured) if one.workers == workers)
        return Situation(
            options=self.loader.options,
            workers=workers,
            prefetch_factor=self.plan.prefetch_factor,
            uneven=self._has_slow_batches,
            coupled=self.demand_per_s is not None,
            fed=self.demand_per_s is not None and rate >= FED * self.demand_per_s,
            order_gain=self.order_gain,
            room_for_twice=self.room.holds(self.plan, workers, 2 * self.plan.prefetch_factor),
        )

    def _keep(self, found: Measured) -> None:
        """Of a setting that was measured once more because it was disturbed, the quieter measurement."""
        last = self.measured[-1] if self.measured else None
        if last and found.purpose != "verify" and (last.workers, last.purpose) == (found.workers, found.purpose):
            self._repeated.add(found.workers)
            self.measured.remove(last)
            found = min(last, found, key=lambda one: one.evidence.others_cpus or 0.0)
        self.measured.append(found)

    def _disturbed(self, one: Measured) -> bool:
        return disturbed(one.evidence, self.costs.others_cpus if self.costs else None, self.bounds.cpus)

    def _to_repeat(self, left_s: float) -> Measured | None:
        """What was measured last, where others disturbed it and not what was measured before: to repeat helps against a moment,
        and not against a neighbour that stays, whom measuring in turn deals with. Only in the first half of the time.
        """
        last = self.measured[-1] if self.measured else None
        if last is None or last.purpose == "verify" or last.workers in self._repeated or left_s < self.options.budget_s / 2:
            return None
        alike = len(self.measured) > 1 and self._disturbed(self.measured[-2])
        return last if self._disturbed(last) and not alike else None

    def _fits(self, left_s: float) -> bool:
        """Whether there is time for one more setting, where its workers start as fast as those of the one before it."""
        starting_s = max(self.started_s, self.measured[-1].startup_s if self.measured else self.first_batch_s - self.batch_s)
        return max(self.measuring.window_s, TURNS * self.batch_s) + starting_s <= left_s + OVERTIME_S

    def _stop_at(self, workers: int, trouble: Undelivered) -> None:
        """No setting from here on is tried. What breaks without any that works, or with no more workers than the job has, is the
        loader's fault; what is only late there is not, on a machine that may be busy, and leaves nothing to be told. Nor does
        memory that already one worker was refused: it may be our limit.
        """
        memory = refused_memory(trouble.text)
        none_works = not any(one.workers for one in self.measured)
        decisive = none_works or (not memory and workers <= max(1, self.bounds.current or 0))
        if decisive and not trouble.late and not memory:
            self.broke = in_a_line(trouble)
        elif decisive:
            self.unmeasurable = f"{count(workers, 'worker')}: {in_a_line(trouble)}"
        else:
            self.limited_by = f"{count(workers, 'worker')}: {'it was refused more memory' if memory else in_a_line(trouble)}"
            self.no_room = self.limited_by if memory else None
            self.bounds = msgspec.structs.replace(self.bounds, most=workers - 1)

    def _was_measured(self, kind: Kind) -> bool:
        return any(done == kind for done, _ in self._done)

    @property
    def _may_reorder(self) -> bool:
        return "in_order" in self.loader.options and self.in_order

    @property
    def _has_slow_batches(self) -> bool:
        return self.costs is not None and self.costs.unevenness >= SLOW_BATCHES

    def _loading(
        self, kind: Kind, workers: int, left_s: float, purpose: Purpose = "ladder", changes: dict[str, Any] | None = None
    ) -> Measurement:
        again = self.costs.batches if self.costs and self._reads_again and kind not in ("cached", "first") else None
        return self.measuring.loading(
            kind,
            workers,
            purpose,
            changes or {},
            begin=0 if again else self._read_batches,
            again=again,
            warm=again is not None or (self._all_read and (self.loader.kind == "iterable" or self.epochs != "first")),
            pace=Pace(
                batch_s=self.batch_s,
                starting_s=max(self.started_s, self.first_batch_s - self.batch_s),
                step_s=self.step_s,
                cpus=self.bounds.cpus,
            ),
            left_s=left_s,
        )

    @property
    def _reads_again(self) -> bool:
        """Whether settings are compared while reading what has been read already, as all epochs but the first do: the data stays
        in memory, and until it is there a disk is in the way. A slice of it is enough.
        """
        again = self.loader.kind == "map" and self.costs is not None and self.costs.batches > 0 and self.costs.from_disk
        return again and self.epochs == "later"

    @property
    def _all_read(self) -> bool:
        """Whether what comes next has been read before: all batches of an epoch have; an iterable dataset begins anew."""
        if self.loader.kind == "iterable":
            return self._read_batches > 0
        return self.epoch_batches is not None and self._read_batches >= self.epoch_batches
