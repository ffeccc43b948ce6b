"""From checks that are asked for to a report: collect the facts they need, once each, then judge.

Nothing that a check or a collector does ends the run: a crash is a result like any other, with its traceback.
"""

import asyncio
import inspect
import time
import traceback
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar

import msgspec

from dl_doctor import __version__
from dl_doctor.catalogue import Catalogue
from dl_doctor.check import Check, needs_of
from dl_doctor.facts import Cgroups, CpuBudget, Environment, Host, MemoryBudget, Nvml, Runtime, Target, TorchFiles
from dl_doctor.model import (
    FORMAT_VERSION,
    PROFILES,
    Finding,
    Identity,
    Machine,
    Pipeline,
    Profile,
    Python,
    Reason,
    Report,
    Result,
    Run,
    Stage,
    Summary,
    Tool,
    Unavailable,
    Verdict,
    status_without,
)
from dl_doctor.outcome import outcome_of
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.system import Missing, System
from dl_doctor.text import Malformed
from dl_doctor.watching import Interruption, Watcher, tell

Kind = TypeVar("Kind")

DEFAULT_PROFILE: Profile = "default"

DEFAULT_TIMEOUT_S = 60.0
"""For the whole run."""

HEAD = (Host, Runtime, Cgroups, CpuBudget, MemoryBudget, Environment, Target, TorchFiles)
"""Facts that the report's head is made of, whatever checks are asked for."""

STAGES = (
    ("disk", "sweep --dataset"),
    ("workers", "sweep --dataset"),
    ("shared memory", "sweep --dataset"),
    ("main process", "sweep --dataset"),
    ("gpu", "--profile default"),
    ("step", "sweep --step"),
)
"""The way of a sample, and what measures each stage."""


def examine(
    catalogue: Catalogue,
    settings: Settings,
    system: System,
    saved: Report | None = None,
    *,
    probes: Probes | None = None,
    watcher: Watcher | None = None,
) -> Report:
    """Run the checks that `settings` ask for.

    Args:
        catalogue: what there is.
        settings: what is asked for; with `saved`, on top of that report's own.
        system: the machine, real or recorded.
        saved: a report whose facts are judged instead of collecting them.
        probes: what runs probes, where it is not this machine.
        watcher: is told what the run waits for.

    A first SIGINT or SIGTERM ends the collecting: the report then holds what was known by then.
    """
    started, begin_s = system.now(), system.clock_s()
    if saved is not None:
        settings = settings.over(msgspec.convert(saved.run.settings, Settings, strict=False))
    checks = selected(catalogue, settings)
    collection = Collection(catalogue, settings, system, saved, probes)
    wanted = [*HEAD, *(need.fact for check in checks for need in check.needs.values())]
    interrupted_by = asyncio.run(collection.gather(wanted, watcher))
    results = explained([*broken_plugins(catalogue, settings), *(judge(check, collection, settings) for check in checks)])
    facts, unavailable = collection.as_plain(saved)
    return Report(
        format_version=FORMAT_VERSION,
        tool=Tool("dl-doctor", __version__),
        run=Run(
            id=uuid.uuid4().hex,
            started_at=rfc3339(started),
            duration_s=round(system.clock_s() - begin_s, 6),
            profile=settings.profile or DEFAULT_PROFILE,
            scope="all",
            settings=msgspec.to_builtins(settings),
            python=python_of(collection),
        ),
        verdict=outcome_of(
            results,
            essential={check.id for check in checks if check.essential},
            settings=settings,
            interrupted_by=interrupted_by,
        ),
        summary=summary_of(results),
        machine=machine_of(collection, settings),
        identity=identity_of(collection),
        results=results,
        pipeline=Pipeline(tuple(Stage(name=name, samples_per_s=None, measured_by=option) for name, option in STAGES), None, None),
        facts=facts,
        unavailable=unavailable,
        redaction=None,
    )


def selected(catalogue: Catalogue, settings: Settings) -> list[Check]:
    """The checks whose id or area is asked for and not ignored."""
    wanted, unwanted = settings.select, settings.ignore or ()
    return [
        check
        for check in catalogue.checks.values()
        if (wanted is None or check.id in wanted or check.area in wanted)
        and check.id not in unwanted
        and check.area not in unwanted
    ]


class Collection:
    """The facts of one run: each is collected at most once, or taken from a saved report."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Settings,
        system: System,
        saved: Report | None = None,
        probes: Probes | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._system = system
        self._profile = settings.profile or DEFAULT_PROFILE
        self._end_s = system.clock_s() + (settings.timeout_s or DEFAULT_TIMEOUT_S)
        self._timeout_s = settings.timeout_s or DEFAULT_TIMEOUT_S
        self._probes = probes or Probes(system, self._end_s)
        self._injected: dict[type, object] = {System: system, Settings: settings, Probes: self._probes}
        self._saved = saved
        self._tasks: dict[type, asyncio.Task[object]] = {}
        self.known: dict[type, object] = {}
        """A fact, or its Unavailable, by the fact's type."""

    async def gather(self, wanted: Iterable[type], watcher: Watcher | None = None) -> int | None:
        """Collect these facts and what they need. Gives the signal that ended it early, or None."""
        ordered = self._catalogue.closure(wanted)
        interruption = Interruption()
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
        await self._probes.see_off()
        for fact in ordered:
            self.known.setdefault(fact, Unavailable.not_asked("the run was interrupted"))
        return interruption.signal

    async def _gather(self, ordered: list[type]) -> None:
        """Exclusive facts, and what is made of them, come one by one at the end."""
        alone = [fact for fact in ordered if any(self._exclusive(needed) for needed in self._catalogue.closure([fact]))]
        await asyncio.gather(*(self._get(fact) for fact in ordered if fact not in alone))
        for fact in alone:
            await self._get(fact)

    def name(self, fact: type) -> str:
        """As it stands in a report."""
        return self._catalogue.names[fact]

    def _exclusive(self, fact: type) -> bool:
        return self._catalogue.collectors[fact].exclusive

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
        try:
            given = collect(**arguments)
            if inspect.isawaitable(given):
                given = await asyncio.wait_for(given, deadline_s)
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


def sound(given: object, kind: type[Kind]) -> Kind:
    """What a collector or a check gave, as it is read from a report again; an error where it is not what it should be."""
    if not isinstance(given, kind):
        raise TypeError(f"it gave {type(given).__name__} instead of {kind.__name__}")
    return msgspec.json.decode(msgspec.json.encode(given), type=kind)


def recalled(saved: Report, name: str, fact: type) -> object:
    """A fact of a saved report, or why there is none."""
    if name in saved.facts:
        try:
            return msgspec.convert(saved.facts[name], fact)
        except msgspec.ValidationError as error:
            return Unavailable.failed(f"the report's {name} is not what this version expects: {error}")
    return saved.unavailable.get(name) or Unavailable.not_asked(f"the report was made without {name}")


def judge(check: Check, collection: Collection, settings: Settings) -> Result:
    """One check's result: its verdict, or why there is none."""
    begin_s = time.perf_counter()
    arguments = {name: collection.known[need.fact] for name, need in check.needs.items()}
    lacking = [
        (collection.name(need.fact), value)
        for need in check.needs.values()
        if need.required and isinstance(value := collection.known[need.fact], Unavailable)
    ]
    trace = ""
    if lacking:
        verdict = decisive(lacking)
    else:
        try:
            verdict = sound(check.judge(**arguments), Verdict)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a crash of a check is a result)
            verdict = Verdict("", (), Reason("failed", f"a bug in this check: {described(error)}"))
            trace = traceback.format_exc()
    targets = fix_targets(collection, settings)
    return Result(
        id=check.id,
        area=check.area,
        scope=check.scope,
        title=check.title,
        status=verdict.status,
        seen=verdict.seen,
        reason=verdict.reason,
        findings=tuple(with_fixes_for(finding, targets) for finding in verdict.findings),
        duration_s=round(time.perf_counter() - begin_s, 6),
        trace=trace,
    )


def decisive(lacking: list[tuple[str, Unavailable]]) -> Verdict:
    """The reason that decides: what nobody asked for, else what should have worked, else what does not apply."""
    order = ("not_run", "error", "skip")
    return Verdict.lacking(*min(lacking, key=lambda pair: order.index(status_without(pair[1].kind))))


def fix_targets(collection: Collection, settings: Settings) -> tuple[str, ...] | None:
    """What fixes are kept for; None for all, where it is not known where the job runs."""
    if settings.runtime:
        return (settings.runtime,)
    runtime = collection.known.get(Runtime)
    return runtime.fixes_for if isinstance(runtime, Runtime) else None


def with_fixes_for(finding: Finding, targets: tuple[str, ...] | None) -> Finding:
    if targets is None:
        return finding
    kept = tuple(fix for fix in finding.fixes if not fix.runtimes or set(fix.runtimes) & set(targets))
    return msgspec.structs.replace(finding, fixes=kept)


def explained(results: list[Result]) -> tuple[Result, ...]:
    """Findings that name a cause which turns out not to fail stand on their own."""
    failing = {result.id for result in results if result.status == "fail"}
    return tuple(
        msgspec.structs.replace(
            result,
            findings=tuple(
                finding if finding.explained_by in failing else msgspec.structs.replace(finding, explained_by=None)
                for finding in result.findings
            ),
        )
        for result in results
    )


def broken_plugins(catalogue: Catalogue, settings: Settings) -> list[Result]:
    """They are told whatever is selected, unless they are ignored by name."""
    return [
        Result(
            id=broken.distribution,
            area=broken.distribution,
            scope="job",
            title="The plugin can be loaded",
            status="error",
            seen="",
            reason=Reason("failed", broken.reason),
            findings=(),
            duration_s=0.0,
        )
        for broken in catalogue.broken
        if broken.distribution not in (settings.ignore or ())
    ]


def summary_of(results: Iterable[Result]) -> Summary:
    results = tuple(results)
    statuses = [result.status for result in results]
    findings = [finding for result in results for finding in result.findings]
    return Summary(
        passed=statuses.count("pass"),
        warn=statuses.count("warn"),
        fail=statuses.count("fail"),
        skip=statuses.count("skip"),
        error=statuses.count("error"),
        note=sum(finding.level == "note" for finding in findings),
        accepted=sum(finding.accepted is not None for finding in findings),
        not_run=statuses.count("not_run"),
    )


def machine_of(collection: Collection, settings: Settings) -> Machine:
    known: Mapping[type, Any] = {fact: value for fact, value in collection.known.items() if not isinstance(value, Unavailable)}
    host, runtime, cpu, memory = known.get(Host), known.get(Runtime), known.get(CpuBudget), known.get(MemoryBudget)
    return Machine(
        hostname=host.hostname if host else None,
        os=host.os if host else None,
        kernel=host.kernel if host else None,
        runtime=settings.runtime or (runtime.name if runtime else None),
        scheduler=runtime.scheduler if runtime else None,
        platform=runtime.platform if runtime else None,
        cgroup=known[Cgroups].version if Cgroups in known else None,
        cpus=cpu.cpus_of_all_ranks if cpu and cpu.quota_known else None,
        memory_bytes=min(limit.limit_bytes for limit in memory.limits) if memory and memory.limit_known else None,
        gpus=tuple(gpu.name or "unnamed GPU" for gpu in known[Nvml].gpus) if Nvml in known else (),
        torch=known[TorchFiles].version if TorchFiles in known else None,
    )


def python_of(collection: Collection) -> Python | None:
    target = collection.known.get(Target)
    return Python(target.path, target.why) if isinstance(target, Target) else None


def identity_of(collection: Collection) -> Identity:
    host = collection.known.get(Host)
    if not isinstance(host, Host) or not host.hostname:
        return Identity()
    return Identity(hostnames=tuple(dict.fromkeys((host.hostname, host.hostname.partition(".")[0]))))


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
