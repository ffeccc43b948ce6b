"""The driver's libraries as the job's interpreter would load them."""

import re

import msgspec

from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import NvidiaDriver, nothing_to_ask
from dl_doctor.facts.target import Target
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 10.0

VERSION = re.compile(r"\.so\.([0-9]{3,}(?:\.[0-9]+)+)$", re.ASCII)
"""The driver's version behind the name of a file of it: libcuda.so.550.90.07; libcuda.so.1.1 (WSL, Jetson) tells none."""


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """One library. Source: dlopen(3), and /proc/self/maps afterwards."""

    path: str | None
    """The file that was mapped, links followed; None where it does not load."""

    error: str | None
    """What the loader said."""

    @property
    def missing(self) -> bool:
        """Not there, where a library that does not load for another reason is there and broken."""
        return self.error is not None and "cannot open shared object file" in self.error

    @property
    def version(self) -> str | None:
        found = VERSION.search(self.path or "")
        return found[1] if found else None

    @property
    def is_stub(self) -> bool:
        """What programs are linked against where no driver is; it answers every call with an error."""
        return "/stubs/" in (self.path or "")

    @property
    def is_compat(self) -> bool:
        """NVIDIA's way to run a newer CUDA on an older driver."""
        return "compat" in (self.path or "").rpartition("/")[0]


class GpuLibraries(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a probe that loads libnvidia-ml.so.1 and libcuda.so.1 and calls nothing in them."""

    ended: Ended
    nvml: Library | None = None
    cuda: Library | None = None


async def collect(
    probes: Probes, driver: NvidiaDriver, grant: GpuGrant | Unavailable, target: Target | Unavailable
) -> GpuLibraries | Unavailable:
    if nothing := nothing_to_ask(driver, grant):
        return nothing
    if isinstance(target, Unavailable):
        return target.inherited_from("target")
    probed = await probes.run("gpu_libraries", python=target.path, deadline_s=DEADLINE_S)
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, GpuLibraries)
