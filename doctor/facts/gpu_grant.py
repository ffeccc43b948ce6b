"""Whether this job is meant to have GPUs: what it was promised, and which device nodes are there."""

import re

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.system import System

NODE = re.compile(r"nvidia[0-9]+|kfd|dxg", re.ASCII)
"""Device nodes that compute needs: NVIDIA's, AMD's (/dev/kfd) and WSL's (/dev/dxg)."""

PROMISE = re.compile(r"[0-9]+(:[0-9]+)?|(GPU|MIG)-.+", re.ASCII)
"""Tokens of NVIDIA_VISIBLE_DEVICES that name a device; images bake in `all`, and `void` and `none` prove nothing."""


class GpuGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Source: --expect-gpus, SLURM_STEP_GPUS, SLURM_JOB_GPUS, NVIDIA_VISIBLE_DEVICES, and the names in /dev."""

    promised: int | None
    """How many GPUs somebody named for this job; None where nobody did."""

    source: str
    nodes: tuple[str, ...]
    """Names in /dev. That they can be opened is not said."""

    @property
    def expected(self) -> bool:
        return bool(self.promised) or bool(self.nodes)


def collect(system: System, environment: Environment, slurm: Slurm | Unavailable, settings: Settings) -> GpuGrant:
    promised, source = promise(environment, slurm, settings)
    return GpuGrant(
        promised=promised, source=source, nodes=tuple(name for name in system.listdir("/dev") if NODE.fullmatch(name))
    )


def promise(environment: Environment, slurm: Slurm | Unavailable, settings: Settings) -> tuple[int | None, str]:
    if settings.expect_gpus is not None:
        return settings.expect_gpus, "--expect-gpus"
    if isinstance(slurm, Slurm) and slurm.gpus:
        return len(slurm.gpus), "Slurm's grant"
    named = [token for token in (environment.get("NVIDIA_VISIBLE_DEVICES") or "").split(",") if PROMISE.fullmatch(token)]
    return (len(named), "NVIDIA_VISIBLE_DEVICES") if named else (None, "nobody named a GPU")
