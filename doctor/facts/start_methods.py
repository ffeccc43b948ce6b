"""How the target's Python starts worker processes."""

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Unavailable
from dl_doctor.probing import QUICK_S, Probes


class StartMethods(msgspec.Struct, frozen=True, kw_only=True):
    """Source: multiprocessing of the target's Python, which is asked without fixing the method."""

    python: tuple[int, int, int]
    available: tuple[str, ...]
    """The first is the default."""

    chosen: str | None
    """What something that starts with the interpreter (sitecustomize) has set already."""

    @property
    def unless_said(self) -> str:
        """The method that workers are started by where the job does not say one."""
        return self.chosen or self.available[0]


async def collect(probes: Probes, target: Target) -> StartMethods | Unavailable:
    probed = await probes.run("start_methods", python=target.path, deadline_s=QUICK_S)
    if probed.answer is None:
        return Unavailable.failed(f"asking the job's Python for its start methods: it {probed.ended.in_words}")
    return msgspec.convert(probed.answer, StartMethods)
