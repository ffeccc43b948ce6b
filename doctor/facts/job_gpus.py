"""Whether this job computes on GPUs: that its node has some says nothing, for Slurm and control groups keep jobs from them."""

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_access import GpuAccess
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import GPU_NODE
from dl_doctor.facts.visible_gpus import hides_all
from dl_doctor.model import Unavailable


class JobGpus(msgspec.Struct, frozen=True, kw_only=True):
    """Source: what was promised, the names in /dev and whether they open, CUDA_VISIBLE_DEVICES."""

    expected: bool
    source: str
    """Who says so."""


def collect(environment: Environment, grant: GpuGrant, access: GpuAccess | Unavailable) -> JobGpus:
    if not grant.expected or grant.promised == 0:
        return JobGpus(expected=False, source=grant.source)
    if "CUDA_VISIBLE_DEVICES" in environment.variables:
        return JobGpus(expected=not hides_all(environment), source="CUDA_VISIBLE_DEVICES")
    if grant.promised:
        return JobGpus(expected=True, source=grant.source)
    others = any(not GPU_NODE.fullmatch(node) for node in grant.nodes)  # /dev/kfd, /dev/dxg
    closed = isinstance(access, GpuAccess) and bool(access.nodes) and not access.opened
    if closed and not others:
        return JobGpus(expected=False, source="no node of a GPU in /dev opens for this job")
    return JobGpus(expected=True, source=f"names in /dev: {', '.join(grant.nodes)}")
