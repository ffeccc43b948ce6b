"""Whether the GPUs of this job compute: something small on each, by the job's own PyTorch."""

import re
from typing import Any

import msgspec

from dl_doctor.facts.cuda_errors import code_in
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.gpu_left_alone import why_not_begun
from dl_doctor.facts.gpu_states import GpuStates
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.nvidia_driver import NvidiaDriver
from dl_doctor.facts.nvml import Nvml
from dl_doctor.facts.own_gpus import OwnGpus
from dl_doctor.facts.pinned_memory import CUDA_BYTES
from dl_doctor.facts.ranks import Ranks, local_rank
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_gpus import IMPORT, TorchGpus
from dl_doctor.facts.torch_import import no_room
from dl_doctor.facts.visible_gpus import VisibleGpus
from dl_doctor.model import NO_GPU, Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.system import Missing

DEADLINE_S = 40.0
"""For an import that the page cache holds, CUDA's beginning, a second or two for each GPU without persistence, and a GiB of
NVIDIA's libraries to load. A proposal."""

AT_GPU = re.compile(r"on GPU ([0-9]+)$", re.ASCII)
"""How the steps of the probe end in which a GPU is at work."""

EXCLUSIVE = (1, 3)
"""CU_COMPUTEMODE_EXCLUSIVE and _EXCLUSIVE_PROCESS of cuda.h, the first of old drivers."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One computation on a GPU, against the same on a CPU."""

    wrong: float | None = None
    """The part of the values that differ, 0 where all are right; None where it raised."""

    took_s: float | None = None
    """From nothing to the comparison; of the first one, all that CUDA does to begin on this GPU."""

    error: str | None = None
    number: int | None = None
    """The code that torch gives with its error, from release 2.8 on."""

    @property
    def code(self) -> int | None:
        """By the numbers of `cuda_errors`; None where it is not one of CUDA's."""
        return self.number if self.number is not None or self.error is None else code_in(self.error)


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """A library of NVIDIA's packages in this environment in whose place another one of the same name was loaded."""

    name: str
    own: str
    taken: str
    by: str | None
    """The variable that led to it, LD_LIBRARY_PATH or LD_PRELOAD; None where neither did."""


class SmokedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU that torch sees."""

    index: int
    """torch's own."""

    name: str | None = None
    pci: str | None = None
    """Its address on the bus, such as `0000:07:00.0`."""

    capability: tuple[int, int] | None = None
    """CUDA compute capability; None of AMD's."""

    arch: str | None = None
    """What AMD's is called: `gfx942:sramecc+:xnack-`."""

    integrated: bool = False
    """It has no memory of its own."""

    compute_mode: int | None = None
    """0 default, 2 prohibited, else EXCLUSIVE."""

    skipped: str | None = None
    """Why it was left alone."""

    ended: Ended | None = None
    """How the process ended that computed on it, where that did not get over it; the rest is not known then."""

    copy: Tried | None = None
    product: Tried | None = None
    """Of two matrices, and an addition by code of torch's own."""

    convolution: Tried | None = None
    """By cuDNN or MIOpen."""

    @property
    def label(self) -> str:
        return f"gpu:{self.index}"

    @property
    def exclusive(self) -> bool:
        return self.compute_mode in EXCLUSIVE

    @property
    def tried(self) -> dict[str, Tried]:
        """What was tried, in this order."""
        by_name = {"copy": self.copy, "product": self.product, "convolution": self.convolution}
        return {name: tried for name, tried in by_name.items() if tried}

    @property
    def right(self) -> bool:
        return self.convolution is not None and all(tried.wrong == 0 for tried in self.tried.values())


class CudaSmoke(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a process of the examined Python that imports torch and computes; another one after each that broke at a GPU."""

    ended: Ended
    """Of the last process; where it broke at a GPU, that GPU has it too."""

    backend: str | None = None
    """`cuda` or `hip`."""

    init_code: int | None = None
    """What cuInit gave, in this process or, where it was no success, in the one of `torch_gpus`; None without libcuda."""

    init_s: float | None = None
    """What it took here: the second time within this run."""

    count: int | None = None
    """GPUs that torch sees; nothing is computed where it sees none."""

    rank: int | None = None
    """This process's number on the node, where it is one of several, and then took the GPU of that number only."""

    said: tuple[str, ...] = ()
    """Warnings of torch's meanwhile."""

    arch_list: tuple[str, ...] = ()
    """torch.cuda.get_arch_list(): what this PyTorch has code for, such as `sm_90` and `compute_90`."""

    gpus: tuple[SmokedGpu, ...] = ()
    stopped: bool = False
    """Whether others may not have been tried any more."""

    libraries: dict[str, tuple[str, ...]] = {}
    """Files in the process afterwards, links followed, by the names that the loader knows them by; those of the GPU's work."""

    passed_over: tuple[PassedOver, ...] = ()
    cudnn_error: str | None = None
    """What torch.backends.cudnn.version() raises: the cuDNN is not of the release that this PyTorch was built for."""


async def collect(
    probes: Probes,
    driver: NvidiaDriver,
    grant: GpuGrant,
    asked: TorchGpus | Unavailable,
    nvml: Nvml | Unavailable,
    own: OwnGpus | Unavailable,
    states: GpuStates | Unavailable,
    visible: VisibleGpus | Unavailable,
    target: Target,
    files: TorchFiles | Unavailable,
    memory: MemoryBudget | Unavailable,
    environment: Environment,
    ranks: Ranks | Unavailable,
    slurm: Slurm | Unavailable,
) -> CudaSmoke | Unavailable:
    if nothing := nothing_to_try(driver, grant, asked, visible, files, slurm):
        return nothing
    if full := no_room(memory, CUDA_BYTES):
        return full
    if isinstance(asked, TorchGpus) and not asked.usable:
        return CudaSmoke(ended=asked.ended, backend="cuda", init_code=asked.init_code, count=0, said=asked.said)
    among_others = isinstance(ranks, Ranks) and ranks.on_node > 1
    rank = local_rank(environment, slurm) if among_others else None
    arguments = {"rank": rank, "foreign": foreign(nvml, own), "spared": spared(states)}
    known: dict[str, Any] = {"rank": rank}
    gpus: dict[int, dict[str, Any]] = {}
    while True:
        given = {**arguments, "without": sorted(gpus)}
        try:
            probed = await probes.run("cuda_smoke", given, python=target.path, deadline_s=DEADLINE_S, place="apart")
        except Missing:
            if not gpus:
                raise
            break
        answer = probed.answer or {"stopped": True}
        tried = {gpu["index"]: gpu for gpu in answer.get("gpus", ())}
        if probed.answer is None and (broke := AT_GPU.search(probed.ended.step or "")):
            tried = {int(broke[1]): {"index": int(broke[1]), "ended": probed.ended}}
        new = tried.keys() - gpus.keys()
        gpus |= tried
        known |= {**answer, "ended": probed.ended}
        if not (new and answer.get("stopped") and goes_on(probed.ended)):
            break
    ended: Ended = known["ended"]
    if not gpus and (ended.step == IMPORT or ended.how == "unstartable"):
        return Unavailable.failed(f"PyTorch cannot be asked: its process {ended.in_words}")
    return msgspec.convert({**known, "gpus": [gpus[index] for index in sorted(gpus)]}, CudaSmoke)


def goes_on(ended: Ended) -> bool:
    """Whether another process is to try the GPUs that are left: not after what takes its time, or the last memory."""
    return ended.how == "answered" or (ended.how in ("killed", "exited") and ended.signal != "SIGKILL")


def nothing_to_try(
    driver: NvidiaDriver,
    grant: GpuGrant,
    asked: TorchGpus | Unavailable,
    visible: VisibleGpus | Unavailable,
    files: TorchFiles | Unavailable,
    slurm: Slurm | Unavailable,
) -> Unavailable | None:
    """Why nothing is to be computed, if so."""
    of_amd = not driver.there and "kfd" in grant.nodes
    if not driver.there and not grant.promised and not of_amd:
        return Unavailable.absent(NO_GPU)
    if isinstance(files, Unavailable):
        return files.inherited_from("torch_files")
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if not (files.hip if of_amd else files.cuda):
        here = "AMD's" if of_amd else "NVIDIA's"
        return Unavailable.absent(f"the installed PyTorch is built for other hardware than {here} GPUs")
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Unavailable.absent("this Slurm job was granted no GPU: those here are not for it to start")
    if grant.promised == 0 or (isinstance(visible, VisibleGpus) and visible.hidden):
        return Unavailable.absent("GPUs are hidden from this job on purpose")
    if of_amd or driver.platform == "jetson":
        return None
    if isinstance(asked, Unavailable):
        return asked.inherited_from("torch_gpus")
    if asked.ended.how != "answered":
        return Unavailable.failed(f"it is not tried again: a process in which CUDA was to begin {asked.ended.in_full}")
    return None


def foreign(nvml: Nvml | Unavailable, own: OwnGpus | Unavailable) -> list[str]:
    """Addresses on the bus of GPUs that are another job's, though CUDA shows them: as in a prolog, or without control groups."""
    if isinstance(nvml, Unavailable) or isinstance(own, Unavailable):
        return []
    return [gpu.pci for gpu in nvml.gpus if gpu.pci and gpu.index not in own.indices]


def spared(states: GpuStates | Unavailable) -> dict[str, str]:
    """GPUs that are not to be started by us, by their addresses on the bus, and why. A desktop's own programs may use one."""
    known = states.gpus if isinstance(states, GpuStates) else ()
    return {gpu.pci: why for gpu in known if gpu.pci and (why := why_not_begun(gpu))}
