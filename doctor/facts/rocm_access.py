"""Whether AMD's device nodes can be opened: /dev/kfd, through which ROCm computes, and the render node of each GPU."""

import re

import msgspec

from dl_doctor.facts.gpu_access import Node
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import PCI, listed, read_or_empty
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import QUICK_S, Probes
from dl_doctor.system import System

AMD = "0x1002"

CLASSES = ("0x03", "0x12")
"""Display controllers, and processing accelerators, which MI300X says to be; pci.ids."""

RENDER = re.compile("renderD[0-9]+", re.ASCII)


class RocmAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Source: names in /dev and /sys/class/drm, and a probe that opens nodes and closes them."""

    ended: Ended
    bus: tuple[str, ...]
    """Addresses of AMD's GPUs on the bus, the host's also in a container."""

    kfd: Node | None = None
    """None where /dev/kfd is not there."""

    render: tuple[Node, ...] = ()
    """The nodes of AMD's GPUs that are there."""

    uid: int | None = None
    groups: tuple[int, ...] = ()
    """Numbers, because names differ between a host and an image."""


async def collect(probes: Probes, system: System, grant: GpuGrant, slurm: Slurm | Unavailable) -> RocmAccess | Unavailable:
    bus = gpus_on_the_bus(system)
    kfd = "kfd" in grant.nodes
    if not kfd and not bus:
        return Unavailable.absent("no GPU of AMD's is here")
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Unavailable.absent("this Slurm job was granted no GPU: their nodes are not for it to try")
    paths = ["/dev/kfd"] * kfd + [f"/dev/dri/{name}" for name in render_nodes(system)]
    if not kfd:
        return RocmAccess(ended=Ended(how="answered"), bus=bus)
    probed = await probes.run("gpu_access", {"paths": paths}, deadline_s=QUICK_S)
    found = probed.answer or {}
    nodes = msgspec.convert(found.get("nodes", []), tuple[Node, ...])
    return RocmAccess(
        ended=probed.ended,
        bus=bus,
        kfd=next((node for node in nodes if node.name == "kfd"), None),
        render=tuple(node for node in nodes if RENDER.fullmatch(node.name)),
        uid=found.get("uid"),
        groups=tuple(found.get("groups", ())),
    )


def gpus_on_the_bus(system: System) -> tuple[str, ...]:
    return tuple(
        address
        for address in listed(system, PCI) or ()
        if read_or_empty(system, f"{PCI}/{address}/vendor").strip() == AMD
        and read_or_empty(system, f"{PCI}/{address}/class").startswith(CLASSES)
    )


def render_nodes(system: System) -> list[str]:
    """Those of AMD's GPUs: another maker's GPU may be beside them."""
    return [
        name
        for name in listed(system, "/dev/dri") or ()
        if RENDER.fullmatch(name) and read_or_empty(system, f"/sys/class/drm/{name}/device/vendor").strip() == AMD
    ]
