"""How fast the GPUs are: matrix products and copies for two seconds, in the job's own PyTorch."""

import msgspec

from dl_doctor.facts.gpu_load import Load
from dl_doctor.model import Ended


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
    """What in its process shares or limits GPUs: `mps`, `mps percentage`, `hami`, ..."""

    watched: Ended | None = None
    """How the look at NVML meanwhile ended; None where there was none."""

    watch_error: str | None = None
    """Code of its nvmlInit by name."""
