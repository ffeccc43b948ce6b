"""What the user asks for and expects."""

from typing import Annotated, Literal

import msgspec

from dl_doctor.model import Profile

StartMethod = Literal["fork", "spawn", "forkserver"]
FailOn = Literal["fail", "warn", "never"]

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]

RUNTIMES = ("docker", "podman", "compose", "kubernetes", "slurm", "apptainer", "enroot", "bare")
"""What fixes are written for; `--runtime` takes one of them."""

MOST_WORKERS = 65_536
"""More than any node runs: a number beyond it is a slip, or meant to hurt."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that decides what is collected and how it is judged; None where the user said nothing.

    It is saved in the report, so that the report can be judged again; how a report is shown is not part of it.
    """

    dataset: str | None = None
    """`pkg.module:attribute` or `path/file.py:attribute`; an object, or what makes one without arguments."""

    loader: str | None = None
    """The same for a DataLoader."""

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
    select: tuple[str, ...] | None = None
    """Ids or areas; None for all checks."""

    ignore: tuple[str, ...] | None = None
    require: tuple[str, ...] | None = None
    fail_on: FailOn | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None

    def over(self, saved: "Settings") -> "Settings":
        """These settings where something was said, the saved ones elsewhere."""
        said = {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}
        return msgspec.structs.replace(saved, **said)
