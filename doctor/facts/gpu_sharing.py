"""What stands between this job and a GPU of its own: NVIDIA's multi-process service (MPS), and libraries that give out parts."""

import posixpath
from typing import Literal

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import NvidiaDriver, nothing_to_ask, read_or_empty
from dl_doctor.model import Unavailable
from dl_doctor.probing import QUICK_S, Probes
from dl_doctor.system import System

USUAL_FOLDER = "/tmp/nvidia-mps"  # noqa: S108 (it is only looked into)
"""Where every program that begins CUDA looks for the daemon of MPS, if no variable names another folder; NVIDIA's page of MPS,
`CUDA_MPS_PIPE_DIRECTORY`."""

SOCKET = "control"
"""The socket in it that the daemon listens on."""

PRELOADED = (("libvgpu", "HAMi"), ("libnvshare", "nvshare"), ("libcuda-control", "vcuda"), ("libgemhook", "KubeShare"))
"""Beginnings of the names of libraries that catch CUDA's calls, and what brings them: README of HAMi-core and nvshare; the other
two from memory."""

LIMITS = ("CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT")
"""How HAMi's variables begin: percent of the processors, and memory such as `3000m`, of all GPUs or of one (`..._0`)."""

Daemon = Literal["listens", "refuses", "denied", "absent", "unknown"]


class Mps(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program of this job looks for the daemon of MPS, and what it finds."""

    folder: str
    said: bool
    """CUDA_MPS_PIPE_DIRECTORY names it; otherwise it is the usual one."""

    daemon: Daemon
    """`refuses`: its socket is there, and nobody listens on it. `denied`: this user may not see or use it."""


class GpuSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the socket of MPS, /etc/ld.so.preload, LD_PRELOAD, variables of MPS and HAMi.

    Parts that hardware or a hypervisor makes of a GPU (MIG, vGPU) are told by GpuStates.
    """

    mps: Mps | None
    """None where no variable names a folder, and the usual one has no daemon's socket."""

    thread_percentage: float | None
    """CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: which part of the processors a client of MPS may use."""

    shims: tuple[str, ...]
    """What catches CUDA's calls, each with its evidence."""

    @property
    def without_verdict(self) -> tuple[str, ...]:
        """Why rates that are measured here tell nothing of the GPU; empty where nothing is known to share it."""
        shared = self.mps is not None and self.mps.daemon != "absent"
        told = [*self.shims]
        if self.mps is not None and self.mps.daemon == "listens":
            told.append("MPS runs, through which several processes may compute at a time")
        if shared and self.thread_percentage is not None and self.thread_percentage < 100:
            told.append(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={self.thread_percentage:g}")
        return tuple(told)


async def collect(
    probes: Probes, system: System, environment: Environment, driver: NvidiaDriver, grant: GpuGrant | Unavailable
) -> GpuSharing | Unavailable:
    if nothing := nothing_to_ask(driver, grant):
        return nothing
    said = environment.get("CUDA_MPS_PIPE_DIRECTORY")
    folder = said or USUAL_FOLDER
    probed = await probes.run("mps_daemon", {"path": posixpath.join(folder, SOCKET)}, deadline_s=QUICK_S)
    daemon: Daemon = (probed.answer or {"daemon": "unknown"})["daemon"]
    return GpuSharing(
        mps=Mps(folder=folder, said=said is not None, daemon=daemon) if said or daemon != "absent" else None,
        thread_percentage=percentage(environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")),
        shims=(*preloaded(environment, read_or_empty(system, "/etc/ld.so.preload")), *limited(environment)),
    )


def percentage(text: str | None) -> float | None:
    """Above 0 and at most 100; None where it is no such number, which MPS passes over."""
    try:
        told = float(text or "")
    except ValueError:
        return None
    return told if 0 < told <= 100 else None


def preloaded(environment: Environment, preload: str) -> list[str]:
    """Libraries that the loader puts before all others: ld.so(8), paths divided by blanks and, in the variable, by colons."""
    places = (("LD_PRELOAD", (environment.get("LD_PRELOAD") or "").replace(":", " ")), ("/etc/ld.so.preload", preload))
    return [
        f"{name} is preloaded by {place} ({product})"
        for place, text in places
        for name in map(posixpath.basename, text.split())
        for beginning, product in PRELOADED
        if name.startswith(beginning)
    ]


def limited(environment: Environment) -> list[str]:
    return [f"{name}={value} (HAMi)" for name, value in environment.variables.items() if name.startswith(LIMITS) and value]
