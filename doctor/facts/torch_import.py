"""What `import torch` does here: whether it works, how long it takes, and what it changes."""

import re

import msgspec

from dl_doctor.facts.memory_budget import MAIN_PROCESS_BYTES, MemoryBudget
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.units import binary_size

DEADLINE_S = 45.0
"""Shorter than the 60 s that a run has by default, so that an import which hangs is named and not just cut short."""


class TorchImport(msgspec.Struct, frozen=True, kw_only=True):
    """Source: one process of the examined Python that imports torch, then numpy. All None where it did not come so far."""

    ended: Ended
    import_s: float | None = None
    """Seconds that `import torch` took; what other imports already had read into the page cache makes it shorter."""

    affinity_before: tuple[int, ...] | None = None
    """CPUs that the process could use before anything of the job's was imported."""

    affinity_after: tuple[int, ...] | None = None
    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    parallel_info: str | None = None
    """torch.__config__.parallel_info()."""

    numpy_error: str | None = None
    """What torch.from_numpy raised; None where it works, and where there is no NumPy."""

    openmp: tuple[str, ...] = ()
    """Paths of OpenMP libraries in the process."""

    @property
    def parallel_backend(self) -> str | None:
        """`OpenMP` or `native thread pool`."""
        found = re.search(r"ATen parallel backend: (.+)", self.parallel_info or "")
        return found[1].strip() if found else None


async def collect(
    probes: Probes,
    target: Target,
    files: TorchFiles,  # noqa: ARG001 (where it is not installed, there is nothing to import)
    memory: MemoryBudget | Unavailable,
) -> TorchImport | Unavailable:
    if full := no_room(memory):
        return full
    probed = await probes.run("torch_import", python=target.path, deadline_s=DEADLINE_S, place="apart")
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, TorchImport)


def no_room(memory: MemoryBudget | Unavailable, cuda_bytes: int = 0) -> Unavailable | None:
    """Why torch is not to be imported here, or CUDA not to begin in it, if so: it could take the last memory."""
    needed = MAIN_PROCESS_BYTES + cuda_bytes
    if isinstance(memory, Unavailable) or memory.headroom_bytes >= needed:
        return None
    what = "torch with CUDA" if cuda_bytes else "importing torch"
    left = binary_size(memory.headroom_bytes)
    return Unavailable.not_asked(f"{what} takes about {binary_size(needed)} and {left} of memory are left: it could end the job")
