"""Whether this job is meant to have GPUs: what it was promised, and which device nodes are there."""

import re

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.expectation import Expectation
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.system import System

NODE = re.compile(r"nvidia[0-9]+|kfd|dxg", re.ASCII)
"""Device nodes that compute needs: NVIDIA's, AMD's (/dev/kfd) and WSL's (/dev/dxg)."""

PROMISE = re.compile(r"[0-9]+(:[0-9]+)?|(GPU|MIG)-.+", re.ASCII)
"""Tokens of NVIDIA_VISIBLE_DEVICES that name a device; images bake in `all`, and `void` and `none` prove nothing."""


class GpuGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Source: --expect-gpus, [expect], SLURM_STEP_GPUS, SLURM_JOB_GPUS, NVIDIA_VISIBLE_DEVICES, --require, names in /dev."""

    promised: int | None
    """How many GPUs this process is to see at least, because somebody named them; None where nobody did."""

    source: str
    nodes: tuple[str, ...]
    """Names in /dev. That they can be opened is not said."""

    @property
    def expected(self) -> bool:
        return bool(self.promised) or bool(self.nodes)


def collect(
    system: System,
    environment: Environment,
    slurm: Slurm | Unavailable,
    settings: Settings,
    expectation: Expectation | Unavailable,
) -> GpuGrant:
    promised, source = promise(environment, slurm, settings, expectation)
    return GpuGrant(
        promised=promised, source=source, nodes=tuple(name for name in system.listdir("/dev") if NODE.fullmatch(name))
    )


def promise(
    environment: Environment, slurm: Slurm | Unavailable, settings: Settings, expectation: Expectation | Unavailable
) -> tuple[int | None, str]:
    """How many, and who says so. The site's word is about the node: a job may have been given less of it."""
    if settings.expect_gpus is not None:
        return settings.expect_gpus, "--expect-gpus"
    site = expectation.gpus if isinstance(expectation, Expectation) else None
    if site is not None and settings.of_the_node(environment.variables):
        return site, "[expect]"
    if isinstance(slurm, Slurm) and slurm.gpus:
        return of_this_task(slurm), "Slurm's grant"
    named = [token for token in (environment.get("NVIDIA_VISIBLE_DEVICES") or "").split(",") if PROMISE.fullmatch(token)]
    if named:
        return cards(named), "NVIDIA_VISIBLE_DEVICES"
    if site is not None:
        return site, "[expect]"
    return (1, "--require gpu-visible") if "gpu-visible" in (settings.require or ()) else (None, "nobody named a GPU")


def of_this_task(slurm: Slurm) -> int:
    """Slurm may bind each task of a step to its share of the step's GPUs."""
    tasks = slurm.tasks_on_node if slurm.in_step and slurm.tasks_on_node else 1
    return max(1, len(slurm.gpus) // tasks)


def cards(tokens: list[str]) -> int:
    """How many cards these are: slices of one (`0:1`, `MIG-...`) are not told apart, so they count as one."""
    return len({"MIG" if token.startswith("MIG-") else token.partition(":")[0] for token in tokens})
