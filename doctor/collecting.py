"""Collecting facts: each at most once, what it is made of before it, and a reason where it cannot be had."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

import msgspec

from dl_doctor.catalogue import Catalogue
from dl_doctor.contract import needs_of
from dl_doctor.guards import Begun
from dl_doctor.model import PROFILES, Profile, Report, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import Missing, System
from dl_doctor.text import Malformed
from dl_doctor.watching import Interruption, Watcher, tell

Kind = TypeVar("Kind")

DEFAULT_PROFILE: Profile = "default"

DEFAULT_TIMEOUT_S = 60.0
"""For the whole run, on a machine without GPUs."""

MORE_PER_GPU_S = 5.0
"""For each GPU: without persistence its first use takes seconds."""

MORE_FOR_A_DATASET_S = 60.0
"""Where one is examined: it is made, in as much time as importing torch may take, and its samples are read. Proposal."""


MORE_FOR_A_SWEEP_S = 30.0
"""Beside its budget: its last measurement may begin late in it, with workers that are slow to start. Proposal."""


class Collection:
    """The facts of one run: each is collected at most once, or taken from a saved report."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Settings,
        system: System,
        saved: Report | None = None,
        probes: Probes | None = None,
        caller: Begun | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._system = system
        self._profile = settings.profile or DEFAULT_PROFILE
        self._timeout_s = settings.timeout_s or default_timeout_s(system, settings)
        self._end_s = system.clock_s() + self._timeout_s
        self._probes = probes or Probes(system, self._end_s, caller)
        self._injected: dict[type, object] = {System: system, Settings: settings, Probes: self._probes}
        self._saved = saved
        self._tasks: dict[type, asyncio.Task[object]] = {}
        self.known: dict[type, object] = {}
        """A fact, or its Unavailable, by the fact's type."""

        self.took_s: dict[str, float] = {}
        """By a fact's name, what a probe for it took."""

    async def gather(
        self, wanted: Iterable[type], watcher: Watcher | None = None, interruption: Interruption | None = None
    ) -> int | None:
        """Collect these facts and what they need. Gives the signal that ended it early, or None."""
        ordered = self._catalogue.closure(wanted)
        self._interruption = interruption = interruption or Interruption()
        work = asyncio.ensure_future(self._gather(ordered))
        telling = asyncio.ensure_future(tell(watcher or (lambda _: None), lambda: self._probes.in_flight))
        with interruption.ends(work):
            await asyncio.wait({work})
        telling.cancel()
        if interruption.signal is None:
            work.result()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._probes.close()
        for fact in ordered:
            self.known.setdefault(fact, Unavailable.not_asked("the run was interrupted"))
        return interruption.signal

    def see_off(self) -> None:
        """Wait, for an instant, until the processes that kept the probes have ended."""
        self._probes.see_off()

    async def _gather(self, ordered: list[type]) -> None:
        """Exclusive facts, and what is made of them, come one by one at the end."""
        alone = [fact for fact in ordered if any(self._exclusive(needed) for needed in self._catalogue.closure([fact]))]
        together = [fact for fact in ordered if fact not in alone]
        await asyncio.gather(*(self._get(fact) for fact in sorted(together, key=self._reads_only)))
        for fact in alone:
            if self._interruption.signal is None:
                await self._get(fact)

    def name(self, fact: type) -> str:
        """As it stands in a report."""
        return self._catalogue.names[fact]

    def _exclusive(self, fact: type) -> bool:
        return self._catalogue.collectors[fact].exclusive

    def _reads_only(self, fact: type) -> bool:
        """Those that have a process started go first: what others read is read while it starts."""
        return not waits(self._catalogue.collectors[fact].collect)

    async def _get(self, fact: type) -> object:
        if fact not in self._tasks:
            self._tasks[fact] = asyncio.ensure_future(self._obtain(fact))
        self.known[fact] = await self._tasks[fact]
        return self.known[fact]

    async def _obtain(self, fact: type) -> object:
        if self._saved is not None and not self._rederivable(fact):
            return recalled(self._saved, self._catalogue.names[fact], fact)
        collector = self._catalogue.collectors[fact]
        if PROFILES.index(collector.profile) > PROFILES.index(self._profile):
            return Unavailable.not_asked(f"needs --profile {collector.profile}")
        arguments: dict[str, object] = {}
        for name, need in needs_of(collector.collect).items():
            arguments[name] = self._injected.get(need.fact) or await self._get(need.fact)
            lacking = arguments[name]
            if need.required and isinstance(lacking, Unavailable):
                return lacking.inherited_from(self._catalogue.names[need.fact])
        left_s = self._end_s - self._system.clock_s()
        if left_s <= 0:
            return Unavailable.timeout(f"did not fit into the {self._timeout_s:g} s of the run (--timeout)")
        return await self._call(collector.collect, fact, arguments, min(left_s, collector.deadline_s))

    async def _call(self, collect: Any, fact: type, arguments: dict[str, object], deadline_s: float) -> object:
        begin_s = self._system.clock_s()
        try:
            given = await obtained(collect(**arguments), deadline_s)
            return given if isinstance(given, Unavailable) else sound(given, fact)
        except Missing as missing:
            return missing.reason
        except (asyncio.TimeoutError, TimeoutError):
            return Unavailable.timeout(f"no answer within {deadline_s:.3g} s")
        except FileNotFoundError as error:
            return Unavailable.absent(f"{error.filename} does not exist")
        except PermissionError as error:
            return Unavailable.denied(f"{error.filename} may not be read by this user")
        except OSError as error:
            return Unavailable.failed(f"{error.filename}: {error.strerror}" if error.filename else described(error))
        except Malformed as error:
            return Unavailable.failed(str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a collector's bug is a result)
            return Unavailable.failed(f"a bug in the collector: {described(error)}")
        finally:
            if waits(collect):
                self.took_s[self.name(fact)] = round(self._system.clock_s() - begin_s, 3)

    def _rederivable(self, fact: type) -> bool:
        """Whether a fact of a saved report is worked out again: it looks at nothing, and all it is made of is there."""
        if self._saved is None or not self._catalogue.derived(fact):
            return False
        names = [self._catalogue.names[needed] for needed in self._catalogue.inputs(fact)]
        return all(name in self._saved.facts or name in self._saved.unavailable for name in names)

    def as_plain(self, saved: Report | None) -> tuple[dict[str, Any], dict[str, Unavailable]]:
        """The facts as plain values, and the reasons for those that are lacking, both by name in alphabetical order.

        What a saved report knows and this version does not is kept.
        """
        facts: dict[str, Any] = dict(saved.facts) if saved else {}
        unavailable = dict(saved.unavailable) if saved else {}
        for fact, value in self.known.items():
            name = self._catalogue.names[fact]
            facts.pop(name, None)
            unavailable.pop(name, None)
            if isinstance(value, Unavailable):
                unavailable[name] = value
            else:
                facts[name] = msgspec.to_builtins(value)
        return dict(sorted(facts.items())), dict(sorted(unavailable.items()))


def waits(collect: Any) -> bool:
    """Whether a collector has others do something, and waits for it."""
    return inspect.iscoroutinefunction(collect) or inspect.isasyncgenfunction(collect)


async def obtained(given: Any, deadline_s: float) -> object:
    """What a collector gives, or what it promises within this time."""
    if inspect.isasyncgen(given):
        return await last_of(given, deadline_s)
    return await asyncio.wait_for(given, deadline_s) if inspect.isawaitable(given) else given


async def last_of(known: AsyncIterator[object], deadline_s: float) -> object:
    """The last of what a collector knows, which grows; where it is cut short, what it knew by then."""
    given: list[object] = []

    async def listen() -> None:
        async for one in known:
            given[:] = [one]

    try:
        await asyncio.wait_for(listen(), deadline_s)
    except (asyncio.TimeoutError, TimeoutError, asyncio.CancelledError, Missing):
        if not given:
            raise
    return given[0]


def default_timeout_s(system: System, settings: Settings) -> float:
    """Set before any fact is known: GPUs are counted by the driver's folder in /proc, which WSL and Jetsons do not have."""
    try:
        gpus = system.listdir("/proc/driver/nvidia/gpus")
    except OSError:
        gpus = []
    more_s = MORE_PER_GPU_S * len(gpus)
    if settings.dataset or settings.loader or settings.example:
        more_s += MORE_FOR_A_DATASET_S
        if settings.profile == "deep":
            more_s += (settings.sweep or SweepOptions()).budget_s + MORE_FOR_A_SWEEP_S
    return DEFAULT_TIMEOUT_S + more_s


def sound(given: object, kind: type[Kind]) -> Kind:
    """What a collector or a check gave, as it is read from a report again; an error where it is not what it should be."""
    if not isinstance(given, kind):
        raise TypeError(f"it gave {type(given).__name__} instead of {kind.__name__}")
    return msgspec.json.decode(msgspec.json.encode(given), type=kind)


def recalled(saved: Report, name: str, fact: type) -> object:
    """A fact of a saved report, or why there is none."""
    if name in saved.facts:
        try:
            return sensible(msgspec.convert(saved.facts[name], fact))
        except msgspec.ValidationError as error:
            return Unavailable.failed(f"the report's {name} is not what this version expects: {error}")
        except Exception as error:  # noqa: BLE001 (whatever a property made of the values)
            return Unavailable.failed(f"the report's {name} makes no sense: {described(error)}")
    return saved.unavailable.get(name) or Unavailable.not_asked(f"the report was made without {name}")


def sensible(value: Kind) -> Kind:
    """A fact whose properties can all be worked out; whatever they raise otherwise.

    Nobody knows who wrote a saved report: its values may have the right types and fit nothing, such as a budget of no limits.
    """
    if isinstance(value, msgspec.Struct):
        for name, member in inspect.getmembers(type(value)):
            if isinstance(member, property):
                getattr(value, name)
        for name in value.__struct_fields__:
            sensible(getattr(value, name))
    elif isinstance(value, tuple | list | frozenset | dict):
        for item in value.values() if isinstance(value, dict) else value:
            sensible(item)
    return value


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
