"""From checks that are asked for to a report: collect the facts they need, once each, then judge.

Nothing that a check or a collector does ends the run: a crash is a result like any other, with its traceback.
"""

import asyncio
import time
import traceback
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Literal

import msgspec

from dl_doctor import __version__
from dl_doctor.catalogue import Catalogue
from dl_doctor.collecting import DEFAULT_PROFILE, Collection, described, sound
from dl_doctor.contract import Check
from dl_doctor.facts import (
    Cgroups,
    CpuBudget,
    Environment,
    GpuProbe,
    Host,
    LoaderSweep,
    MemoryBudget,
    Nvml,
    Runtime,
    Target,
    TorchFiles,
)
from dl_doctor.guards import Begun
from dl_doctor.identity import identity_of
from dl_doctor.model import (
    FORMAT_VERSION,
    Finding,
    Machine,
    Outcome,
    Pipeline,
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
from dl_doctor.outcome import outcome_of, outcome_of_a_sweep
from dl_doctor.probing import Probes
from dl_doctor.saved import settings_of
from dl_doctor.settings import Accepted, Settings
from dl_doctor.system import System
from dl_doctor.text import bounded
from dl_doctor.watching import Interruption, Watcher

HEAD = (Host, Runtime, Cgroups, CpuBudget, MemoryBudget, Environment, Target, TorchFiles)
"""Facts that the report's head is made of, whatever checks are asked for."""

STAGES = (
    ("disk", "sweep --dataset"),
    ("workers", "sweep --dataset"),
    ("shared memory", "sweep --dataset"),
    ("main process", "sweep --dataset"),
    ("gpu", ""),
    ("step", "sweep --step"),
)
"""The way of a sample, and what measures each stage; no option of this version measures the GPU's."""


def examine(
    catalogue: Catalogue,
    settings: Settings,
    system: System,
    saved: Report | None = None,
    *,
    probes: Probes | None = None,
    watcher: Watcher | None = None,
    caller: Begun | None = None,
    interruption: Interruption | None = None,
    also: tuple[type, ...] = (),
) -> Report:
    """Run the checks that `settings` ask for.

    Args:
        catalogue: what there is.
        settings: what is asked for; with `saved`, on top of that report's own.
        system: the machine, real or recorded.
        saved: a report whose facts are judged instead of collecting them.
        probes: what runs probes, where it is not this machine.
        watcher: is told what the run waits for.
        caller: a fork of the process whose dataset is examined; see forking.py.
        interruption: ends the collecting from another thread.
        also: facts that are wanted whatever is checked.

    A first SIGINT or SIGTERM ends the collecting: the report then holds what was known by then.
    """
    started, begin_s = system.now(), system.clock_s()
    if saved is not None:
        settings = settings.over(settings_of(saved))
    scope = scope_of(settings, system, saved)
    checks = selected(catalogue, settings, scope)
    collection = Collection(catalogue, settings, system, saved, probes, caller)
    wanted = [*HEAD, *also, *(need.fact for check in checks for need in check.needs.values())]
    interrupted_by = asyncio.run(collection.gather(wanted, watcher, interruption))
    judged = [*broken_plugins(catalogue, settings), *(judge(check, collection, settings) for check in checks)]
    results = explained([accepted(result, settings.accept or (), started.date().isoformat()) for result in judged])
    facts, unavailable = collection.as_plain(saved)
    report = Report(
        format_version=FORMAT_VERSION,
        tool=Tool("dl-doctor", __version__),
        run=Run(
            id=uuid.uuid4().hex,
            started_at=rfc3339(started),
            duration_s=round(system.clock_s() - begin_s, 6),
            profile=settings.profile or DEFAULT_PROFILE,
            scope=scope,
            settings=msgspec.to_builtins(settings),
            python=python_of(collection),
            collected_s=collection.took_s,
        ),
        verdict=verdict_on(results, checks, collection, settings, interrupted_by),
        summary=summary_of(results),
        machine=machine_of(collection, settings),
        identity=saved.identity if saved else identity_of(system, collection.known),
        results=results,
        pipeline=saved.pipeline if saved else pipeline_of(collection.known.get(LoaderSweep)),
        facts=facts,
        unavailable=unavailable,
        redaction=saved.redaction if saved else None,
    )
    collection.see_off()
    return report


def verdict_on(
    results: Iterable[Result], checks: Iterable[Check], collection: Collection, settings: Settings, interrupted_by: int | None
) -> Outcome:
    """On the run: of a sweep its conclusion, else of all results."""
    if settings.sweep is not None:
        sweep = collection.known.get(LoaderSweep)
        conclusion = sweep.conclusion if isinstance(sweep, LoaderSweep) else None
        missing = getattr(sweep, "detail", None) if interrupted_by is None else None
        why = sweep.why if isinstance(sweep, LoaderSweep) else missing or "nothing was measured"
        return outcome_of_a_sweep(results, conclusion, why, interrupted_by=interrupted_by)
    essential = {check.id for check in checks if check.essential}
    return outcome_of(results, essential=essential, settings=settings, interrupted_by=interrupted_by)


def pipeline_of(sweep: object) -> Pipeline:
    """The way of a sample, with the rates that a sweep has measured, if there was one."""
    known = sweep if isinstance(sweep, LoaderSweep) else None
    rates: dict[str, float] = {stage.name: stage.samples_per_s for stage in known.stages} if known else {}
    asked = {"step"} if known else {name for name, _ in STAGES}  # this sweep did not see the others
    stages = tuple(
        Stage(name=name, samples_per_s=rates.get(name), measured_by=option if name in asked else "") for name, option in STAGES
    )
    return Pipeline(stages, known.demand_samples_per_s if known else None, known.narrowest if known else None)


def scope_of(settings: Settings, system: System, saved: Report | None) -> Literal["node", "job", "all"]:
    """As asked for, or saved; and the node in a prolog of Slurm's, which runs before there is a job."""
    if settings.scope is not None or saved is not None:
        return settings.scope or (saved.run.scope if saved is not None else "all")
    return "node" if settings.of_the_node(system.environment() if not system.mounted else {}) else "all"


def selected(catalogue: Catalogue, settings: Settings, scope: str = "all") -> list[Check]:
    """The checks of this scope whose id or area is asked for and not ignored."""
    wanted, unwanted = settings.select, settings.ignore or ()
    return [
        check
        for check in catalogue.checks.values()
        if (wanted is None or check.id in wanted or check.area in wanted)
        and check.id not in unwanted
        and check.area not in unwanted
        and scope in ("all", check.scope)
    ]


def judge(check: Check, collection: Collection, settings: Settings) -> Result:
    """One check's result: its verdict, or why there is none."""
    begin_s = time.perf_counter()
    arguments = {name: collection.known[need.fact] for name, need in check.needs.items()}
    lacking = [
        (collection.name(need.fact), value)
        for need in check.needs.values()
        if need.required and isinstance(value := collection.known[need.fact], Unavailable)
    ]
    if lacking:
        verdict = decisive(lacking)
    else:
        try:
            verdict = sound(check.judge(**arguments), Verdict)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a crash of a check is a result)
            verdict = Verdict("", (), Reason("failed", f"a bug in this check: {described(error)}"))
            verdict = msgspec.structs.replace(verdict, trace=traceback.format_exc())
    targets = fix_targets(collection, settings)
    return Result(
        id=check.id,
        area=check.area,
        scope=check.scope,
        title=check.title,
        status=verdict.status,
        seen=bounded(verdict.seen),
        reason=verdict.reason and msgspec.structs.replace(verdict.reason, detail=bounded(verdict.reason.detail)),
        findings=tuple(kept(with_fixes_for(finding, targets)) for finding in verdict.findings),
        duration_s=round(time.perf_counter() - begin_s, 6),
        trace=verdict.trace,
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


def accepted(result: Result, known: Iterable[Accepted], today: str) -> Result:
    """Findings that the user takes as they are do not count, and stay in the report with the reason."""
    findings = tuple(
        msgspec.structs.replace(finding, accepted=reason_for(finding, result.id, known, today)) for finding in result.findings
    )
    status = Verdict(result.seen, findings, result.reason).status
    return msgspec.structs.replace(result, findings=findings, status=status)


def reason_for(finding: Finding, check: str, known: Iterable[Accepted], today: str) -> str | None:
    return next((one.reason for one in known if one.covers(check, finding, today)), None)


def kept(finding: Finding) -> Finding:
    """What an exception says may be 100,000 characters: all of it stays in the facts."""
    return msgspec.structs.replace(finding, summary=bounded(finding.summary), why=bounded(finding.why))


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
        gpus=names_of_gpus(known.get(Nvml), known.get(GpuProbe)),
        torch=known[TorchFiles].version if TorchFiles in known else None,
    )


def names_of_gpus(nvml: Nvml | None, probe: GpuProbe | None) -> tuple[str, ...]:
    """As NVML lists them; of other makers' GPUs those that PyTorch was asked about."""
    listed = nvml.gpus if nvml else probe.gpus if probe else ()
    return tuple(gpu.name or "unnamed GPU" for gpu in listed)


def python_of(collection: Collection) -> Python | None:
    target = collection.known.get(Target)
    return Python(target.path, target.why) if isinstance(target, Target) else None


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
