"""The report as data: what checks give, what renderers read, and what the JSON document is.

Every struct is frozen. Numbers are in base units, with the unit in the name or beside it. `None` means that a value is not
known or does not apply; it never stands for 0.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

FORMAT_VERSION = "1.0"
"""A minor version adds fields, which readers ignore; a major one breaks, and readers refuse."""

Status = Literal["pass", "warn", "fail", "skip", "error", "not_run"]
"""`skip`: it does not apply, or nobody here may look. `error`: we should have been able to tell and could not.
`not_run`: not asked for (a higher profile or an option such as --dataset would)."""

Level = Literal["note", "warn", "fail"]
Owner = Literal["you", "admin", "vendor"]
Risk = Literal["safe", "disruptive", "needs-root"]
Relation = Literal["at_least", "at_most", "equal"]
Scope = Literal["node", "job"]
Profile = Literal["quick", "default", "deep"]
PROFILES: tuple[Profile, ...] = ("quick", "default", "deep")

UnavailableKind = Literal["absent", "denied", "timeout", "failed", "not_asked"]


class Unavailable(msgspec.Struct, frozen=True):
    """Why a fact could not be had."""

    kind: UnavailableKind
    """`absent`: does not exist here. `denied`: we may not look. `timeout`: no answer in time. `failed`: an answer that
    makes no sense, or a bug. `not_asked`: nobody wanted it."""

    detail: str
    needs: str | None = None
    """The fact (snake_case) whose lack is the reason; None where the reason is this fact's own."""

    @classmethod
    def absent(cls, detail: str) -> "Unavailable":
        return cls("absent", detail)

    @classmethod
    def denied(cls, detail: str) -> "Unavailable":
        return cls("denied", detail)

    @classmethod
    def timeout(cls, detail: str) -> "Unavailable":
        return cls("timeout", detail)

    @classmethod
    def failed(cls, detail: str) -> "Unavailable":
        return cls("failed", detail)

    @classmethod
    def not_asked(cls, detail: str) -> "Unavailable":
        return cls("not_asked", detail)

    def inherited_from(self, fact: str) -> "Unavailable":
        """The reason for a fact that needed `fact`: the same one, and whose it is."""
        return Unavailable(self.kind, self.detail, self.needs or fact)


How = Literal["answered", "raised", "exited", "killed", "hung", "stuck", "unstartable"]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a probe's process ended: what the examined thing did to it."""

    how: How
    """`raised`: an exception. `exited`: it left without an answer. `killed`: by a signal that was not ours. `hung`: past its
    deadline. `stuck`: past its deadline, and in the kernel, so that it cannot even be killed. `unstartable`: no such program."""

    exit_code: int | None = None
    signal: str | None = None
    """Such as SIGSEGV."""

    error: str | None = None
    """The exception, or why it could not be started."""

    step: str | None = None
    """What it was about to do last."""

    pid: int | None = None
    """Of the process that did not come back, with its state and the kernel's function that it waited in."""

    state: str | None = None
    wait_channel: str | None = None
    output_tail: str = ""
    """The end of what it printed, or the traceback."""

    @property
    def in_words(self) -> str:
        """`died by SIGSEGV at: import torch`."""
        at = f" at: {self.step}" if self.step else ""
        words = {
            "answered": "answered",
            "raised": f"raised {self.error}",
            "exited": f"exited with {self.exit_code}",
            "killed": f"died by {self.signal}",
            "hung": "did not come back in time" + (f" (waiting in {self.wait_channel})" if self.wait_channel else ""),
            "stuck": f"is stuck in the kernel (pid {self.pid}, state {self.state}, in {self.wait_channel or 'unknown'})",
            "unstartable": f"cannot be started: {self.error}",
        }
        return words[self.how] + at

    @property
    def in_full(self) -> str:
        """The same, with the process where it did not come back."""
        return f"{self.in_words} (pid {self.pid}, state {self.state or 'unknown'})" if self.how == "hung" else self.in_words


class Quantity(msgspec.Struct, frozen=True):
    """A number with its unit (`bytes`, `CPUs`, `descriptors`, `workers`, `s`) and where it comes from."""

    value: int | float
    unit: str
    source: str


class Fix(msgspec.Struct, frozen=True):
    """One way to mend a finding. Printed, never run."""

    title: str
    commands: tuple[str, ...] = ()
    """To be copied as they are, apart from `...`; commands, settings or lines of code."""

    runtimes: tuple[str, ...] = ()
    """The runtimes, schedulers and hosted platforms it is for; empty for all of them."""

    risk: Risk = "safe"
    note: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the user should know, with its evidence and its remedy."""

    level: Level
    subject: str
    """The examined thing: `/dev/shm`, `gpu:3`, `dataset.transform.fn`."""

    summary: str
    measured: Quantity | None = None
    expected: Quantity | None = None
    relation: Relation | None = None
    why: str = ""
    owner: Owner = "you"
    fixes: tuple[Fix, ...] = ()
    accepted: str | None = None
    """The reason for which the user accepts it; it is shown and does not count."""

    explained_by: str | None = None
    """Id of another failing check that is the cause of this finding."""

    def fix_for(self, runtime: str) -> Fix:
        """The first fix made for `runtime`; LookupError where there is none."""
        for fix in self.fixes:
            if runtime in fix.runtimes:
                return fix
        raise LookupError(f"no fix for {runtime} in: {self.summary}")


NO_GPU = "no GPU here and none expected"
"""Why checks of GPUs skip on a machine without; asked for alone, they are then content (outcome.py)."""


class Reason(msgspec.Struct, frozen=True):
    """Why a check did not judge."""

    kind: UnavailableKind
    detail: str
    fact: str | None = None
    """The fact that is missing (snake_case); None where the check itself gives the reason."""


class Verdict(msgspec.Struct, frozen=True):
    """What a check gives: what it looked at and what it found."""

    seen: str
    """The evidence, also of a pass."""

    findings: Sequence[Finding] = ()
    reason: Reason | None = None
    trace: str = ""
    """A traceback of the job's code, shown with -v."""

    @classmethod
    def skip(cls, reason: str) -> "Verdict":
        """It does not apply here."""
        return cls("", (), Reason("absent", reason))

    @classmethod
    def unknown(cls, reason: str) -> "Verdict":
        """It applies, and cannot be told. Counts as `error`."""
        return cls("", (), Reason("failed", reason))

    @classmethod
    def lacking(cls, fact: str, unavailable: Unavailable) -> "Verdict":
        """Without the fact of this name (snake_case) it cannot be told."""
        return cls("", (), Reason(unavailable.kind, unavailable.detail, unavailable.needs or fact))

    @property
    def status(self) -> Status:
        """The worst of the findings that are not accepted; without findings a pass, unless it could not judge."""
        levels = {finding.level for finding in self.findings if finding.accepted is None}
        if "fail" in levels:
            return "fail"
        if self.reason is not None:
            return status_without(self.reason.kind)
        return "warn" if "warn" in levels else "pass"


def status_without(kind: UnavailableKind) -> Status:
    """The status of a check that lacks something for this kind of reason."""
    if kind == "not_asked":
        return "not_run"
    return "error" if kind in ("timeout", "failed") else "skip"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One check's line in the report."""

    id: str
    area: str
    scope: Scope
    title: str
    status: Status
    seen: str
    reason: Reason | None
    findings: tuple[Finding, ...]
    duration_s: float
    trace: str = ""
    """Of the job's code, or of a check that crashed, shown with -v."""


class Tool(msgspec.Struct, frozen=True):
    name: str
    version: str


class Python(msgspec.Struct, frozen=True):
    """The interpreter whose environment is examined."""

    path: str
    why: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    started_at: str
    """RFC 3339, UTC."""

    duration_s: float
    profile: Profile
    scope: Literal["node", "job", "all"]
    settings: dict[str, Any]
    python: Python | None
    collected_s: dict[str, float] = {}
    """What each fact took that had to be waited for, without those that it is made of."""


class Outcome(msgspec.Struct, frozen=True):
    """The verdict on the run as a whole."""

    status: Literal["go", "stop", "unknown"]
    exit_code: int
    reason: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many checks ended how, how many notes were taken, and how many findings are accepted."""

    passed: int = msgspec.field(name="pass")
    warn: int
    fail: int
    skip: int
    error: int
    note: int
    accepted: int
    not_run: int


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What people call the machine by."""

    hostname: str | None
    os: str | None
    kernel: str | None
    runtime: str | None
    """docker, podman, kubernetes, apptainer, enroot, container (unknown kind), bare."""

    scheduler: str | None
    platform: str | None
    cgroup: str | None
    """v1, v2 or hybrid."""

    cpus: float | None
    """What this job may use on the node; a quota keeps its fraction. None where a limit may be out of sight."""

    memory_bytes: int | None
    gpus: tuple[str, ...]
    torch: str | None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The names that redaction replaces; empty in a redacted report."""

    hostnames: tuple[str, ...] = ()
    """Full and short."""

    users: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    """Of this machine's interfaces, without loopback; version 6 in its long form."""

    macs: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """UUIDs, such as GPU-5a3f...; serial numbers are not asked for."""

    servers: tuple[str, ...] = ()
    """Whose exports are mounted here."""

    machine: str | None = None
    """What becomes `redaction.machine`; the machine-id itself is not kept."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the way of a sample, with the rate that it sustains."""

    name: str
    samples_per_s: float | None
    measured_by: str
    """The option that measures it; empty where none does yet."""


class Pipeline(msgspec.Struct, frozen=True):
    """disk -> workers -> shared memory -> main process -> GPU -> step."""

    stages: tuple[Stage, ...]
    demand_samples_per_s: float | None
    narrowest: str | None


class Redaction(msgspec.Struct, frozen=True):
    """That names and secrets were replaced."""

    machine: str | None
    """HMAC-SHA256 keyed with /etc/machine-id over `dl-doctor`, in hexadecimal: the same in all reports of one machine. None
    where the machine has no id."""

    replacements: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the doctor: the whole JSON document."""

    format_version: str
    tool: Tool
    run: Run
    verdict: Outcome
    summary: Summary
    machine: Machine
    identity: Identity
    results: tuple[Result, ...]
    pipeline: Pipeline
    facts: dict[str, Any]
    """By the fact's name in snake_case, as plain values; names that this version does not know are kept."""

    unavailable: dict[str, Unavailable]
    redaction: Redaction | None
