"""What NVML saw of a GPU while it computed or copied: what two processes have told, joined by their common clock."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU during one phase of the throughput probe. None where NVML did not tell."""

    phase: str
    """`products`: matrix products in half precision, which the verdict goes by, and with them `fp32`, `tf32`, `copy` and in deep
    `fp16`, `fp8` and `sustained`. `host copies`: through the link to the host."""

    samples: int
    """Looks at it meanwhile, twenty a second."""

    sm_mhz: float | None = None
    """The clock of its multiprocessors: the median."""

    sm_mhz_end: float | None = None
    """The same over the last quarter."""

    memory_mhz: float | None = None
    power_w: float | None = None
    """The highest; newer GPUs tell the mean of the last second, so that it is too low in a short phase."""

    temperature_c: float | None = None
    """The highest."""

    reasons: dict[str, float] = {}
    """Why its clock was not higher: the share of looks with the bit, for those that were seen. `idle`, `applications_clocks`,
    `power_cap`, `hw_slowdown`, `sync_boost`, `sw_thermal`, `hw_thermal`, `power_brake`, `display_clocks`, `board_limit`,
    `reliability`."""

    counted: dict[str, float] = {}
    """The share of the time for the same reasons, by counters, where they moved; they see what comes and goes between two looks.
    Drivers that do not tell who noticed the heat have `thermal` for both."""

    link_gen: int | None = None
    link_width: int | None = None
    """The highest seen: an idle link is slower to save power."""

    replays: int | None = None
    """By how much the counter of packets that were sent again grew."""


REASONS = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason* of nvml.h, and the two bits that it had earlier."""

COUNTERS = ("power_cap", "sync_boost", "sw_thermal", "hw_thermal", "power_brake", "thermal")

SEEN_BY = {"thermal": ("sw_thermal", "hw_thermal")}
"""The bits of a counter that counts for more than one."""

UNITS_S = (1e-9, 1e-6)
"""What a counter counts: nanoseconds by nvml.h, microseconds by other documents of NVIDIA's."""

MORE_THAN_ALL = 1.1
"""Share of the time from which on a unit cannot be the right one; above 1 because looks and counters are not at the same instant.
Proposal."""

OFTEN, FAR_LESS = 0.5, 0.1
"""A reason that stands in so many looks cannot have counted for so small a part of that. Proposal."""

Look = dict[str, Any]
"""One look at a GPU: values by the names that the probe gives."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """When something was measured, by time.monotonic, which processes share."""

    phase: str
    index: int | None
    """The GPU, as PyTorch counts; None where it was all of them."""

    begin_s: float
    end_s: float


def loads_of(looks: Sequence[Look], phases: Sequence[Phase]) -> tuple[Load, ...]:
    """What was seen of a GPU in each of these phases of its own, where it was looked at at all."""
    names = dict.fromkeys(phase.phase for phase in phases)
    loads = [load_of(name, [during(looks, phase) for phase in phases if phase.phase == name]) for name in names]
    return tuple(load for load in loads if load.samples)


def during(looks: Sequence[Look], phase: Phase) -> list[Look]:
    return [look for look in looks if phase.begin_s <= look["at_s"] <= phase.end_s]


def load_of(phase: str, spans: Sequence[Sequence[Look]]) -> Load:
    """Of what was seen in all spans of a phase, which may have come in several."""
    looks = [look for span in spans for look in span]
    power_mw = highest(looks, "power_mw")
    reasons = reasons_of(looks)
    return Load(
        phase=phase,
        samples=len(looks),
        sm_mhz=middle(looks, "sm_mhz"),
        sm_mhz_end=middle(looks[-max(1, len(looks) // 4) :], "sm_mhz"),
        memory_mhz=middle(looks, "memory_mhz"),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=highest(looks, "temperature_c"),
        reasons=reasons,
        counted=counted(spans, reasons),
        link_gen=highest(looks, "link_gen"),
        link_width=highest(looks, "link_width"),
        replays=growth(spans, "replays"),
    )


def middle(looks: Sequence[Look], name: str) -> float | None:
    values = [look[name] for look in looks if look.get(name) is not None]
    return median(values) if values else None


def highest(looks: Sequence[Look], name: str) -> Any:
    return max((look[name] for look in looks if look.get(name) is not None), default=None)


def reasons_of(looks: Sequence[Look]) -> dict[str, float]:
    """The share of looks with each reason."""
    told = [look["reasons"] for look in looks if look.get("reasons") is not None]
    shares = {name: sum(bool(bits & bit) for bits in told) / len(told) for bit, name in REASONS.items() if told}
    return {name: share for name, share in shares.items() if share}


def growth(spans: Sequence[Sequence[Look]], name: str) -> int | None:
    """By how much a counter grew within these spans; None where it was not told twice in any."""
    pairs = [[look[name] for look in span if look.get(name) is not None] for span in spans]
    grown = [max(0, values[-1] - values[0]) for values in pairs if len(values) > 1]
    return sum(grown) if grown else None


def counted(spans: Sequence[Sequence[Look]], reasons: Mapping[str, float]) -> dict[str, float]:
    """The share of the time that each counter grew by, where it did."""
    span_s = sum(span[-1]["at_s"] - span[0]["at_s"] for span in spans if len(span) > 1)
    shares = {}
    for name in COUNTERS:
        seen = max(reasons.get(bit, 0.0) for bit in SEEN_BY.get(name, (name,)))
        share = share_of(growth(spans, name) or 0, span_s, seen)
        if share:
            shares[name] = share
    return shares


def share_of(grown: int, span_s: float, seen: float) -> float | None:
    """What a counter grew by, as a part of the time, in the unit that fits what the bits said; None where none does."""
    possible = [grown * unit_s / span_s for unit_s in UNITS_S if span_s > 0 and grown * unit_s / span_s <= MORE_THAN_ALL]
    if not possible:
        return None
    finest, coarsest = possible[0], possible[-1]
    return min(1.0, coarsest if seen >= OFTEN and finest < FAR_LESS * seen else finest)
