"""GPUs as the probe of their speed sees them, healthy unless a test says otherwise: rates, loads and states after public tables.

Sources: stas00/ml-engineering (A100, H100, H200, B200, RTX 4090, MI300X: bf16), NVIDIA's DCGM configuration (copies in memory),
nvbandwidth's README and runs of it (the link to the host). What a clock was meanwhile is made up to fit.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from dl_doctor.contract import Check
from dl_doctor.facts import GpuProbe, GpuShortfalls, GpuStates, GpuYardsticks
from dl_doctor.facts import gpu_shortfalls as shortfalls
from dl_doctor.facts import gpu_yardsticks as yardsticks
from dl_doctor.facts.gpu_load import Load
from dl_doctor.facts.gpu_probe import ProbedGpu, Rate
from dl_doctor.facts.gpu_reference import card_of, possible
from dl_doctor.facts.gpu_states import GpuState
from dl_doctor.model import Ended, Unavailable, Verdict
from dl_doctor.units import GIB

UNKNOWN = Unavailable.not_asked("a test")
H2D, D2H = "host to device", "device to host"


@dataclass(frozen=True)
class Kind:
    """A kind of GPU with what healthy ones reach, and the clock that they have meanwhile."""

    name: str
    device: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_gib: int
    clocks_mhz: tuple[int, int]
    """The highest, and while it does products."""

    memory_mhz: int
    memory_bits: int
    link: tuple[int, int]
    watts: float
    rates: dict[str, float]
    backend: str = "cuda"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("NVIDIA A100-SXM4-80GB", "20b2", (8, 0), 108, 80, (1410, 1365), 1593, 5120, (4, 16), 400,
             {"bf16": 271, "tf32": 131, "fp32": 19.1, "copy": 1570, H2D: 25.9, D2H: 26.0}),
        Kind("NVIDIA H100 80GB HBM3", "2330", (9, 0), 132, 80, (1980, 1620), 2619, 5120, (5, 16), 700,
             {"bf16": 794, "tf32": 390, "fp32": 51, "copy": 2546, H2D: 55.4, D2H: 55.1}),
        Kind("NVIDIA H200", "2335", (9, 0), 132, 141, (1980, 1620), 3201, 6144, (5, 16), 700,
             {"bf16": 794, "tf32": 390, "fp32": 51, "copy": 3650, H2D: 55.4, D2H: 55.1}),
        Kind("NVIDIA B200", "2901", (10, 0), 148, 180, (1965, 1600), 3996, 8192, (5, 16), 1000,
             {"bf16": 1745, "tf32": 870, "fp32": 66, "copy": 5500, H2D: 55.4, D2H: 55.1}),
        Kind("NVIDIA GH200 480GB", "2342", (9, 0), 132, 96, (1980, 1650), 2619, 6144, (4, 1), 900,
             {"bf16": 828, "tf32": 400, "fp32": 53, "copy": 3060, H2D: 360.0, D2H: 290.0}),
        Kind("NVIDIA GeForce RTX 4090", "2684", (8, 9), 128, 24, (3105, 2520), 10501, 384, (4, 16), 450,
             {"bf16": 145, "tf32": 72, "fp32": 58, "copy": 920, H2D: 26.0, D2H: 26.2}),
        Kind("NVIDIA GeForce RTX 4060 Ti", "2803", (8, 9), 34, 8, (3105, 2700), 9001, 128, (4, 8), 165,
             {"bf16": 41, "tf32": 20, "fp32": 16, "copy": 250, H2D: 13.0, D2H: 13.1}),
        Kind("NVIDIA GeForce RTX 4090 Laptop GPU", "2717", (8, 9), 76, 16, (3105, 1350), 9001, 256, (4, 16), 80,
             {"bf16": 47, "tf32": 23, "fp32": 19, "copy": 500, H2D: 25.0, D2H: 25.5}),
        Kind("Tesla T4", "1eb8", (7, 5), 40, 15, (1590, 960), 5001, 256, (3, 16), 70,
             {"fp16": 35, "fp32": 5.2, "copy": 240, H2D: 12.2, D2H: 12.9}),
        Kind("NVIDIA L4", "27b8", (8, 9), 58, 23, (2040, 1050), 6251, 192, (4, 16), 72,
             {"bf16": 58, "tf32": 27, "fp32": 14, "copy": 262, H2D: 25.5, D2H: 26.0}),
        Kind("NVIDIA L40", "26b5", (8, 9), 142, 45, (2490, 2100), 9001, 384, (4, 16), 300,
             {"bf16": 230, "tf32": 115, "fp32": 61, "copy": 730, H2D: 25.5, D2H: 26.0}),
        Kind("NVIDIA A10G", "2237", (8, 6), 80, 22, (1710, 1500), 6251, 384, (4, 16), 300,
             {"bf16": 62, "tf32": 31, "fp32": 24, "copy": 490, H2D: 24.5, D2H: 25.0}),
        Kind("AMD Instinct MI300X", "", (9, 4), 304, 192, (0, 0), 0, 0, (5, 16), 750,
             {"bf16": 668, "tf32": 350, "fp32": 95, "copy": 4100, H2D: 55.0, D2H: 55.0}, "hip"),
    )
}  # fmt: skip


@dataclass
class Node:
    """A node with so many GPUs of a kind; what is wrong with it is said by the methods, which give it back."""

    kind: Kind
    gpus: list[ProbedGpu]
    states: list[GpuState]
    rates: dict[int, dict[str, float]]
    loads: dict[int, dict[str, Load]]
    rate_fields: dict[str, Any] = field(default_factory=dict)
    probe_fields: dict[str, Any] = field(default_factory=dict)
    states_fields: dict[str, Any] = field(default_factory=dict)

    def slow(self, index: int = 0, **rates: float) -> "Node":
        """By names with underscores: host_to_device."""
        self.rates[index] |= {name.replace("_", " "): rate for name, rate in rates.items()}
        return self

    def under(self, phase: str = "products", index: int = 0, **fields: Any) -> "Node":
        """What NVML saw in this phase."""
        known = self.loads[index].get(phase, Load(phase=phase, samples=8))
        self.loads[index][phase] = msgspec.structs.replace(known, **fields)
        return self

    def told(self, index: int = 0, **fields: Any) -> "Node":
        """What NVML told before."""
        self.states[index] = msgspec.structs.replace(self.states[index], **fields)
        return self

    def seen(self, index: int = 0, **fields: Any) -> "Node":
        """What the probe found out beside rates."""
        self.gpus[index] = msgspec.structs.replace(self.gpus[index], **fields)
        return self

    def moving(self, spread: float) -> "Node":
        self.rate_fields["spread"] = spread
        return self

    def whole(self, **fields: Any) -> "Node":
        """Of the probe."""
        self.probe_fields |= fields
        return self

    def confidential(self) -> "Node":
        self.states_fields["confidential"] = True
        return self

    def unlinked(self) -> "Node":
        """NVML does not know card and slot, nor the memory's clock."""
        names = ("link_gen_max", "link_width_max", "slot_gen_max", "slot_width_max", "memory_clock_max_mhz")
        return self.told(**dict.fromkeys(names))

    def unwatched(self) -> "Node":
        """NVML told nothing meanwhile."""
        self.loads = {index: {} for index in self.loads}
        return self

    def facts(
        self, sharing: Any = UNKNOWN, runtime: Any = UNKNOWN
    ) -> tuple[GpuProbe, GpuStates | Unavailable, GpuYardsticks, GpuShortfalls]:
        known = {state.index: state for state in self.states}
        gpus = tuple(msgspec.structs.replace(gpu, loads=tuple(self.loads[gpu.index].values())) for gpu in self.gpus)
        rates = [
            self.rate(gpu, what, rate, known.get(gpu.index))
            for gpu in gpus
            if not gpu.skipped
            for what, rate in self.rates[gpu.index].items()
        ]
        fields = {"ended": Ended(how="answered"), "length": "short", "gpus": gpus, "rates": tuple(rates), "cpu_quota": 8.0}
        probe = GpuProbe(**{**fields, **self.probe_fields})
        states = GpuStates(ended=Ended(how="answered"), gpus=tuple(self.states), **self.states_fields) if known else UNKNOWN
        held = yardsticks.collect(probe, states, sharing, runtime)
        return probe, states, held, shortfalls.collect(probe, held)

    def rate(self, gpu: ProbedGpu, what: str, achieved: float, state: GpuState | None) -> Rate:
        card = card_of(
            state,
            name=gpu.name,
            capability=gpu.capability,
            multiprocessors=gpu.multiprocessors,
            memory_bytes=gpu.memory_bytes,
            integrated=gpu.integrated,
            backend=gpu.backend,
        )
        best, basis = possible(what, card)
        unit = "GB/s" if what in ("copy", H2D, D2H) else "TFLOP/s"
        fields = {"best": 1.01 * achieved, "spread": 0.01, "blocks": 12, **self.rate_fields}
        return Rate(gpu=gpu.gpu, what=what, unit=unit, achieved=achieved, possible=best, basis=basis, **fields)

    def judge(self, check: Check, **shared: Any) -> Verdict:
        known = {type(fact): fact for fact in self.facts(**shared)}
        return check.judge(*(known[need.fact] for need in check.needs.values()))


def node(name: str, count: int = 1) -> Node:
    """Healthy GPUs of this kind: `node("H100", 8)`."""
    kind = next(kind for known, kind in KINDS.items() if name in known)
    indices = range(count)
    return Node(
        kind,
        gpus=[probed(kind, index) for index in indices],
        states=[state(kind, index) for index in indices] if kind.backend == "cuda" else [],
        rates={index: dict(kind.rates) for index in indices},
        loads={index: loads(kind) if kind.backend == "cuda" else {} for index in indices},
    )


def probed(kind: Kind, index: int) -> ProbedGpu:
    return ProbedGpu(
        gpu=f"gpu:{index}",
        index=index,
        backend=kind.backend,
        nvml_index=index if kind.backend == "cuda" else None,
        pci=f"0000:{index + 1:02x}:00.0",
        name=kind.name,
        capability=kind.capability,
        multiprocessors=kind.multiprocessors,
        memory_bytes=kind.memory_gib * GIB,
        digest="5c0ffee5",
        device_numa=0,
        host_numa=0,
        mask_numa=(0, 1),
    )


def state(kind: Kind, index: int) -> GpuState:
    return GpuState(
        index=index,
        uuid=f"GPU-{index:08x}-0000",
        name=kind.name,
        pci=f"0000:{index + 1:02x}:00.0",
        pci_device=kind.device,
        capability=kind.capability,
        virtualization="none",
        link_gen_max=kind.link[0],
        link_width_max=kind.link[1],
        slot_gen_max=kind.link[0],
        slot_width_max=kind.link[1],
        power_limit_w=kind.watts,
        power_limit_default_w=kind.watts,
        sm_clock_max_mhz=kind.clocks_mhz[0],
        memory_clock_max_mhz=kind.memory_mhz,
        memory_bus_bits=kind.memory_bits,
    )


def loads(kind: Kind) -> dict[str, Load]:
    """At full load most are at their power limit, and between phases the idle bit flickers; neither is a fault."""
    busy = {
        "samples": 8,
        "sm_mhz": float(kind.clocks_mhz[1]),
        "memory_mhz": float(kind.memory_mhz),
        "power_w": 0.97 * kind.watts,
        "temperature_c": 58.0,
        "reasons": {"power_cap": 0.9, "idle": 0.1},
        "counted": {"power_cap": 0.85},
        "link_gen": 1,  # at rest, while the GPU computes
        "link_width": kind.link[1],
    }
    phases = [Load(phase=phase, **busy) for phase in ("products", "fp32", "copy")]
    link = Load(phase="host copies", samples=6, link_gen=kind.link[0], link_width=kind.link[1], replays=0)
    return {load.phase: load for load in (*phases, link)}
