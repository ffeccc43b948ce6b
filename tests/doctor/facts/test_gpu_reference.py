"""The table of kinds of GPU against itself and the formula, and names and ids against the table."""

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from dl_doctor.facts.gpu_reference import (
    FMAS,
    GB_PER_LANE,
    Card,
    GpuPart,
    bears,
    by_clock,
    by_memory_clock,
    card_of,
    part_of,
    parts,
    possible,
)
from tests.gpus import KINDS, state

GFX_FMAS = {"gfx90a": 512, "gfx942": 1024, "gfx950": 2048}
"""Of matrix cores, per compute unit and clock: AMD's CDNA 2, 3 and 4 whitepapers."""

HALF_RATE = {"A10G", "L40", "L20"}
"""Data-centre cards that sum up in 32 bits at GeForce's rate."""

HELD_DOWN = {"H20 96 GB", "RTX 5090 D"}
"""Whose tensor rate is held down for export, so that no formula gives it."""

TOLERANCE = 0.015
"""Data sheets print three digits, and clocks rounded to 15 MHz."""

ABOVE = ("9.0", "10.0", "10.3")
"""Hopper and Blackwell, whose data sheets count fp32 at the highest clock and tensor rates at a lower one, up to 15 % apart."""

PUBLISHED_BELOW = 0.03
"""HBM3 and HBM3e: the bandwidth that is published is rounded down from what clock and width give (B200: 8,000 of 8,184 GB/s)."""


def counted(part: GpuPart, what: str) -> float:
    """TFLOP/s by the formula, at the clock of the data sheet."""
    consumer = part.kind in ("geforce", "geforce-laptop") or part.part in HALF_RATE
    if part.capability in GFX_FMAS:
        per_clock = {"fp16": 1.0, "fp8": 2.0, "tf32": 0.5, "fp32": 128 / GFX_FMAS[part.capability]}[what]
        return part.multiprocessors * GFX_FMAS[part.capability] * per_clock * 2 * part.clock_mhz / 1e6
    major, minor = map(int, part.capability.split("."))
    return by_clock(what, (major, minor), part.multiprocessors, part.clock_mhz, consumer=consumer) or 0.0


PRINTED = [(part, what) for part in parts() for what in ("fp16", "tf32", "fp32", "fp8") if part.product(what)]


@pytest.mark.parametrize(("part", "what"), PRINTED, ids=lambda value: value if isinstance(value, str) else value.part)
def test_the_formula_gives_what_data_sheets_print(part: GpuPart, what: str) -> None:
    if part.part in HELD_DOWN and what != "fp32":
        assert (part.product(what) or 0) < 0.5 * counted(part, what)
        return
    tolerance = 0.15 if what == "fp32" and part.capability in ABOVE else TOLERANCE
    assert part.product(what) == pytest.approx(counted(part, what), rel=tolerance)


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.part)
class TestPart:
    def test_its_bandwidth_is_clock_times_width(self, part: GpuPart) -> None:
        by_clock_and_width = by_memory_clock(part.memory_mhz, part.memory_bits)

        assert part.gb_per_s == pytest.approx(by_clock_and_width, rel=0.005 if part.memory_bits < 4096 else PUBLISHED_BELOW)

    def test_it_is_within_reason(self, part: GpuPart) -> None:
        assert part.source
        assert 5 <= part.multiprocessors <= 400
        assert 1000 <= part.clock_mhz <= 2700
        assert 35 <= part.watts <= 1500
        assert part.copy_share is None or 0.6 <= part.copy_share <= 0.95
        assert part.kind in ("data-centre", "professional", "geforce", "professional-laptop", "geforce-laptop", "jetson", "cdna")
        assert re.fullmatch("C2C|none|[3-6]x(8|16)", part.link)
        assert (part.memory_gb is None) == (part.capability not in ("8.0", "9.0", "10.0", "10.3"))

    def test_what_halves_and_doubles(self, part: GpuPart) -> None:
        """tf32 is half of fp16, and fp8 twice."""
        half = part.fp16 or 0
        assert part.tf32 is None or part.tf32 == pytest.approx(half / 2, rel=0.02)
        assert part.fp8 is None or part.fp8 == pytest.approx(half * 2, rel=0.02)

    def test_it_is_found_by_its_ids(self, part: GpuPart) -> None:
        for device in part.ids.split():
            assert re.fullmatch("[0-9a-f]{4}", device)
            assert part.kind == "cdna" or part_of(Card(pci_device=device)) is part  # AMD's are not asked for


def test_there_are_enough_kinds() -> None:
    assert len(parts()) >= 60


def test_ids_and_names_are_of_one_kind_each() -> None:
    assert [device for device, times in Counter(" ".join(part.ids for part in parts()).split()).items() if times > 1] == []
    assert [name for name, times in Counter(part.part for part in parts()).items() if times > 1] == []


def test_the_formula_knows_every_capability_of_the_table() -> None:
    capabilities = {part.capability for part in parts() if not part.capability.startswith("gfx")}

    assert capabilities == {f"{major}.{minor}" for major, minor in FMAS}


NAMES = [
    # as NVML and torch say them; of the last three nothing is known
    ("NVIDIA H100 80GB HBM3", "H100 SXM5 80 GB"),
    ("NVIDIA H100 PCIe", "H100 PCIe 80 GB"),
    ("NVIDIA H100 NVL", "H100 NVL 94 GB"),
    ("NVIDIA H800", "H800 SXM5 80 GB"),
    ("NVIDIA H800 PCIe", "H800 PCIe 80 GB"),
    ("NVIDIA H20", "H20 96 GB"),
    ("NVIDIA H200", "H200 SXM 141 GB"),
    ("NVIDIA H200 NVL", "H200 NVL 141 GB"),
    ("NVIDIA GH200 480GB", "GH200 96 GB"),
    ("NVIDIA B200", "B200 180 GB"),
    ("NVIDIA GB200", "GB200"),
    ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80 GB"),
    ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB"),
    ("A100-SXM4-40GB", "A100 SXM4 40 GB"),  # drivers before 470 leave the maker out
    ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
    ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
    ("NVIDIA A800-SXM4-80GB", "A800 SXM4 80 GB"),
    ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "A100 SXM4 80 GB"),
    ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "H100 SXM5 80 GB"),
    ("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "A100 SXM4 80 GB"),
    ("NVIDIA A30", "A30"),
    ("NVIDIA A10", "A10"),
    ("NVIDIA A10G", "A10G"),
    ("NVIDIA A40", "A40"),
    ("NVIDIA L4", "L4"),
    ("NVIDIA L40", "L40"),
    ("NVIDIA L40S", "L40S"),
    ("NVIDIA L20", "L20"),
    ("Tesla V100-SXM2-16GB", "V100 SXM2"),
    ("Tesla V100-SXM2-32GB-LS", "V100 SXM2"),
    ("Tesla V100-PCIE-32GB", "V100 PCIe"),
    ("Tesla T4", "T4"),
    ("NVIDIA RTX A6000", "RTX A6000"),
    ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
    ("Quadro RTX 6000", "Quadro RTX 6000 / 8000"),
    ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ("NVIDIA GeForce RTX 4090 D", "RTX 4090 D"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop"),
    ("NVIDIA GeForce RTX 3090", "RTX 3090"),
    ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti"),
    ("GeForce RTX 2080 Ti", "RTX 2080 Ti"),
    ("NVIDIA GeForce RTX 5090", "RTX 5090"),
    ("NVIDIA RTX PRO 5000 72GB Blackwell", "RTX PRO 5000 Blackwell"),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
    ("NVIDIA TITAN RTX", "TITAN RTX"),
    ("AMD Instinct MI300X", "MI300X"),
    ("AMD Instinct MI300X VF", "MI300X"),
    ("AMD Instinct MI210", "MI210"),
    ("AMD Instinct MI250X", "MI250X (one of its two dies)"),
    ("AMD Instinct MI250X / MI250", "MI250 (one of its two dies)"),
    ("NVIDIA GB10", None),
    ("NVIDIA GeForce RTX 4090 Super Duper", None),
    ("Radeon RX 7900 XTX", None),
]


@pytest.mark.parametrize(("name", "part"), NAMES)
def test_a_name_is_of_one_kind(name: str, part: str | None) -> None:
    """One line of the table at most, the right one, and nothing that only begins like it."""
    plain = re.sub(" MIG .*", "", name)

    assert [known.part for known in parts() if known.names and bears(plain, known)] == ([part] if part else [])
    assert (found := part_of(Card(name=name, backend="hip" if "AMD" in name else "cuda"))) is None or found.part == part


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"pci_device": "2230", "name": "NVIDIA Graphics Device"}, "RTX A6000"),  # an old driver has no name for it
        ({"pci_device": "220a", "name": "NVIDIA GeForce RTX 3080"}, "RTX 3080 12 GB"),  # the name is the 10 GB card's
        ({"pci_device": "ffff", "name": "Tesla T4"}, "T4"),
        ({"name": "NVIDIA GeForce RTX 3080", "multiprocessors": 70}, None),  # without an id, the count tells
        ({"name": "NVIDIA GeForce RTX 3060", "multiprocessors": 28, "memory_bus_bits": 128}, None),  # the one with 8 GB
        ({"name": "NVIDIA A10", "capability": (8, 9)}, None),
        ({"name": "Orin", "multiprocessors": 16}, "Jetson AGX Orin 64 GB"),
        ({"name": "Orin", "multiprocessors": 8}, None),  # a Nano
        ({"name": "AMD Instinct MI300X", "backend": "hip", "capability": (9, 4), "multiprocessors": 304}, "MI300X"),
        ({"name": "AMD Instinct MI300X", "backend": "hip", "multiprocessors": 38}, None),  # one of eight partitions
        ({"name": None}, None),
    ],
)
def test_what_else_speaks_for_a_kind(fields: dict[str, Any], part: str | None) -> None:
    found = part_of(Card(**fields))

    assert (found and found.part) == part


H100 = {"name": "NVIDIA H100 80GB HBM3", "pci_device": "2330", "multiprocessors": 132}
SLICE = {"name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "pci_device": "20b2", "multiprocessors": 14}
UNHEARD_OF = {"name": "NVIDIA RTX X1", "capability": (8, 9), "multiprocessors": 50, "sm_clock_mhz": 2500}


@pytest.mark.parametrize(
    ("what", "fields", "value", "basis"),
    [
        ("bf16", H100, 989.4, "datasheet"),
        ("fp16", H100, 989.4, "datasheet"),
        ("fp8", H100, 1979, "datasheet"),
        ("copy", H100, 3350, "datasheet"),
        ("host to device", H100 | {"link_gen": 5, "link_width": 16}, 63.0, "link"),
        ("host to device", H100 | {"link_gen": 4, "link_width": 16}, 31.5, "link"),  # in an older machine
        ("host to device", H100, None, None),
        ("host to device, pageable", H100 | {"link_gen": 5, "link_width": 16}, None, None),  # it is bound by the CPU
        ("device to host", {"name": "NVIDIA GH200 480GB", "link_gen": 4, "link_width": 1}, None, None),
        ("device to host", {"name": "NVIDIA GB10", "integrated": True, "link_gen": 5, "link_width": 4}, None, None),
        ("bf16", {"name": "Tesla T4"}, None, None),
        ("fp16", {"name": "Tesla T4"}, 65, "datasheet"),
        ("fp8", {"name": "NVIDIA A100-SXM4-80GB"}, None, None),
        ("bf16", SLICE, 312 * 14 / 108, "datasheet"),
        ("copy", SLICE, 2039 / 8, "datasheet"),
        ("copy", SLICE | {"name": "NVIDIA A100-SXM4-80GB MIG 1g.20gb"}, 2039 / 4, "datasheet"),
        ("copy", SLICE | {"name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb"}, 2039 / 2, "datasheet"),
        ("copy", SLICE | {"name": "NVIDIA A100-SXM4-80GB MIG 7g.80gb"}, 2039, "datasheet"),
        ("copy", {"name": "NVIDIA H200 MIG 1g.18gb", "pci_device": "2335"}, 4800 / 8, "datasheet"),
        ("copy", {"name": "NVIDIA A30 MIG 2g.12gb", "pci_device": "20b7"}, 933 / 2, "datasheet"),
        ("bf16", SLICE | {"multiprocessors": None}, None, None),
        ("bf16", UNHEARD_OF, 50 * 512 * 2 * 2500 / 1e6, "formula"),
        ("bf16", UNHEARD_OF | {"name": "NVIDIA GeForce RTX X1"}, 50 * 256 * 2 * 2500 / 1e6, "formula"),
        ("fp32", UNHEARD_OF, 50 * 128 * 2 * 2500 / 1e6, "formula"),
        ("bf16", UNHEARD_OF | {"sm_clock_mhz": None}, None, None),
        ("bf16", UNHEARD_OF | {"capability": (13, 0)}, None, None),
        # Turing with tensor cores, and without
        ("fp16", UNHEARD_OF | {"name": "NVIDIA T4G", "capability": (7, 5)}, 50 * 512 * 2 * 2500 / 1e6, "formula"),
        *(
            ("fp16", UNHEARD_OF | {"name": name, "capability": (7, 5)}, None, None)
            for name in ("NVIDIA GeForce GTX 1660 Ti", "NVIDIA GeForce MX450", "NVIDIA T1000 8GB", "Quadro T2000")
        ),
        ("fp32", UNHEARD_OF | {"name": "NVIDIA T1000", "capability": (7, 5)}, 50 * 64 * 2 * 2500 / 1e6, "formula"),
        ("copy", UNHEARD_OF | {"memory_clock_mhz": 9001, "memory_bus_bits": 256}, 576.064, "formula"),
        ("copy", UNHEARD_OF, None, None),
        # a maker of laptops may choose slower memory than most
        ("copy", {"pci_device": "249c", "memory_clock_mhz": 6001, "memory_bus_bits": 256}, 384.064, "formula"),
        ("copy", {"pci_device": "249c"}, 448.1, "datasheet"),
        ("bf16", {"name": "NVIDIA GeForce RTX 5090 D"}, None, None),  # not published
        ("bf16", {"name": "Apple M4", "backend": "mps"}, None, None),
    ],
)
def test_what_is_possible(what: str, fields: dict[str, Any], value: float | None, basis: str | None) -> None:
    found, by = possible(what, Card(**fields))

    assert by == basis
    assert found == (value if value is None else pytest.approx(value, rel=0.001))


def test_lanes_double_with_each_generation() -> None:
    rates = [*GB_PER_LANE.values()]

    assert [later / earlier for earlier, later in pairwise(rates)] == pytest.approx([2.0] * 5, rel=0.05)


@pytest.mark.parametrize(
    ("fields", "link"),
    [
        ({}, (4, 16)),
        ({"slot_width_max": 8}, (4, 8)),
        ({"slot_gen_max": 3, "slot_width_max": None}, (3, 16)),
        ({"virtualization": "passthrough"}, (None, None)),
        ({"virtualization": None}, (4, 16)),
        ({"link_gen_max": None, "slot_gen_max": None}, (None, 16)),
    ],
)
def test_a_card_has_the_link_that_card_and_slot_both_can(fields: dict[str, Any], link: tuple[int | None, int | None]) -> None:
    card = card_of(msgspec.structs.replace(state(KINDS["NVIDIA A100-SXM4-80GB"], 0), **fields))

    assert (card.link_gen, card.link_width) == link
