"""Whether torch computes on the GPU of a Mac, by Metal (MPS), and in what kind of process."""

import msgspec

from dl_doctor.facts.host import Host
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_import import no_room
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 30.0
"""For an import of torch, and a product of small matrices, whose kernel Metal compiles first. Proposal."""

PRODUCT = "a product on the GPU"
"""The probe's last step."""


class AppleGpu(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a process of the examined Python that asks its platform and sysctl(3), then torch, then tries a product."""

    ended: Ended
    system: str | None = None
    """`Darwin` on a Mac."""

    machine: str | None = None
    """What the process is built for: `arm64`, or `x86_64`."""

    translated: bool | None = None
    """Whether Rosetta translates it (sysctl.proc_translated); None where the system has no such thing."""

    virtual: bool | None = None
    """Whether this is a virtual machine (kern.hv_vmm_present)."""

    macos: str | None = None
    built: bool | None = None
    """torch.backends.mps.is_built()."""

    available: bool | None = None
    """torch.backends.mps.is_available()."""

    raised: str | None = None
    """What the product raised."""

    agrees: bool | None = None
    """Whether its result is the CPU's; None where there was none."""


async def collect(
    probes: Probes,
    host: Host,
    target: Target | Unavailable,
    files: TorchFiles | Unavailable,
    memory: MemoryBudget | Unavailable,
) -> AppleGpu | Unavailable:
    if host.kernel is not None:
        return Unavailable.absent("this is no Mac")
    if isinstance(target, Unavailable):
        return target.inherited_from("target")
    if isinstance(files, Unavailable):
        return files.inherited_from("torch_files")
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if full := no_room(memory):
        return full
    probed = await probes.run("apple_gpu", python=target.path, deadline_s=DEADLINE_S, place="apart")
    if (probed.answer or {}).get("system", "Darwin") != "Darwin":
        return Unavailable.absent("this is no Mac")
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, AppleGpu)
