"""What each measured GPU is held against: its kind, whether its rates may be judged at all, and what held it back meanwhile."""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from dl_doctor.facts.gpu_load import Load
from dl_doctor.facts.gpu_probe import GpuProbe, ProbedGpu
from dl_doctor.facts.gpu_reference import Card, GpuPart, card_of, least, part_of
from dl_doctor.facts.gpu_sharing import GpuSharing
from dl_doctor.facts.gpu_states import GpuState, GpuStates
from dl_doctor.facts.runtime import Runtime
from dl_doctor.model import Unavailable

HOST_COPIES = "host copies"
"""The phase of the probe in which the link to the host is used."""

PRODUCTS, SUSTAINED = "products", "sustained"
"""Those whose clock the verdict goes by."""

SLOWED = 0.1
"""Share of the time from which on a reason counts; the bits flicker under any load. Proposal."""

LOOKS = 2
"""Looks at least with a reason's bit, where no counter confirms it."""

MOSTLY = 0.5
"""Share of the time from which on a limit is what sets the clock. Proposal."""

LOWERED = 0.98
"""A power limit below this part of the default one was lowered on purpose; drivers round."""

HELD_BELOW = 0.8
"""Capped though less than this part of the limit is drawn, something else than the limit caps. Proposal; seen was 240 of 400
W."""

LOCKED = 0.9
"""Clocks that are set to more than this part of the highest cost little. Proposal."""

COPY_SHARE = 0.85
"""Of the memory's rate, what a copy reaches where NVIDIA has not published what its kind does: the middle of those that are
published in the configuration of DCGM."""

COPY_SHARE_OF_UNKNOWN = 0.61
"""The same of a kind that is not in the table: the lowest of those that are published."""

Reason = Literal[
    "overheated", "hot", "hardware slowdown", "power brake", "locked clocks", "lowered limit", "held below limit", "power limit"
]


class Brake(msgspec.Struct, frozen=True, kw_only=True):
    """What kept the clocks of a GPU down while it computed or copied."""

    reason: Reason
    share: float
    """Of the time."""

    load: Load


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The link to the host while copies used it, and what card and slot can. None where NVML did not tell."""

    gen: int | None
    width: int | None
    card_gen: int | None
    card_width: int | None
    slot_gen: int | None
    slot_width: int | None
    """Of card and slot together."""

    replays: int | None

    @property
    def best_gen(self) -> int | None:
        return least(self.card_gen, self.slot_gen)

    @property
    def best_width(self) -> int | None:
        return least(self.card_width, self.slot_width)

    @property
    def lacks_lanes(self) -> bool:
        return self.width is not None and self.best_width is not None and self.width < self.best_width

    @property
    def lacks_generation(self) -> bool:
        return self.gen is not None and self.best_gen is not None and self.gen < self.best_gen


class Yardstick(msgspec.Struct, frozen=True, kw_only=True):
    """Of one GPU that was measured."""

    gpu: str
    """As in GpuProbe: in PyTorch's order."""

    part: str | None
    """Its kind, such as `H100 SXM5 80 GB`; None where the table does not know it."""

    kind: str | None
    """Of gpus.csv, or guessed from the name; None where there is nothing to guess from."""

    source: str | None
    """Of the table's figures."""

    at_mhz: float | None
    """The clock that its possible TFLOP/s stand for."""

    copy_share: float
    """Of the memory's rate, what a copy reaches on a healthy one."""

    instance: bool
    """Of MIG: its neighbours share power and clock with it."""

    no_verdict: str | None
    """Why its rates tell nothing of the GPU."""

    no_link: str | None
    """Why its link to the host is not judged."""

    link: Link | None
    brakes: tuple[Brake, ...]
    """In each phase, the worst first."""

    load: Load | None
    """While it did products in half precision."""

    clock_max_mhz: int | None
    memory_clock_max_mhz: int | None
    power_limit_w: float | None
    power_limit_default_w: float | None

    @property
    def portable(self) -> bool:
        """A laptop's, whose power is moved between it and the CPU."""
        return (self.kind or "").endswith("laptop")


class GpuYardsticks(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the probe of the GPUs' speed, what NVML tells of them, what shares them, and the table of kinds."""

    gpus: tuple[Yardstick, ...]

    def of(self, gpu: str) -> Yardstick:
        return next(yardstick for yardstick in self.gpus if yardstick.gpu == gpu)


def collect(
    probe: GpuProbe,
    states: GpuStates | Unavailable,
    sharing: GpuSharing | Unavailable,
    runtime: Runtime | Unavailable,
) -> GpuYardsticks:
    known = {} if isinstance(states, Unavailable) else {state.index: state for state in states.gpus}
    loaded = tuple(f"{mark} is loaded in its process" for mark in probe.marks)
    shared = (() if isinstance(sharing, Unavailable) else sharing.without_verdict) or loaded
    encrypted = not isinstance(states, Unavailable) and bool(states.confidential)
    virtual = not isinstance(runtime, Unavailable) and (runtime.view == "virtual machine" or runtime.sandbox is not None)
    return GpuYardsticks(
        gpus=tuple(
            yardstick(gpu, known.get(gpu.nvml_index) if gpu.nvml_index is not None else None, shared, encrypted, virtual)
            for gpu in probe.gpus
            if gpu.skipped is None
        )
    )


def yardstick(gpu: ProbedGpu, state: GpuState | None, shared: tuple[str, ...], encrypted: bool, virtual: bool) -> Yardstick:
    card = card_of(
        state,
        name=gpu.name,
        capability=gpu.capability,
        multiprocessors=gpu.multiprocessors,
        memory_bytes=gpu.memory_bytes,
        integrated=gpu.integrated,
        backend=gpu.backend,
    )
    part = part_of(card)
    kind = part.kind if part else kind_of(card)
    told = state or GpuState(index=0)
    return Yardstick(
        gpu=gpu.gpu,
        part=part.part if part else None,
        kind=kind,
        source=part.source if part else None,
        at_mhz=part.clock_mhz if part else card.sm_clock_mhz,
        copy_share=(part.copy_share or COPY_SHARE) if part else COPY_SHARE_OF_UNKNOWN,
        instance=card.instance is not None or told.divided,
        no_verdict=no_verdict(gpu, state, shared, encrypted),
        no_link=no_link(gpu, state, part, virtual),
        link=link_of(gpu.loads, state),
        brakes=tuple(sorted(brakes(gpu.loads, state, kind), key=lambda brake: (WORST_FIRST.index(brake.reason), -brake.share))),
        load=next((load for load in gpu.loads if load.phase == PRODUCTS and load.samples), None),
        clock_max_mhz=told.sm_clock_max_mhz,
        memory_clock_max_mhz=told.memory_clock_max_mhz,
        power_limit_w=told.power_limit_w,
        power_limit_default_w=told.power_limit_default_w,
    )


def kind_of(card: Card) -> str | None:
    """Of a GPU that is not in the table, by its name."""
    name = card.name or ""
    if card.backend == "hip":
        return "cdna" if "Instinct" in name else None
    if card.backend != "cuda" or not name:
        return None
    family = "geforce" if "GeForce" in name else "professional" if "RTX" in name or "Quadro" in name else "data-centre"
    return f"{family}-laptop" if "Laptop" in name or "Mobile" in name or "with Max-Q" in name else family


def no_verdict(gpu: ProbedGpu, state: GpuState | None, shared: tuple[str, ...], encrypted: bool) -> str | None:
    if shared:
        return "; ".join(dict.fromkeys(shared))
    if state is not None and state.virtualization == "vgpu":
        return "it is a vGPU, which has the GPU for a part of the time"
    if encrypted:
        return "confidential computing encrypts what goes to it"
    return None if gpu.backend in ("cuda", "hip") else f"nothing is known of what {gpu.backend} can do"


def no_link(gpu: ProbedGpu, state: GpuState | None, part: GpuPart | None, virtual: bool) -> str | None:
    if gpu.integrated or (part and part.link == "none"):
        return "it shares its memory with the CPU"
    if part and part.link == "C2C":
        return "it is NVLink-C2C, not PCI Express"
    if state is None:
        return "NVML does not tell of it"
    if virtual or state.virtualization in ("passthrough", "vgpu"):
        return "this is a virtual machine, which shows a link of its own making"
    return None


def link_of(loads: tuple[Load, ...], state: GpuState | None) -> Link | None:
    load = next((load for load in loads if load.phase == HOST_COPIES and load.samples), None)
    if load is None or state is None:
        return None
    return Link(
        gen=load.link_gen or None,
        width=load.link_width or None,  # no link has none
        card_gen=state.link_gen_max,
        card_width=state.link_width_max,
        slot_gen=state.slot_gen_max,
        slot_width=state.slot_width_max,
        replays=load.replays,
    )


WORST_FIRST: tuple[Reason, ...] = (
    "overheated",
    "power brake",
    "hardware slowdown",
    "hot",
    "held below limit",
    "lowered limit",
    "locked clocks",
    "power limit",
)


LIMITS: tuple[Reason, ...] = ("held below limit", "lowered limit", "locked clocks", "power limit")


def brakes(loads: Iterable[Load], state: GpuState | None, kind: str | None) -> Iterator[Brake]:
    """What slowed the GPU while it computed or copied; while the host's copies run it is idle. Limits count where they matter."""
    for load in loads:
        for reason, share in reasons(load, state, kind) if load.phase != HOST_COPIES else ():
            if load.phase in (PRODUCTS, SUSTAINED) or reason not in LIMITS:
                yield Brake(reason=reason, share=share, load=load)


def reasons(load: Load, state: GpuState | None, kind: str | None) -> Iterator[tuple[Reason, float]]:
    def share(*names: str) -> float:
        """Of the time, by counters, or by looks where at least two had the bit."""
        seen = [load.reasons.get(name, 0.0) for name in names]
        counted = [load.counted.get(name, 0.0) for name in names]
        return max([*counted, *(part for part in seen if part * load.samples > LOOKS - 0.5)], default=0.0)

    plain: tuple[tuple[Reason, tuple[str, ...]], ...] = (
        ("overheated", ("hw_thermal",)),
        ("hot", ("sw_thermal", "thermal")),
        ("power brake", ("power_brake",)),
    )
    for reason, names in plain:
        if share(*names) >= SLOWED:
            yield reason, share(*names)
    if share("hw_slowdown") >= SLOWED and share("hw_thermal", "power_brake") < SLOWED:  # its bit is set with theirs, too
        yield "hardware slowdown", share("hw_slowdown")
    capped, chosen = share("power_cap"), share("applications_clocks", "display_clocks")
    if capped >= MOSTLY:
        yield capped_by(load, state, kind), capped
    highest = state.sm_clock_max_mhz if state else None
    if chosen >= MOSTLY and highest and load.sm_mhz is not None and load.sm_mhz < LOCKED * highest:
        yield "locked clocks", chosen


def capped_by(load: Load, state: GpuState | None, kind: str | None) -> Reason:
    """A limit that was lowered is somebody's choice; one at its default is how the GPU is built."""
    limit, default = (state.power_limit_w, state.power_limit_default_w) if state else (None, None)
    if limit and default and limit < LOWERED * default and not (kind or "").endswith("laptop"):
        return "lowered limit"
    # in a shorter phase the figure is too low: newer GPUs give the mean of the last second
    if limit and load.phase == SUSTAINED and load.power_w is not None and load.power_w < HELD_BELOW * limit:
        return "held below limit"
    return "power limit"
