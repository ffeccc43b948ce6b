"""The file that --dataset or --loader names, or that calls dl_doctor.check, read as text: what a worker would run again."""

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import QUICK_S, Probes
from dl_doctor.settings import Settings


class Unguarded(msgspec.Struct, frozen=True):
    """A call or a loop that is run at import, and starts workers or the job."""

    line: int
    what: str


class EntryScript(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the syntax tree of the file, made by the job's Python."""

    ended: Ended
    path: str | None = None
    """None where there is no such file, or the module is none of Python's."""

    unguarded: tuple[Unguarded, ...] = ()


async def collect(probes: Probes, settings: Settings, target: Target) -> EntryScript | Unavailable:
    spec = settings.loader or settings.dataset
    if spec is None:
        return Unavailable.not_asked("needs --dataset or --loader")
    place, _, maker = spec.rpartition(":")
    if probes.caller:
        if probes.caller.script is None:
            return Unavailable.absent("a notebook has no script that a worker would run again")
        place, maker = probes.caller.script, ""
    arguments = {"place": place, "maker": maker}
    probed = await probes.run("entry_script", arguments, python=target.path, deadline_s=QUICK_S)
    return msgspec.convert({"ended": probed.ended, **(probed.answer or {})}, EntryScript)
