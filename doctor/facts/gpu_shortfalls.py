"""Rates that fall short of what a healthy GPU of the kind reaches, and why; GPUs behind their equals, or computing other bits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import msgspec

from dl_doctor.facts.gpu_probe import GpuProbe, ProbedGpu, Rate
from dl_doctor.facts.gpu_yardsticks import Brake, GpuYardsticks, Yardstick

PRODUCTS = {"data-centre": (0.70, 0.55), "professional": (0.75, 0.60), "geforce": (0.75, 0.60), "cdna": (0.45, 0.35)}
"""Shares of the data sheet that bf16 (fp16 before Ampere) reaches on healthy GPUs of a kind, and below which they are broken.
Large products were measured to reach 81-87 % on A100, 80 % on H100 and H200, 78 % on B200 and 51 % on MI300X
(stas00/ml-engineering). The lines are proposals."""

OTHER_PRODUCTS = {"fp16": 1.0, "fp8": 0.85, "tf32": 0.65, "fp32": 0.65}
"""Parts of the first of these lines from which on other types are fine. fp8 reaches 71 to 78 % on H100 to GB200 (stas00); what
fp32 and tf32 reach depends on the library much more. Proposals."""

FINE_AT_ITS_CLOCK, BROKEN_AT_ITS_CLOCK = 0.75, 0.55
"""Shares of what is possible at the clock that was measured. Proposals."""

BY_FORMULA = 0.27
"""Instead of the second where the kind is not in the table: some GPUs do half of what their capability can (A10G, L40)."""

COPY = (0.90, 0.75)
"""Parts of what NVIDIA measured on this kind. Its own test (DCGM) fails below 0.75; the first is a proposal."""

HOST_LINK = {
    (3, 16): (11.0, 10.0),
    (3, 8): (5.5, 5.0),
    (4, 16): (23.0, 21.0),
    (4, 8): (11.5, 10.0),
    (4, 4): (5.8, 5.0),
    (5, 16): (50.0, 48.0),
    (5, 8): (24.0, 21.0),
}
"""GB/s from pinned memory that are fine, and below which the link is broken, by generation and lanes. Seen on healthy ones: 12.4,
26 and 55 with 16 lanes (nvbandwidth); Azure's node health checks fail below 10, 21 and 48. The others by lanes."""

HOST_LINK_OTHERWISE = (0.70, 0.63)
"""Parts of lanes times generation, for links that are not in that table. Proposal, after its lowest rows."""

BEHIND = 0.07
"""Below the median of equal GPUs: healthy ones of a node differ by 5 % (SuperBench's line). Proposal."""

PEERS_NEEDED = 3
"""With two it cannot be told which is as it should be."""

STEADY = 0.10
"""Spread between quartiles above which something else ran meanwhile (torch.utils.benchmark says so, too)."""

MEMORY_CLOCK = 0.9
"""Of the highest: GeForce computes at a little less than that (10,251 of 10,501 MHz)."""

A_CORE = 1.0
"""CPUs. With less the process that launches is stopped for a part of the time."""

HOST_COPIES = ("host to device", "device to host")

URGENT = ("overheated", "power brake", "hardware slowdown", "hot", "held below limit")
"""Brakes that are no choice: they explain a low rate before anything else does."""

Why = Literal[
    "cpu", "brake", "low clock", "memory clock", "moves", "slow path", "tf32 off", "lanes", "generation", "numa", "way", "unknown"
]


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that a healthy GPU of the kind exceeds."""

    gpu: str
    rate: Rate
    fine: float
    """From here on nothing would be said."""

    broken: float | None
    """Below it is, whatever the cause; None where it is never as bad as that."""

    at_its_clock: float | None
    """For half precision: the share of what is possible at the clock that was measured."""

    why: Why
    """`cpu`: too little of it to launch. `brake`: see there. `moves`: the rate does. `way`: between a good link and the CPU."""

    brake: Brake | None = None

    @property
    def severe(self) -> bool:
        return self.broken is not None and self.rate.achieved < self.broken

    @property
    def loud(self) -> bool:
        """Whether it says more than that equal GPUs are faster would."""
        chosen = self.brake is not None and self.brake.reason in ("lowered limit", "power limit")
        return self.severe and not chosen and self.rate.what not in HOST_COPIES


class Laggard(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that its equals leave behind."""

    gpu: str
    rate: Rate
    against: float
    """The median of all of them; of two, the other one's rate."""

    equal: int
    """How many they are."""

    brake: Brake | None
    starved: bool

    @property
    def gap(self) -> float:
        return 1 - self.rate.achieved / self.against


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that computed other bits than its equals."""

    gpu: str
    equal: int
    twice: bool


class GpuShortfalls(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the probe of the GPUs' speed, and what each of them is held against."""

    judged: bool
    """Whether there was anything to hold products against: a data sheet, a formula or equal GPUs."""

    shortfalls: tuple[Shortfall, ...]
    laggards: tuple[Laggard, ...]
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True)
class Measured:
    """A GPU with its rates, and what they are held against."""

    gpu: ProbedGpu
    yardstick: Yardstick
    rates: dict[str, Rate]
    starved: bool
    """Whether its CPU may be what is slow."""

    @property
    def main(self) -> Rate | None:
        """Of products in half precision, whose clock was watched."""
        return self.rates.get("bf16") or self.rates.get("fp16")

    @property
    def at_its_clock(self) -> float | None:
        load, rate = self.yardstick.load, self.main
        if load is None or not load.sm_mhz or not self.yardstick.at_mhz or rate is None or not rate.possible:
            return None
        return rate.achieved / (rate.possible * load.sm_mhz / self.yardstick.at_mhz)

    @property
    def urgent(self) -> Brake | None:
        return next((brake for brake in self.yardstick.brakes if brake.reason in URGENT), None)


def collect(probe: GpuProbe, yardsticks: GpuYardsticks) -> GpuShortfalls:
    starved = probe.cpu_quota is not None and probe.cpu_quota < A_CORE
    measured = [
        Measured(gpu, yardsticks.of(gpu.gpu), {rate.what: rate for rate in probe.rates if rate.gpu == gpu.gpu}, starved)
        for gpu in probe.gpus
        if gpu.skipped is None
    ]
    judged = [one for one in measured if one.yardstick.no_verdict is None]
    shortfalls = tuple(short for one in judged for short in shortfalls_of(one))
    equals = [*equals_of(judged)]
    loud = {short.gpu for short in shortfalls if short.loud}
    laggards = tuple(laggard for equal in equals for laggard in laggards_of(equal, loud))
    lagging = [laggard.rate for laggard in laggards]
    return GpuShortfalls(
        judged=any(one.main and one.main.possible for one in judged) or any(len(equal) >= PEERS_NEEDED for equal in equals),
        shortfalls=tuple(short for short in shortfalls if short.loud or short.rate not in lagging),
        laggards=laggards,
        mismatches=tuple(mismatches(one.gpu for one in measured if one.gpu.digest is not None)),
    )


def shortfalls_of(one: Measured) -> Iterator[Shortfall]:
    product = product_of(one)
    yield from (product,) if product else other_products(one)
    yield from copy_of(one)
    yield from host_link_of(one)


def product_of(one: Measured) -> Shortfall | None:
    """Half precision against the data sheet; where that says nothing of this GPU, against what is possible at its clock."""
    rate, lines, clocked = one.main, PRODUCTS.get(one.yardstick.kind or ""), one.at_its_clock
    if rate is None or not rate.possible:
        return None
    if lines and rate.basis == "datasheet":
        fine, broken = lines[0] * rate.possible, lines[1] * rate.possible
    elif clocked is not None:
        fine, broken = BROKEN_AT_ITS_CLOCK * rate.achieved / clocked, None
    else:
        return None
    if rate.achieved >= fine:
        return None
    why, brake = why_products(one, rate)
    return Shortfall(gpu=one.gpu.gpu, rate=rate, fine=fine, broken=broken, at_its_clock=clocked, why=why, brake=brake)


def why_products(one: Measured, rate: Rate) -> tuple[Why, Brake | None]:
    clocked = one.at_its_clock
    if one.starved:
        return "cpu", None
    if one.urgent:
        return "brake", one.urgent
    if clocked is not None and clocked < BROKEN_AT_ITS_CLOCK:
        return "moves" if rate.spread > STEADY else "slow path", None
    if one.yardstick.brakes:
        return "brake", one.yardstick.brakes[0]
    if clocked is not None and clocked < FINE_AT_ITS_CLOCK:
        return "moves" if rate.spread > STEADY else "slow path", None
    return "low clock" if clocked is not None else "unknown", None


def other_products(one: Measured) -> Iterator[Shortfall]:
    """Types that are slow though half precision is as fast as it should be."""
    lines = PRODUCTS.get(one.yardstick.kind or "")
    for what, part in OTHER_PRODUCTS.items() if lines else ():
        rate = one.rates.get(what)
        if rate is None or rate is one.main or not rate.possible or rate.basis != "datasheet" or lines is None:
            continue
        fine = part * lines[0] * rate.possible
        if rate.achieved < fine:
            why: Why = "cpu" if one.starved else "tf32 off" if unused(one, rate) else "slow path"
            yield Shortfall(gpu=one.gpu.gpu, rate=rate, fine=fine, broken=None, at_its_clock=None, why=why)


def unused(one: Measured, rate: Rate) -> bool:
    """Whether TF32 does no more than FP32, on a GPU where it could do twice as much at least."""
    single = one.rates.get("fp32")
    return rate.what == "tf32" and single is not None and rate.achieved < 1.3 * single.achieved


def copy_of(one: Measured) -> Iterator[Shortfall]:
    rate = one.rates.get("copy")
    if rate is None or not rate.possible or one.yardstick.kind in (None, "jetson"):
        return
    fine, broken = (part * one.yardstick.copy_share * rate.possible for part in COPY)
    if rate.achieved >= fine:
        return
    why, brake = why_copies(one, rate)
    certain = broken if rate.basis == "datasheet" else None
    yield Shortfall(gpu=one.gpu.gpu, rate=rate, fine=fine, broken=certain, at_its_clock=None, why=why, brake=brake)


def why_copies(one: Measured, rate: Rate) -> tuple[Why, Brake | None]:
    load = next((load for load in one.gpu.loads if load.phase == "copy"), None)
    highest = one.yardstick.memory_clock_max_mhz
    if one.starved:
        return "cpu", None
    if one.urgent:
        return "brake", one.urgent
    if load is not None and load.memory_mhz and highest and load.memory_mhz < MEMORY_CLOCK * highest:
        return "memory clock", None
    return "moves" if rate.spread > STEADY else "unknown", None


def host_link_of(one: Measured) -> Iterator[Shortfall]:
    """The worse direction."""
    if one.yardstick.no_link is not None:
        return
    found = [
        Shortfall(gpu=one.gpu.gpu, rate=rate, fine=fine, broken=broken, at_its_clock=None, why=why_link(one))
        for rate in (one.rates.get(what) for what in HOST_COPIES)
        if rate is not None and rate.possible and rate.basis == "link"
        for fine, broken in (host_lines(one, rate.possible),)
        if rate.achieved < fine
    ]
    yield from sorted(found, key=lambda short: short.rate.achieved)[:1]


def host_lines(one: Measured, possible: float) -> tuple[float, float]:
    link = one.yardstick.link
    known = HOST_LINK.get((link.best_gen or 0, link.best_width or 0)) if link else None
    return known or (HOST_LINK_OTHERWISE[0] * possible, HOST_LINK_OTHERWISE[1] * possible)


def why_link(one: Measured) -> Why:
    link, near = one.yardstick.link, one.gpu.device_numa
    if link and link.lacks_lanes:
        return "lanes"
    if link and link.lacks_generation:
        return "generation"
    if one.starved:
        return "cpu"
    if near is not None and near >= 0:
        off_buffer = one.gpu.host_numa not in (None, near)
        off_mask = bool(one.gpu.mask_numa) and near not in one.gpu.mask_numa
        if off_buffer or off_mask:
            return "numa"
    return "way"


def equals_of(judged: Sequence[Measured]) -> Iterator[list[Measured]]:
    """Equal GPUs at equal limits, two at least. Instances of one GPU share it, and are no peers."""
    groups: dict[tuple[object, ...], list[Measured]] = {}
    for one in judged:
        kind = (one.gpu.name, one.gpu.multiprocessors, one.gpu.memory_bytes, one.yardstick.power_limit_w)
        groups.setdefault(kind, []).append(one)
    yield from (group for group in groups.values() if len(group) > 1 and not group[0].yardstick.instance)


def laggards_of(equal: Sequence[Measured], told: set[str]) -> Iterator[Laggard]:
    """Each GPU once, and not those that fall short by themselves."""
    seen = set(told)
    for pairs in ([(one, one.main) for one in equal], [(one, one.rates.get("copy")) for one in equal]):
        known = [(one, rate) for one, rate in pairs if rate is not None]
        rates = [rate.achieved for _, rate in known]
        if len(known) < 2 or min(rates) <= 0:
            continue
        against = median(rates) if len(known) >= PEERS_NEEDED else max(rates)
        for one, rate in known:
            if rate.achieved < (1 - BEHIND) * against and one.gpu.gpu not in seen:
                seen.add(one.gpu.gpu)
                brake = one.yardstick.brakes[0] if one.yardstick.brakes else None
                yield Laggard(gpu=one.gpu.gpu, rate=rate, against=against, equal=len(known), brake=brake, starved=one.starved)


def mismatches(gpus: Iterable[ProbedGpu]) -> Iterator[Mismatch]:
    groups: dict[tuple[object, ...], list[ProbedGpu]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.name, gpu.capability, gpu.multiprocessors), []).append(gpu)
    for equal in groups.values():
        first = odd([gpu.digest for gpu in equal])
        again = odd([gpu.digest_repeated or gpu.digest for gpu in equal])
        for place in sorted(first | again):
            twice = place in first & again and "digest_repeated" not in equal[place].raised
            yield Mismatch(gpu=equal[place].gpu, equal=len(equal), twice=twice)


def odd(digests: Sequence[str | None]) -> set[int]:
    """Places of those that are not as most are; all of them where there is no majority."""
    ((common, times),) = Counter(digests).most_common(1)
    if times == len(digests):
        return set()
    return {place for place, digest in enumerate(digests) if digest != common or 2 * times <= len(digests)}
