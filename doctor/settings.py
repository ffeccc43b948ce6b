"""What the user asks for and expects."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from dl_doctor.model import Finding, Profile, Scope

StartMethod = Literal["fork", "spawn", "forkserver"]
FailOn = Literal["fail", "warn", "never"]
ExitCodes = Literal["gate", "prolog", "nagios"]

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]

RUNTIMES = ("docker", "podman", "compose", "kubernetes", "slurm", "apptainer", "enroot", "bare")
"""What fixes are written for; `--runtime` takes one of them."""

MOST_WORKERS = 65_536
"""More than any node runs: a number beyond it is a slip, or meant to hurt."""


class Expect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a site expects of this node: [expect] in a settings file. None where it says nothing."""

    gpus: Count | None = None
    """As --expect-gpus, which comes first."""

    gpu_model: str | None = None
    """A part of each GPU's name, such as `H100`."""

    driver: str | None = None
    """The oldest driver, such as `550.54.15`."""

    free_space: dict[str, str | Count] | None = None
    """Sizes such as `500GiB` by path, which at least are to be free there."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A finding that is known and taken as it is: an entry of [[accept]] in a settings file."""

    id: str
    """Of the check."""

    reason: Annotated[str, msgspec.Meta(min_length=1)]
    subject: str | None = None
    """Such as `gpu:3`; None for all that the check finds."""

    until: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    """The last day on which it is, such as `2027-01-31`."""

    def covers(self, check: str, finding: Finding, today: str) -> bool:
        """Whether this finding of a check is meant, on a day that is written in the same way."""
        known = self.id == check and self.subject in (None, finding.subject)
        return known and finding.level != "note" and (self.until is None or today <= self.until)


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the loader is measured at several numbers of workers."""

    budget_s: Annotated[float, msgspec.Meta(gt=0)] = 25.0
    """Seconds; what `check --profile deep` takes unless it is said."""

    step_time_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """What the job computes on a batch: so long is waited for each."""

    step: str | None = None
    """`pkg.module:function`, which is called with each batch instead."""

    ranks: Positive | None = None
    """Loaders that run at once; None for the ranks of the job on this node."""

    workers: tuple[Annotated[int, msgspec.Meta(ge=0, le=MOST_WORKERS)], ...] | None = None
    """The only numbers to try."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that decides what is collected and how it is judged; None where the user said nothing.

    It is saved in the report, so that the report can be judged again; how a report is shown is not part of it.
    """

    dataset: str | None = None
    """`pkg.module:attribute` or `path/file.py:attribute`; an object, or what makes one without arguments."""

    loader: str | None = None
    """The same for a DataLoader; of a command, file and line where it iterates over one."""

    command: tuple[str, ...] | None = None
    """What was run until it iterated over a DataLoader, with its arguments."""

    example: bool | None = None
    """Examine the example that comes with dl-doctor."""

    batch_size: Positive | None = None
    num_workers: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORKERS)] | None = None
    prefetch_factor: Positive | None = None
    start_method: StartMethod | None = None
    pin_memory: bool | None = None
    batch_bytes: Count | None = None
    runtime: str | None = None
    expect_gpus: Count | None = None
    data: tuple[str, ...] | None = None
    """Paths where the training data lies."""

    python: str | None = None
    """Path of the interpreter whose environment is examined."""

    profile: Profile | None = None
    scope: Scope | Literal["all"] | None = None
    """What belongs to the machine, or to this job; None for all, and for the node in a prolog of Slurm's."""

    select: tuple[str, ...] | None = None
    """Ids or areas; None for all checks."""

    ignore: tuple[str, ...] | None = None
    require: tuple[str, ...] | None = None
    fail_on: FailOn | None = None
    exit_codes: ExitCodes | None = None
    expect: Expect | None = None
    accept: tuple[Accepted, ...] | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    sweep: SweepOptions | None = None
    """None for the short one of `--profile deep`."""

    def over(self, saved: "Settings") -> "Settings":
        """These settings where something was said, the saved ones elsewhere."""
        said = {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}
        return msgspec.structs.replace(saved, **said)

    def of_the_node(self, environment: Mapping[str, str]) -> bool:
        """Whether the node is the matter and not this job: as asked for, and by itself in a prolog or epilog of slurmd's."""
        if self.scope is None:
            return environment.get("SLURM_SCRIPT_CONTEXT") in ("prolog_slurmd", "epilog_slurmd")
        return self.scope == "node"
