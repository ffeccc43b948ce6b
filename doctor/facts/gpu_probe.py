"""How fast the GPUs are: matrix products and copies for two seconds, in the job's own PyTorch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dl_doctor.facts.allowance import Allowance
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.cuda_smoke import CudaSmoke
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.gpu_left_alone import why_left_alone
from dl_doctor.facts.gpu_load import Load, Phase, loads_of
from dl_doctor.facts.gpu_reference import card_of, possible
from dl_doctor.facts.gpu_states import GpuState, GpuStates
from dl_doctor.facts.nvidia_driver import NvidiaDriver
from dl_doctor.facts.own_gpus import OwnGpus
from dl_doctor.facts.pinned_memory import CUDA_BYTES
from dl_doctor.facts.ranks import Ranks, local_rank
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_gpus import IMPORT, TorchGpus
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import GIB, MIB, binary_size

DEADLINE_S = {"short": 40.0, "long": 55.0}
"""An import that the page cache now holds, the first GPU's start, and what measuring takes. Proposals, as the next one."""

MORE_PER_GPU_S = {"short": 6.0, "long": 10.0}
"""For each: its context, its libraries, the first call of each kernel, and its turn at the link to the host."""

LONGEST_S = 300.0
"""With 16 GPUs, and some more."""

MOST_BYTES = GIB
"""Taken of each GPU's memory at most; a quarter of what is free where that is less."""

HOST_BYTES = {"short": 128 * MIB, "long": 256 * MIB}
"""Of each buffer in the host's memory: one for each NUMA node that has GPUs, and in `long` one that is not pinned."""

HOST_BUFFERS = 4

DEVICE: str | None = None
"""What is measured; None for the GPUs. Tests have the CPU stand in for them."""

SCALE = 1.0


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What was achieved on one GPU, and what its kind can."""

    gpu: str
    """`gpu:0`, in the order in which PyTorch counts."""

    what: str
    """`bf16` (`fp16` on GPUs without), `fp32`, `tf32`, `fp16`, `fp8`: dense products. `copy`: on the GPU, read and written.
    `host to device`, `device to host`: from pinned memory and to it; with `, pageable` in deep."""

    unit: str
    """`TFLOP/s` or `GB/s`."""

    achieved: float
    """The median of blocks."""

    best: float
    spread: float
    """Between the quartiles, as a part of the median."""

    blocks: int = 0
    possible: float | None = None
    """By the data sheet or a formula; None where there is nothing to compare it with."""

    basis: str | None = None
    """`datasheet`, `formula`, or `link` for lanes and generation."""


class ProbedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that PyTorch sees, and what is known of it beside its rates."""

    gpu: str
    index: int
    """PyTorch's."""

    backend: str
    """`cuda`, `hip`, `xpu`, `mps` or `cpu`."""

    nvml_index: int | None = None
    uuid: str | None = None
    """NVML's two of the same card, whose instance this may be."""

    pci: str | None = None
    """Its address on the bus, such as `0000:07:00.0`."""

    name: str | None = None
    capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    memory_bytes: int | None = None
    integrated: bool = False
    """Whether it shares its memory with the CPU."""

    loads: tuple[Load, ...] = ()
    launch_us: float | None = None
    """To launch a tiny kernel, by the CPU's clock; only in deep."""

    wait_us: float | None = None
    """To launch one and wait until it has ended; only in deep."""

    overlap: float | None = None
    """The part of a copy from the host that hides behind products: 1 all of it, 0 none; only in deep."""

    sustained: float | None = None
    """Products for four seconds: the last quarter's rate by the first one's; only in deep."""

    digest: str | None = None
    """Of the product of the same two matrices on each GPU: equal GPUs must agree bit by bit."""

    digest_repeated: str | None = None
    """Once more, where equal GPUs did not agree."""

    host_numa: int | None = None
    """The NUMA node of the pinned buffer, where the kernel tells."""

    mask_numa: tuple[int, ...] = ()
    """Nodes whose CPUs this process may use."""

    device_numa: int | None = None
    """The node that the GPU is nearest to."""

    skipped: str | None = None
    """Why it was left alone."""

    raised: dict[str, str] = {}
    """By what was tried: `fp8`, `copy`, `begin`."""


class GpuProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a process of the job's Python with PyTorch, and beside it one of ours that asks NVML twenty times a second."""

    ended: Ended
    length: str
    """`short` (default) or `long` (deep)."""

    local_rank: int | None = None
    """The rank whose GPU alone was measured, where the ranks run the doctor together; None where it was all that are visible."""

    gpus: tuple[ProbedGpu, ...] = ()
    rates: tuple[Rate, ...] = ()
    cpu_quota: float | None = None
    """CPUs that this rank may use: with less than one, launching is what takes the time."""

    marks: tuple[str, ...] = ()
    """What stands between PyTorch and CUDA in its process and shares out the GPU, in words. Its rates then prove nothing."""

    watched: Ended | None = None
    """How the look at NVML meanwhile ended; None where there was none."""

    watch_error: str | None = None
    """Code of its nvmlInit by name."""


async def collect(
    probes: Probes,
    settings: Settings,
    environment: Environment,
    driver: NvidiaDriver,
    grant: GpuGrant | Unavailable,
    own: OwnGpus | Unavailable,
    states: GpuStates | Unavailable,
    seen: TorchGpus | Unavailable,
    smoke: CudaSmoke | Unavailable,
    target: Target,
    files: TorchFiles,
    slurm: Slurm | Unavailable,
    ranks: Ranks | Unavailable,
    allowance: Allowance | Unavailable,
    cpus: CpuBudget | Unavailable,
) -> GpuProbe | Unavailable:
    known = () if isinstance(states, Unavailable) else states.gpus
    whys = [(state, why) for state in known if (why := not_ours(state, own) or why_left_alone(state) or broken(state, smoke))]
    foreign = without_nvml(driver, grant, files)
    if nothing := (None if foreign else unseen(states, seen)) or refused(files, slurm, allowance) or all_left_alone(known, whys):
        return nothing
    if ended := brought_down(smoke):
        return ended
    count = seen.usable if isinstance(seen, TorchGpus) else 1
    rank = local_rank(environment, slurm) if isinstance(ranks, Ranks) and ranks.on_node > 1 else None
    if rank is not None and rank >= count > 1:
        return Unavailable.absent(f"rank {rank} has none of the {count} GPUs for itself; gpu-per-rank says more")
    only = None if rank is None else rank if count > 1 else 0
    length = "long" if settings.profile == "deep" else "short"
    measured, watched = await probes.run_watched(
        "gpu_speed",
        {
            "length": length,
            "only": only,
            "leave": {state.pci: why for state, why in whys},
            "check_memory": not known or any(state.divided for state in known),
            "most_bytes": MOST_BYTES,
            "host_bytes": host_bytes(allowance, length),
            "device": DEVICE,
            "scale": SCALE,
        },
        watcher="gpu_watch",
        watching={"only": likely_index(only, own)},
        python=target.path,
        deadline_s=DEADLINE_S[length] + MORE_PER_GPU_S[length] * (count if rank is None else 1),
    )
    if measured.ended.step == IMPORT or measured.ended.how == "unstartable":
        return Unavailable.failed(f"PyTorch cannot be asked: its process {measured.ended.in_words}")
    told = measured.answer or {}
    looked = (watched.answer if watched else None) or {}
    gpus, rates = joined(told, looked, known)
    if measured.answer is not None and all(gpu.skipped for gpu in gpus):
        return Unavailable.absent(of_each((gpu.gpu, gpu.skipped or "") for gpu in gpus) or "PyTorch sees no GPU")
    return GpuProbe(
        ended=measured.ended,
        length=length,
        local_rank=rank,
        gpus=gpus,
        rates=rates,
        cpu_quota=None if isinstance(cpus, Unavailable) else cpus.cpus,
        marks=tuple(told.get("marks", ())),
        watched=watched.ended if watched else None,
        watch_error=looked.get("error"),
    )


def broken(state: GpuState, smoke: CudaSmoke | Unavailable) -> str | None:
    """Why this GPU is not measured, if it did not even compute something small right."""
    tried = smoke.gpus if isinstance(smoke, CudaSmoke) else ()
    ill = any(gpu.pci == state.pci and gpu.tried and not gpu.right for gpu in tried)
    return "it does not compute right; see cuda-smoke" if ill else None


def brought_down(smoke: CudaSmoke | Unavailable) -> Unavailable | None:
    """Where something small ended a process, or did not come back, nothing larger is tried: it would end so too."""
    ended = [gpu.label for gpu in smoke.gpus if gpu.ended] if isinstance(smoke, CudaSmoke) else []
    return (
        Unavailable.absent(f"a process that computed on {', '.join(ended)} did not get over it; see cuda-smoke")
        if ended
        else None
    )


def refused(files: TorchFiles, slurm: Slurm | Unavailable, allowance: Allowance | Unavailable) -> Unavailable | None:
    """Why nothing is to be tried, whatever GPUs there are."""
    if files.version is None:
        return Unavailable.absent(f"{files.origin} is not PyTorch")
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Unavailable.absent("this Slurm job was granted no GPU: those here are not for it to start")
    if isinstance(allowance, Unavailable):
        return allowance
    if allowance.allowed_bytes < CUDA_BYTES + HOST_BUFFERS * MIB:
        allowed = binary_size(allowance.allowed_bytes)
        return Unavailable.absent(
            f"with CUDA PyTorch takes about {binary_size(CUDA_BYTES)} of memory, and a quarter of what is left is {allowed}"
        )
    return None


def without_nvml(driver: NvidiaDriver, grant: GpuGrant | Unavailable, files: TorchFiles) -> bool:
    """Whether the GPUs are such that NVML and libcuda know nothing of them: AMD's, Intel's, a Jetson's."""
    amd = bool(files.hip) and isinstance(grant, GpuGrant) and "kfd" in grant.nodes
    return amd or files.local_tag == "xpu" or driver.platform == "jetson"


def unseen(states: GpuStates | Unavailable, seen: TorchGpus | Unavailable) -> Unavailable | None:
    """Why NVIDIA's GPUs are not measured, if so: CUDA does not begin, or nobody knows whether they are in use."""
    if isinstance(seen, Unavailable):
        return seen.inherited_from("torch_gpus")
    if not seen.usable:
        return Unavailable.absent("PyTorch sees no GPU; gpu-visible and cuda-smoke say why")
    if isinstance(states, Unavailable):
        return states.inherited_from("gpu_states")
    if not states.gpus:
        why = f"NVML gives {states.error}" if states.error else f"NVML's process {states.ended.in_words}"
        return Unavailable.failed(f"whether the GPUs are in use is not known: {why}")
    return None


def not_ours(state: GpuState, own: OwnGpus | Unavailable) -> str | None:
    """Slurm may have granted fewer GPUs than CUDA shows, where nobody hides the others."""
    if isinstance(own, Unavailable) or state.index in own.indices:
        return None
    return f"it is not this job's, by {own.source}"


def all_left_alone(states: Sequence[GpuState], whys: Sequence[tuple[GpuState, str]]) -> Unavailable | None:
    """Where none may be measured, or one that may not could not be told from the others: then nothing is begun at all."""
    if whys and (len(whys) == len(states) or any(state.pci is None for state, _ in whys)):
        return Unavailable.absent(of_each((state.label, why) for state, why in whys))
    return None


def of_each(whys: Iterable[tuple[str, str]]) -> str:
    """`gpu:0, gpu:1: pid 4711 computes on it; gpu:2: its compute mode is prohibited`."""
    labels: dict[str, list[str]] = {}
    for label, why in whys:
        labels.setdefault(why, []).append(label)
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in labels.items())


def likely_index(rank: int | None, own: OwnGpus | Unavailable) -> int | None:
    """NVML's number of the GPU that a rank takes, so that each rank looks at its own alone; None for all.

    CUDA may count in another order. Then the address does not fit, and what was seen of the other GPU is not taken.
    """
    indices = () if isinstance(own, Unavailable) else own.indices
    return indices[rank] if rank is not None and rank < len(indices) else None


def host_bytes(allowance: Allowance | Unavailable, length: str) -> int:
    allowed = 0 if isinstance(allowance, Unavailable) else allowance.allowed_bytes - CUDA_BYTES
    return max(MIB, min(HOST_BYTES[length], allowed // HOST_BUFFERS))


def joined(
    told: Mapping[str, Any], seen: Mapping[str, Any], states: Sequence[GpuState]
) -> tuple[tuple[ProbedGpu, ...], tuple[Rate, ...]]:
    """What PyTorch measured, with what NVML saw meanwhile of the card at the same address, and with what its kind can."""
    phases = msgspec.convert(told.get("phases", ()), tuple[Phase, ...])
    gpus, rates = [], []
    for one in told.get("gpus", ()):
        state = next((state for state in states if state.pci is not None and state.pci == one["pci"]), None)
        its = tuple(phase for phase in phases if phase.index in (None, one["index"]))
        gpu = msgspec.convert(
            {
                **one,
                "gpu": f"gpu:{one['index']}",
                "nvml_index": state and state.index,
                "uuid": state and state.uuid,
                "loads": loads_of(looks_at(seen, one["pci"]), its),
            },
            ProbedGpu,
        )
        gpus.append(gpu)
        rates += rates_of(gpu, [rate for rate in told["rates"] if rate["index"] == gpu.index], state)
    return tuple(gpus), tuple(rates)


def looks_at(seen: Mapping[str, Any], pci: str | None) -> list[dict[str, Any]]:
    """What the watch told of the GPU at this address, each look with the names of its values."""
    found = [gpu for gpu in seen.get("gpus", ()) if pci is not None and gpu["pci"] == pci]
    return [dict(zip(gpu["names"], look, strict=True)) for gpu in found for look in gpu["looks"]]


def rates_of(gpu: ProbedGpu, told: Sequence[Mapping[str, Any]], state: GpuState | None) -> list[Rate]:
    card = card_of(
        state,
        name=gpu.name,
        capability=gpu.capability,
        multiprocessors=gpu.multiprocessors,
        memory_bytes=gpu.memory_bytes,
        integrated=gpu.integrated,
        backend=gpu.backend,
    )
    rates = []
    for rate in told:
        best, basis = possible(rate["what"], card)
        rates.append(msgspec.convert({**rate, "gpu": gpu.gpu, "possible": best, "basis": basis}, Rate))
    return rates
