"""The GPUs that PyTorch sees, and what CUDA's driver library answers in its process."""

import msgspec

from dl_doctor.facts.cuda_errors import NOT_READY
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.nvml import Nvml
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_import import no_room
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probed, Probes

DEADLINE_S = 30.0
"""For an import that the page cache now holds, and for CUDA's first call, which starts every GPU: without persistence a second
or two for each. A proposal."""

PAUSE_S = 10.0
"""Before a second try where the fabric manager may still be at work (802): after the start of a node that takes up to a minute,
which is all that a run has. A proposal."""

IMPORT = "import torch"
"""The probe's first step. What ends it is told by torch-imports, and is nothing of CUDA's."""


class TorchGpus(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a process of the examined Python that imports torch, then asks the libcuda.so.1 that it has, then torch.

    It is another one than torch_import's, and comes when that has ended: a crash of CUDA is not one of `import torch`.
    """

    ended: Ended
    torch_cuda: str | None = None
    """torch.version.cuda: what it was built for, such as `12.8`; None for a build without."""

    driver_cuda: str | None = None
    """The newest CUDA that this libcuda knows, such as `12.4`; cuDriverGetVersion. None where it does not say."""

    init_code: int | None = None
    """What cuInit gave, 0 for success, by the numbers of cuda.h; None where libcuda does not load."""

    init_s: float | None = None
    """What cuInit took."""

    libcuda: tuple[str, ...] = ()
    """The files of that name in the process after it, links followed; WSL's loads a second one."""

    tries: int = 1
    """Two where cuInit gave 802 at first; all else here is of the second then."""

    count: int | None = None
    """torch.cuda.device_count() where torch.cuda.is_available(), else 0. The first alone asks NVML and not CUDA."""

    said: tuple[str, ...] = ()
    """Warnings of torch's meanwhile."""

    @property
    def usable(self) -> int:
        """How many it sees. With PYTORCH_NVML_BASED_CUDA_CHECK=1 it counts GPUs with which CUDA does not begin."""
        return 0 if self.init_code else self.count or 0


async def collect(
    probes: Probes,
    nvml: Nvml,
    target: Target,
    files: TorchFiles,
    memory: MemoryBudget | Unavailable,
    slurm: Slurm | Unavailable,
) -> TorchGpus | Unavailable:
    if not nvml.usable:
        return Unavailable.absent("NVML lists no GPU that torch could see")
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Unavailable.absent("this Slurm job was granted no GPU: those here are not for it to start")
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if full := no_room(memory):
        return full
    tries, probed = 1, await ask(probes, target, 0.0)
    if probed.answer and probed.answer.get("init_code") == NOT_READY:
        tries, probed = 2, await ask(probes, target, PAUSE_S)
    if probed.ended.step == IMPORT or probed.ended.how == "unstartable":
        return Unavailable.failed(f"PyTorch cannot be asked: its process {probed.ended.in_words}")
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended, "tries": tries}, TorchGpus)


async def ask(probes: Probes, target: Target, pause_s: float) -> Probed:
    return await probes.run(
        "torch_gpus", {"pause_s": pause_s}, python=target.path, deadline_s=DEADLINE_S + pause_s, place="apart"
    )
