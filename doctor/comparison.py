"""What differs between two reports: it works on A, and fails on B.

How checks ended comes first, worst first, each with the facts behind it that differ; then settings and all other facts. Times,
process ids and what changes from one moment to the next are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dl_doctor.model import FORMAT_VERSION, Finding, Outcome, Report, Result, Status

SEVERITY: tuple[Status, ...] = ("fail", "error", "warn", "skip", "not_run", "pass")
"""Of a check's end, worst first."""

TIMES = "_s"
"""The end of the names of durations."""

OF_ONE_RUN = frozenset(
    {
        # processes, their last words and what they had read so far
        *("pid", "step", "state", "wait_channel", "output_tail", "working_set_bytes"),
        *("job_id", "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID"),
        # single samples
        *("readings", "first", "second", "utilisation"),
        # others' segments in /dev/shm, and processes on a GPU, which come and go: what they take shows in what is free
        *("tenants", "processes"),
        # what each machine has of its own
        *("hostname", "SLURMD_NODENAME", "KUBERNETES_SERVICE_HOST", "uuid", "device", "super_options", "parent_id", "root"),
    }
)
"""Names of values that no two runs or machines share."""

OF_A_MOMENT = frozenset(
    {
        *("free_bytes", "free_files", "used", "used_bytes", "memory_used_bytes", "available_bytes", "allowed_bytes"),
        *("private_bytes", "shared_bytes", "measured_worker_bytes", "memory_need_bytes"),
    }
)
"""Names of amounts that are others a minute later: of these a difference is told from MUCH on."""

OF_A_SWEEP = ("conclusion", "bottleneck", "narrowest", "current", "ranks", "recommendation")
"""What is compared of `loader_sweep`; of a recommendation its values. Rates and what follows from them are others each time."""

OF_A_PROBED_GPU = ("name", "backend", "capability", "multiprocessors", "memory_bytes", "skipped", "raised")
"""What is compared of each GPU in `gpu_probe`, beside its rates and its link. What NVML saw meanwhile is other each time."""

OF_A_YARDSTICK = ("part", "kind", "instance", "no_verdict", "no_link")
"""Of each GPU in `gpu_yardsticks`: what it is held against. The rest repeats the other two."""

MUCH = 2.0
"""Times as much, or as little. Proposal."""

MUCH_OF_A_RATE = 1.1
"""The same of a GPU's rates: equal GPUs of one node differ by up to 5 %, by silicon and cooling. Proposal."""

RATES = "gpu_probe.rates."

KEYS = ("index", "mount_point", "path", "name", "method", "number", "source")
"""What entries of a list are called by; the first that all have, each another, pairs them."""

Plain = str | int | float | bool | None


class FactChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value that differs. None where a report has none."""

    path: str
    """Such as `torch_files.version`, or `limits.open_files.soft`."""

    before: Plain
    after: Plain

    @property
    def on_one_side(self) -> bool:
        """Whether it is an entry of a list that only one report has; what is in it is not told."""
        return (self.before, self.after) in ((True, None), (None, True))


class ResultChange(msgspec.Struct, frozen=True, kw_only=True):
    """A check that ended otherwise, or found something else."""

    id: str
    title: str
    before: Status | None
    """None where the report has no such check."""

    after: Status | None
    gained: tuple[Finding, ...]
    """Found in B only."""

    lost: tuple[Finding, ...]
    """Found in A only."""

    reason: str | None
    """Why B could not tell."""

    facts: tuple[FactChange, ...]
    """Of those that the check judges."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two reports."""

    name: str
    hostname: str | None
    started_at: str
    version: str
    verdict: Outcome


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The whole difference: the JSON document of `diff`."""

    format_version: str
    a: Side
    b: Side
    same: bool
    results: tuple[ResultChange, ...]
    settings: tuple[FactChange, ...]
    facts: tuple[FactChange, ...]
    """Those that stand behind no changed result."""


def compare(a: Report, b: Report, names: tuple[str, str], needs: Mapping[str, Iterable[str]]) -> Comparison:
    """The difference of two reports.

    Args:
        a: the one that is taken as it should be.
        b: the other.
        names: what they are called, such as their files' names.
        needs: names of the facts that each check judges, by the check's id.
    """
    facts = changes(known(a), known(b))
    results = sorted(result_changes(a, b, facts, needs), key=urgency)
    told = {change.path for result in results for change in result.facts}
    rest = tuple(change for change in facts if change.path not in told)
    settings = changes(a.run.settings, b.run.settings)
    return Comparison(
        format_version=FORMAT_VERSION,
        a=side(a, names[0]),
        b=side(b, names[1]),
        same=not (results or settings or rest),
        results=tuple(results),
        settings=settings,
        facts=rest,
    )


def side(report: Report, name: str) -> Side:
    return Side(
        name=name,
        hostname=report.machine.hostname,
        started_at=report.run.started_at,
        version=report.tool.version,
        verdict=report.verdict,
    )


def known(report: Report) -> dict[str, Any]:
    """Facts, and why others could not be had."""
    facts = {
        name: TOLD_OF[name](fact) if name in TOLD_OF and isinstance(fact, Mapping) else fact
        for name, fact in report.facts.items()
    }
    return {**facts, **{name: f"not known: {reason.detail}" for name, reason in report.unavailable.items()}}


def told_of_a_sweep(fact: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: fact[name] for name in OF_A_SWEEP if name in fact}
    advised = told.get("recommendation")
    if isinstance(advised, Mapping):
        told["recommendation"] = {
            name: one["value"] for name, one in advised.items() if isinstance(one, Mapping) and "value" in one
        }
    return told


def told_of_gpu_rates(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Which GPUs were measured, by which link they copied, and how fast they were."""
    told: dict[str, Any] = {name: fact[name] for name in ("ended", "length", "marks") if name in fact}
    gpus = {str(gpu.get("gpu")): told_of_a_probed_gpu(gpu) for gpu in mappings(fact.get("gpus"))}
    rates: dict[str, dict[str, Any]] = {}
    for rate in mappings(fact.get("rates")):
        rates.setdefault(str(rate.get("gpu")), {})[str(rate.get("what"))] = rate.get("achieved")
    return {**told, "gpus": gpus, "rates": rates}


def told_of_a_probed_gpu(gpu: Mapping[str, Any]) -> dict[str, Any]:
    links = [load for load in mappings(gpu.get("loads")) if load.get("phase") == "host copies"]
    seen = {name: link[name] for link in links for name in ("link_gen", "link_width") if name in link}
    return {**{name: gpu[name] for name in OF_A_PROBED_GPU if name in gpu}, **seen}


def told_of_yardsticks(fact: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(gpu.get("gpu")): {name: gpu[name] for name in OF_A_YARDSTICK if name in gpu} for gpu in mappings(fact.get("gpus"))
    }


def told_of_shortfalls(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Which GPUs stand in each of its lists, and with which rate."""
    return {name: [subject_of(entry) for entry in mappings(entries)] for name, entries in fact.items()}


def subject_of(entry: Mapping[str, Any]) -> str:
    rate = entry.get("rate")
    what = rate.get("what", "") if isinstance(rate, Mapping) else ""
    return f"{entry.get('gpu')} {what}".rstrip()


def mappings(entries: Any) -> list[Mapping[str, Any]]:
    """Those of a list; facts may hold anything."""
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list | tuple) else []


TOLD_OF: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "loader_sweep": told_of_a_sweep,
    "gpu_probe": told_of_gpu_rates,
    "gpu_shortfalls": told_of_shortfalls,
    "gpu_yardsticks": told_of_yardsticks,
}
"""Facts of which only a part is compared."""


def result_changes(
    a: Report, b: Report, facts: Iterable[FactChange], needs: Mapping[str, Iterable[str]]
) -> Iterator[ResultChange]:
    before, after = ({result.id: result for result in report.results} for report in (a, b))
    for id_ in dict.fromkeys([*after, *before]):
        old, new = before.get(id_), after.get(id_)
        gained, lost = found_only_in(new, old), found_only_in(old, new)
        if (old and old.status) == (new and new.status) and not gained and not lost:
            continue
        behind = tuple(needs.get(id_, ()))
        shown = new or old
        yield ResultChange(
            id=id_,
            title=shown.title if shown else "",
            before=old.status if old else None,
            after=new.status if new else None,
            gained=gained,
            lost=lost,
            reason=new.reason.detail if new and new.reason else None,
            facts=tuple(change for change in facts if change.path.partition(".")[0].partition("[")[0] in behind),
        )


def found_only_in(one: Result | None, other: Result | None) -> tuple[Finding, ...]:
    """Findings that the other has none like, in level, subject and whether it is accepted: their numbers may differ."""
    if one is None:
        return ()
    there = {alike(finding) for finding in (other.findings if other else ())}
    return tuple(finding for finding in one.findings if alike(finding) not in there and finding.level != "note")


def alike(finding: Finding) -> tuple[str, str, bool]:
    return finding.level, finding.subject, finding.accepted is not None


def urgency(change: ResultChange) -> tuple[bool, int, int]:
    """What is worse in B first, by how bad it is there; what is better last."""
    old, new = (SEVERITY.index(status) if status else len(SEVERITY) for status in (change.before, change.after))
    return new > old, new, old


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FactChange, ...]:
    """Values that differ, in the order of their paths."""
    old, new = (dict(flat(values)) for values in (before, after))
    found: list[FactChange] = []
    for path in sorted(old.keys() | new.keys()):
        change = FactChange(path=path, before=old.get(path), after=new.get(path))
        within = bool(found) and found[-1].on_one_side and path.startswith(f"{found[-1].path}.")
        if change.before != change.after and not within and not close(path, change.before, change.after):
            found.append(change)
    return tuple(found)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Plain]]:
    """Each plain value with its path, but for those that no two runs share."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in OF_ONE_RUN and not name.endswith(TIMES):
                yield from flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for name, inner in named(value):
            if isinstance(inner, Mapping):
                yield f"{path}[{name}]", True
            yield from flat(inner, f"{path}[{name}]")
    else:
        yield path, value


def named(entries: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Entries of a list by what they have as a name, else by their places; plain ones are their own names."""
    if not any(isinstance(entry, Mapping | list | tuple) for entry in entries):
        yield from ((str(entry), True) for entry in entries)
        return
    for key in KEYS:
        names = [str(entry[key]) for entry in entries if isinstance(entry, Mapping) and entry.get(key) is not None]
        if len(set(names)) == len(entries):
            yield from zip(names, entries, strict=True)
            return
    yield from ((str(place), entry) for place, entry in enumerate(entries))


def close(path: str, before: Plain, after: Plain) -> bool:
    """Whether two amounts that change all the time are about the same."""
    much = MUCH if path.rpartition(".")[2] in OF_A_MOMENT else MUCH_OF_A_RATE if path.startswith(RATES) else None
    if much is None or not isinstance(before, int | float) or not isinstance(after, int | float):
        return False
    small, large = sorted((abs(before), abs(after)))
    return large < much * small
