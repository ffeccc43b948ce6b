"""What a collector gives on this machine, with real probes that are gone when it has."""

import asyncio
from typing import Any

from dl_doctor.contract import needs_of
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.system import System


def collected(collect: Any, *given: object) -> Any:
    """Call a collector: each of these goes where the annotations name its type. A System need not be among them."""
    system = next((one for one in given if isinstance(one, System)), System())

    async def called() -> Any:
        probes = Probes(system, system.clock_s() + 60)
        known = (system, probes, *given)
        needs = needs_of(collect).items()
        arguments = {name: next(one for one in known if isinstance(one, need.fact | Unavailable)) for name, need in needs}
        try:
            return await collect(**arguments)
        finally:
            probes.close()
            probes.see_off()

    return asyncio.run(called())
