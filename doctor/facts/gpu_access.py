"""Whether NVIDIA's device nodes can be opened."""

import msgspec

from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import GPU_NODE, NvidiaDriver, nothing_to_ask
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 20.0
"""Without persistence, opening a GPU starts it, which takes a second or two for each."""

FOR_ALL = ("nvidiactl", "nvidia-uvm")
"""Nodes that belong to no single GPU."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node. Source: stat(2) and open(2) for reading and writing."""

    name: str
    error: str | None
    """Why it does not open, such as EPERM; None where it does."""

    major: int | None = None
    """The driver's number that the node carries; None where it is no character device."""

    mode: int | None = None
    """Its permission bits."""

    uid: int | None = None
    gid: int | None = None


class GpuAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a probe that opens nodes and closes them; in a Slurm job those of the job's GPUs alone."""

    ended: Ended
    nodes: tuple[Node, ...] = ()
    uid: int | None = None
    """Who tried."""

    can_make_nodes: bool | None = None
    """Whether a setuid nvidia-modprobe is there, which CUDA calls to make what is missing, or this is root."""

    @property
    def opened(self) -> tuple[str, ...]:
        """Names of the GPUs' nodes that open."""
        return tuple(node.name for node in self.nodes if node.error is None and GPU_NODE.fullmatch(node.name))


async def collect(
    probes: Probes, driver: NvidiaDriver, grant: GpuGrant | Unavailable, slurm: Slurm | Unavailable
) -> GpuAccess | Unavailable:
    if nothing := nothing_to_ask(driver, grant):
        return nothing
    names = to_open(driver.nodes, slurm)
    if not names:
        return Unavailable.absent("there are no device nodes of NVIDIA's that this job may try")
    probed = await probes.run("gpu_access", {"paths": [f"/dev/{name}" for name in names]}, deadline_s=DEADLINE_S)
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, GpuAccess)


def to_open(nodes: tuple[str, ...], slurm: Slurm | Unavailable) -> list[str]:
    """Never another job's: Slurm numbers GPUs like their nodes."""
    gpus = [
        name
        for name in nodes
        if GPU_NODE.fullmatch(name) and (not isinstance(slurm, Slurm) or name.removeprefix("nvidia") in slurm.gpus)
    ]
    return [*(name for name in FOR_ALL if name in nodes), *gpus]
