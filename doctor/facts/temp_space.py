"""Where Python puts temporary files, and whether multiprocessing's sockets fit there."""

import msgspec

from dl_doctor.facts.refusal import Refusal
from dl_doctor.facts.target import Target
from dl_doctor.model import Ended
from dl_doctor.probing import QUICK_S, Probes


class TempSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Source: tempfile and multiprocessing of the target's Python, which make a folder and bind a socket in it."""

    ended: Ended
    path: str | None
    """What tempfile.gettempdir() gives; None where it found no folder that can be written to."""

    path_bytes: int | None
    """The length of the path as the kernel counts it."""

    real_path: str | None
    refusal: Refusal | None
    """Why multiprocessing could not make its folder, or a listener in it."""

    passed_over: tuple[Refusal, ...]
    """Folders that come before `path` and cannot be used; the step is the folder, and who names it."""

    no_exec: bool | None
    """Whether programs and libraries there cannot be loaded; statvfs(3), ST_NOEXEC."""


async def collect(probes: Probes, target: Target) -> TempSpace:
    probed = await probes.run("temp_space", python=target.path, deadline_s=QUICK_S)
    nothing = {"path": None, "path_bytes": None, "real_path": None, "refusal": None, "passed_over": (), "no_exec": None}
    return msgspec.convert({**nothing, **(probed.answer or {}), "ended": probed.ended}, TempSpace)
