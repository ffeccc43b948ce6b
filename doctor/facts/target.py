"""The interpreter whose environment is examined: the job's, which need not be the one that runs the doctor."""

from collections.abc import Mapping

import msgspec

from dl_doctor.model import Unavailable
from dl_doctor.probing import QUICK_S, Probes
from dl_doctor.settings import Settings
from dl_doctor.system import System

OWN = "the doctor's own"
CALLER = "that of dl_doctor.check"
COMMAND = "that of the command"
ON_PATH = "the first on PATH with torch"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Source: --python, VIRTUAL_ENV, CONDA_PREFIX, PATH, and the files of each interpreter's environment."""

    path: str
    why: str
    """Such as `from VIRTUAL_ENV`."""

    has_torch: bool
    """Whether torch lies in its environment, told by files."""


async def collect(system: System, probes: Probes, settings: Settings) -> Target | Unavailable:
    known = candidates(settings.python, probes.own_python, system.environment())
    if probes.caller:
        known = [(probes.caller.python, COMMAND) if probes.caller.python else (probes.own_python, CALLER)]
    probes.prepare(known[0][0])
    probed = await probes.run("find_python", {"candidates": [path for path, _ in known]}, deadline_s=QUICK_S)
    if probed.answer is None:
        return Unavailable.failed(f"looking for the job's Python {probed.ended.in_words}")
    there = [
        Target(path=found["path"], why=why, has_torch=found["torch"])
        for (_, why), found in zip(known, probed.answer["found"], strict=True)
        if found["runs"]
    ]
    return choose(there) or Unavailable.failed(f"--python {known[0][0]} is no program that can be run")


def candidates(told: str | None, own: str, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Paths in the order of their rank, each with where it is from."""
    if told:
        return [(told, "from --python")]
    active = [
        (f"{environment[name]}/bin/python", f"from {name}") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environment.get(name)
    ]
    folders = filter(None, environment.get("PATH", "").split(":"))
    on_path = [(f"{folder}/{name}", ON_PATH) for folder in folders for name in ("python3", "python")]
    return [*active, (own, OWN), *on_path]


def choose(there: list[Target]) -> Target | None:
    """The environment that is active, else the first interpreter with torch, else the first of all."""
    active = [target for target in there if target.why.startswith("from ")]
    with_torch = [target for target in there if target.has_torch]
    own = [target for target in there if target.why == OWN]
    return next(iter([*active, *with_torch, *own, *there]), None)
