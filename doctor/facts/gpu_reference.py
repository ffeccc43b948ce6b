"""What a GPU can do: by the table of kinds in gpus.csv, and by a formula for kinds that it does not know."""

import csv
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

from dl_doctor.facts.gpu_states import GpuState

FMAS: dict[tuple[int, int], tuple[int, int]] = {
    (7, 0): (512, 512),
    (7, 5): (512, 256),
    (8, 0): (1024, 1024),
    (8, 6): (512, 256),
    (8, 7): (1024, 1024),
    (8, 9): (512, 256),
    (9, 0): (2048, 2048),
    (10, 0): (4096, 4096),
    (10, 3): (4096, 4096),
    (12, 0): (512, 256),
}
"""Dense fused multiply-adds of 16 bits, summed up in 32, that a multiprocessor does per clock, by compute capability; the second
is GeForce's. NVIDIA's whitepapers of Volta to Blackwell."""

WITHOUT_TENSOR_CORES = re.compile(r"GTX 16|\bMX[0-9]{3}|\bT[0-9]{3,4}\b")
"""GPUs of capability 7.5 that have none, so that half precision goes another way: GeForce GTX 16 and MX, Quadro T, T400 to T1200
(NVIDIA's Turing TU116 and TU117 chips, from memory). A T4 is none of them."""

LANES: dict[tuple[int, int], int] = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
"""Of 32 bits, likewise. All others have 128."""

BF16_FROM = TF32_FROM = (8, 0)
FP8_FROM = (8, 9)

GB_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s in one direction, by generation: the transfer rate times 8/10, 128/130 or 242/256 of encoding (PCI Express base
specification)."""

MEMORY_SLICES = 8
"""A GPU's memory is divided into so many for MIG (NVIDIA's MIG user guide); an A30's into four, which are two of these each."""

HOST_COPIES = ("host to device", "device to host")

INSTANCE = re.compile(r"(?P<card>.+) MIG (?:[0-9]+c\.)?[0-9]+g\.(?P<gigabytes>[0-9]+)gb\S*")
"""The name of an instance, such as `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""


class GpuPart(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of GPU: a line of gpus.csv. TFLOP/s are dense; None where it cannot, or where they are not published."""

    ids: str
    """PCI device ids, from pci.ids."""

    names: str
    """What drivers call it, without the maker: a pattern for the whole name. Empty where another kind has the same name."""

    part: str
    kind: str
    """`data-centre`, `professional`, `geforce`, `professional-laptop`, `geforce-laptop`, `jetson` or `cdna`."""

    capability: str
    multiprocessors: int
    clock_mhz: int
    """At which the TFLOP/s are counted: the boost clock of the data sheet. Many GPUs go above it."""

    fp32: float | None
    """AMD's with matrix instructions, which products use."""

    tf32: float | None
    fp16: float | None
    """Summed up in 32 bits; bf16 is the same where there is bf16."""

    fp8: float | None
    memory_gb: int | None
    """As the profiles of MIG name it; None where there is no MIG."""

    memory_mhz: int
    """As NVML tells it: half of what a pin transfers."""

    memory_bits: int
    gb_per_s: float
    copy_share: float | None
    """The part of `gb_per_s` that a kernel reaches on a healthy one: NVIDIA's own measurements, in the configuration of DCGM's
    memory bandwidth test; AMD's from memory, of BabelStream. None where it was not published."""

    link: str
    """To the host, generation × lanes, such as `4x16`; `C2C` or `none` where it is no PCI Express."""

    watts: int
    source: str
    """Where its figures were read. `As read on some`: in what owners of such GPUs published, of nvidia-smi for the most part. `By
    formula`: with FMAS."""

    def product(self, what: str) -> float | None:
        """TFLOP/s of dense products in this type."""
        if what == "bf16":
            return self.fp16 if self.capability not in ("7.0", "7.5") else None
        return {"fp32": self.fp32, "tf32": self.tf32, "fp16": self.fp16, "fp8": self.fp8}.get(what)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a GPU, for its kind to be told. None where it is not known."""

    name: str | None = None
    backend: str = "cuda"
    pci_device: str | None = None
    capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    memory_bytes: int | None = None
    integrated: bool = False
    sm_clock_mhz: int | None = None
    """The highest."""

    memory_clock_mhz: int | None = None
    memory_bus_bits: int | None = None
    link_gen: int | None = None
    link_width: int | None = None
    """What card and slot both can; None where there is no such link, or only a virtual machine's."""

    @property
    def instance(self) -> re.Match[str] | None:
        """Its name, where it is an instance of MIG."""
        return INSTANCE.fullmatch(self.name or "")

    @property
    def consumer(self) -> bool:
        return "GeForce" in (self.name or "")


def card_of(
    state: GpuState | None,
    *,
    name: str | None = None,
    capability: tuple[int, int] | None = None,
    multiprocessors: int | None = None,
    memory_bytes: int | None = None,
    integrated: bool = False,
    backend: str = "cuda",
) -> Card:
    """What NVML and PyTorch know of the same GPU."""
    told = state or GpuState(index=0)
    linked = not integrated and told.virtualization not in ("passthrough", "vgpu")
    return Card(
        name=name or told.name,
        backend=backend,
        pci_device=told.pci_device,
        capability=capability or told.capability,
        multiprocessors=multiprocessors,
        memory_bytes=memory_bytes,
        integrated=integrated,
        sm_clock_mhz=told.sm_clock_max_mhz,
        memory_clock_mhz=told.memory_clock_max_mhz,
        memory_bus_bits=told.memory_bus_bits,
        link_gen=least(told.link_gen_max, told.slot_gen_max) if linked else None,
        link_width=least(told.link_width_max, told.slot_width_max) if linked else None,
    )


def least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def possible(what: str, card: Card) -> tuple[float | None, str | None]:
    """What this kind of GPU does at best, in TFLOP/s or GB/s, and by what: `datasheet`, `formula` or `link`."""
    part = part_of(card)
    if what in HOST_COPIES:
        value, basis = host_link(card, part), "link"
    elif what == "copy":
        value, basis = memory_rate(card, part)
    elif part is not None:
        value, basis = scaled(part.product(what), multiprocessor_share(card, part)), "datasheet"
    else:
        value, basis = formula(what, card), "formula"
    return (value, basis) if value is not None else (None, None)


def scaled(rate: float | None, share: float | None) -> float | None:
    return rate * share if rate is not None and share is not None else None


def host_link(card: Card, part: GpuPart | None) -> float | None:
    if card.integrated or card.link_gen is None or card.link_width is None or (part and part.link in ("C2C", "none")):
        return None
    lane = GB_PER_LANE.get(card.link_gen)
    return lane * card.link_width if lane else None


def memory_rate(card: Card, part: GpuPart | None) -> tuple[float | None, str]:
    """GB/s, read and written. Makers of laptops choose the memory's clock, so that there NVML's counts."""
    clock, bits = card.memory_clock_mhz, card.memory_bus_bits
    clocked = clock is not None and bits is not None and not card.instance and not card.integrated
    if part is not None and not (clocked and part.kind.endswith("laptop")):
        return scaled(part.gb_per_s, memory_share(card, part)), "datasheet"
    return (by_memory_clock(clock, bits) if clocked and clock and bits else None), "formula"


def by_memory_clock(mhz: float, bits: int) -> float:
    """GB/s: two transfers per clock and pin."""
    return mhz * 2 * bits / 8 / 1000


def formula(what: str, card: Card) -> float | None:
    """TFLOP/s by compute capability, multiprocessors and the highest clock, which is above what data sheets count with."""
    if card.backend != "cuda" or not (card.capability and card.multiprocessors and card.sm_clock_mhz):
        return None
    if what == "fp16" and card.capability == (7, 5) and WITHOUT_TENSOR_CORES.search(card.name or ""):
        return None
    return by_clock(what, card.capability, card.multiprocessors, card.sm_clock_mhz, consumer=card.consumer)


def by_clock(what: str, capability: tuple[int, int], multiprocessors: int, mhz: float, *, consumer: bool) -> float | None:
    """TFLOP/s of dense products; None where this capability is not known, or has no such type."""
    fmas = FMAS.get(capability)
    if fmas is None:
        return None
    half = fmas[consumer]
    per_clock = {
        "fp32": LANES.get(capability, 128),
        "fp16": half,
        "bf16": half if capability >= BF16_FROM else None,
        "tf32": half / 2 if capability >= TF32_FROM else None,
        "fp8": half * 2 if capability >= FP8_FROM else None,
    }.get(what)
    return multiprocessors * per_clock * 2 * mhz / 1e6 if per_clock else None


def multiprocessor_share(card: Card, part: GpuPart) -> float | None:
    """The part of the GPU's multiprocessors that an instance has."""
    if not card.instance:
        return 1.0
    return min(1.0, card.multiprocessors / part.multiprocessors) if card.multiprocessors else None


def memory_share(card: Card, part: GpuPart) -> float | None:
    """The part of the GPU's memory slices that an instance has."""
    if not card.instance:
        return 1.0
    if part.memory_gb is None:
        return None
    slices = round(MEMORY_SLICES * int(card.instance["gigabytes"]) / part.memory_gb)
    return min(max(slices, 1), MEMORY_SLICES) / MEMORY_SLICES


def part_of(card: Card) -> GpuPart | None:
    """Its kind, by the PCI id, else by the name; a kind of the same name with other multiprocessors or memory is another one."""
    if card.backend == "cuda" and card.pci_device:
        for part in parts():
            if card.pci_device in part.ids.split():
                return part
    name = card.instance["card"] if card.instance else card.name or ""
    return next((part for part in parts() if part.names and bears(name, part) and fits(card, part)), None)


def bears(name: str, part: GpuPart) -> bool:
    return re.fullmatch(rf"(?:NVIDIA |AMD )?(?:{part.names})", name) is not None


def fits(card: Card, part: GpuPart) -> bool:
    """Whether nothing that is known of it speaks against this kind."""
    sized = card.instance or card.multiprocessors in (None, part.multiprocessors)
    wired = card.memory_bus_bits in (None, part.memory_bits)
    capable = card.backend != "cuda" or card.capability is None or "{}.{}".format(*card.capability) == part.capability
    return bool(sized and wired and capable)


@cache
def parts() -> tuple[GpuPart, ...]:
    text = files("dl_doctor.facts").joinpath("gpus.csv").read_text(encoding="utf-8")
    return tuple(parse(text))


def parse(text: str) -> Iterator[GpuPart]:
    for row in csv.DictReader(text.splitlines()):
        known = {name: value if value or name in ("ids", "names") else None for name, value in row.items()}
        yield msgspec.convert(known, GpuPart, strict=False)
