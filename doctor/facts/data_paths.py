"""The paths that this job reads and writes: whether they answer, how much room they have, whether they can be written to."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from dl_doctor.facts.expectation import Expectation
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.system import System

Role = Literal["data", "expected", "working", "temporary", "cache", "scratch"]
"""`expected`: a site says how much room there has to be."""

ONLY_LOOKED_AT = ("data", "expected")
"""Roles of paths that the job need not write to."""

DEFAULT_TEMPORARY = "/tmp"  # noqa: S108 (it is where Python looks)

TEMPORARY = ("TMPDIR", "TEMP", "TMP")
"""As tempfile.gettempdir() takes them."""

SAID_CACHES = ("HF_HOME", "TORCH_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name the folder of a cache."""

HOME_CACHE = "HOME"
"""Who names the folder that caches share where no variable says otherwise, ~/.cache."""

SCRATCH = "SLURM_TMPDIR"
"""A folder on the node's own disk, on clusters that make one for each job."""

WRITTEN_BYTES = 4 << 20
"""Enough for a quota or a full disk to show."""

DEADLINE_S = 15
QUICK_DEADLINE_S = 5
"""A path that has not answered by then does not answer; with --profile quick nobody waits longer."""


class DataPath(msgspec.Struct, frozen=True, kw_only=True):
    """One path, looked at by a process of its own. What was not reached is None."""

    role: Role
    path: str
    said_by: str
    """`--data`, a variable, or `the working directory`."""

    ended: Ended
    """A path that does not answer leaves its process hung, or stuck in the kernel."""

    exists: bool | None = None
    refusal: Refusal | None = None
    """Why it could not be looked at; that it does not exist is told by `exists`."""

    real_path: str | None = None
    """Without links; the nearest folder that exists, of a path that does not."""

    latency_s: float | None = None
    """Of stat(2) and statvfs(3) together."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    """What this user can still take; statvfs(3)."""

    total_files: int | None = None
    """Inodes; None where the filesystem does not count them."""

    free_files: int | None = None
    files_seen: int | None = None
    """Files met in a short look below it, of data only, with their mean size."""

    mean_file_bytes: int | None = None
    empty: bool = False
    """Whether all below it was met, and there was no file with anything in it; of data only."""

    pointer: str | None = None
    """A file that stands for another one, of git-lfs or git-xet; among the smallest that were met."""

    read_refusal: Refusal | None = None
    """Why one of them cannot be read."""

    written: bool = False
    """Whether a file of up to 4 MiB was written, synchronized and removed, where the job would write."""

    write_refusal: Refusal | None = None


class DataPaths(msgspec.Struct, frozen=True):
    """Source: --data, [expect], the working directory, TMPDIR, cache variables; stat(2), statvfs(3) and a file written there."""

    entries: tuple[DataPath, ...]

    def of(self, *roles: Role) -> list[DataPath]:
        return [entry for entry in self.entries if entry.role in roles]


async def collect(system: System, probes: Probes, settings: Settings, expectation: Expectation | Unavailable) -> DataPaths:
    expected = tuple(expectation.free_bytes) if isinstance(expectation, Expectation) else ()
    deadline_s = QUICK_DEADLINE_S if settings.profile == "quick" else DEADLINE_S
    told = paths(settings.data or (), expected, working_directory(system), system.environment())
    arguments = [
        {"path": path, "peek": role == "data", "write": 0 if role in ONLY_LOOKED_AT else WRITTEN_BYTES} for role, path, _ in told
    ]
    probed = await probes.run_each("data_path", arguments, deadline_s=deadline_s)
    return DataPaths(
        tuple(
            msgspec.convert({"role": role, "path": path, "said_by": said_by, "ended": one.ended, **(one.answer or {})}, DataPath)
            for (role, path, said_by), one in zip(told, probed, strict=True)
        )
    )


def working_directory(system: System) -> str:
    """As the kernel knows it: the folder itself may not answer."""
    try:
        return system.readlink("/proc/self/cwd")
    except OSError:
        return "."


def paths(
    data: tuple[str, ...], expected: tuple[str, ...], working: str, environment: Mapping[str, str]
) -> list[tuple[Role, str, str]]:
    """Role, path and who named it, each path of a role once."""
    found: dict[tuple[Role, str], str] = {}
    for role, path, said_by in named(data, expected, working, environment):
        found.setdefault((role, absolute(path, working, environment.get("HOME"))), said_by)
    return [(role, path, said_by) for (role, path), said_by in found.items()]


def named(
    data: tuple[str, ...], expected: tuple[str, ...], working: str, environment: Mapping[str, str]
) -> Iterator[tuple[Role, str, str]]:
    for path in data:
        yield "data", path, "--data"
    for path in expected:
        yield "expected", path, "[expect]"
    yield "working", working, "the working directory"
    temporary = next((name for name in TEMPORARY if environment.get(name)), None)
    yield "temporary", environment[temporary] if temporary else DEFAULT_TEMPORARY, temporary or "the usual folder"
    for name in SAID_CACHES:
        if environment.get(name):
            yield "cache", environment[name], name
    if environment.get("XDG_CACHE_HOME"):
        yield "cache", environment["XDG_CACHE_HOME"], "XDG_CACHE_HOME"
    elif environment.get(HOME_CACHE):
        yield "cache", posixpath.join(environment[HOME_CACHE], ".cache"), HOME_CACHE
    if environment.get(SCRATCH):
        yield "scratch", environment[SCRATCH], SCRATCH


def absolute(path: str, working: str, home: str | None) -> str:
    """A path from the root, links and `..` left as they are: to resolve them is to touch them."""
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return posixpath.join(working, path)
