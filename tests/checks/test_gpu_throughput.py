"""The judgement of probe facts written after public tables: what each trouble looks like, and what looks like one and is none."""

from collections.abc import Callable
from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_clocks import CHECK as CLOCKS
from dl_doctor.checks.gpu.gpu_pcie_link import CHECK as LINK
from dl_doctor.checks.gpu.gpu_throughput import CHECK
from dl_doctor.facts.gpu_sharing import GpuSharing, Mps
from dl_doctor.model import Ended, Finding
from tests.facts import runtime
from tests.gpus import Node, node

HEALTHY = ["A100", "H100", "H200", "B200", "RTX 4090", "4060 Ti", "A10G", "L40", "MI300X"]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_ones_pass(name: str, count: int) -> None:
    verdict = node(name, count).judge(CHECK)

    assert (verdict.status, [*verdict.findings]) == ("pass", [])
    assert "heat was not tested" in verdict.seen


def test_a_pass_tells_the_rates() -> None:
    assert node("H100", 8).slow(5, bf16=760).judge(CHECK).seen == (
        "8 × H100 SXM5 80 GB: bf16 760 to 794 of 989.4 TFLOP/s (77 %), tf32 390 of 494.7 TFLOP/s (79 %), "
        "fp32 51 of 66.9 TFLOP/s (76 %), copy 2546 of 3350 GB/s (76 %), host to device 55.4 of 63 GB/s (88 %), "
        "device to host 55.1 of 63 GB/s (87 %); two seconds each: heat was not tested (--profile deep)"
    )


def hot() -> Node:
    return (
        node("H100")
        .slow(bf16=410, tf32=200)
        .under(sm_mhz=780.0, temperature_c=91.0, reasons={"hw_thermal": 0.7, "hw_slowdown": 0.7})
    )


def braked() -> Node:
    return node("A100").slow(bf16=95).under(sm_mhz=480.0, reasons={"hw_slowdown": 0.9, "power_brake": 0.9})


def lowered() -> Node:
    return node("H100").slow(bf16=480).under(sm_mhz=960.0, power_w=300.0, reasons={"power_cap": 1.0}).told(power_limit_w=300.0)


def locked() -> Node:
    return node("A100").slow(bf16=150).under(sm_mhz=765.0, reasons={"applications_clocks": 1.0}, counted={})


def four_lanes() -> Node:
    return node("H100").slow(host_to_device=14.0, device_to_host=14.1).under("host copies", link_width=4)


def stuck_at_first_generation() -> Node:
    return node("RTX 4090").slow(host_to_device=3.2, device_to_host=3.3).under("host copies", link_gen=1)


def slice_of_a100(**rates: float) -> Node:
    one = node("A100").seen(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb", multiprocessors=14)
    return one.told(mig=True, mig_instances=7).slow(bf16=35.0, tf32=17.0, fp32=2.4, copy=205.0).slow(**rates)


def jetson() -> Node:
    """NVML tells little of it."""
    one = node("RTX 4090").seen(name="Orin", capability=(8, 7), multiprocessors=16, integrated=True)
    one.told(name="Orin", pci_device=None, memory_bus_bits=None, sm_clock_max_mhz=1300)
    return one.slow(bf16=30.0, tf32=15.0, fp32=4.0, copy=100.0).under(sm_mhz=1290.0)


def half_of_a100() -> Node:
    """Whose memory's half is 1,019 GB/s: what it copies is an eighth."""
    one = slice_of_a100(bf16=105.0, tf32=52.0, fp32=7.0)
    return one.seen(name="NVIDIA A100-SXM4-80GB MIG 3g.40gb", multiprocessors=42)


def in_a_short_slot() -> Node:
    one = node("A100").slow(host_to_device=13.0, device_to_host=13.1)
    return one.told(slot_width_max=8).under("host copies", link_width=8)


def unheard_of() -> Node:
    known = node("L40").seen(name="NVIDIA L99", multiprocessors=60).told(pci_device="ffff", name="NVIDIA L99")
    return known.slow(bf16=110, tf32=55, fp32=26).under(sm_mhz=2100.0)


SCENARIOS: list[tuple[str, Callable[[], Node], tuple[str, str, str], str]] = [
    # what is wrong, the facts, verdicts on speed, clocks and link, and what the cause is called
    (
        "heat, by the hardware",
        hot,
        ("fail", "fail", "pass"),
        "Heat makes the hardware slow itself down. It was at 780 MHz and 91 °C.",
    ),
    (
        "heat, by the driver",
        lambda: node("H100").slow(bf16=600).under(sm_mhz=1200.0, counted={"sw_thermal": 0.4}),
        ("warn", "warn", "pass"),
        "Heat makes the driver lower its clock",
    ),
    # the clock goes up and down faster than it is looked at, so that what is seen of it is too high
    (
        "heat in pulses",
        lambda: node("H100").slow(bf16=350).under(counted={"hw_thermal": 0.6}),
        ("fail", "fail", "pass"),
        "Heat makes the hardware slow itself down",
    ),
    ("power brake", braked, ("fail", "fail", "pass"), "The power supply asks it to slow down"),
    (
        "a slowdown that says no reason",
        lambda: node("A100").slow(bf16=95).under(sm_mhz=480.0, reasons={"hw_slowdown": 0.9}),
        ("fail", "fail", "pass"),
        "The hardware slows itself down",
    ),
    # an admin's choice is no fault, whatever it costs
    ("power limit lowered", lowered, ("pass", "pass", "pass"), "It is 300 W; 700 W is the default."),
    ("clocks locked", locked, ("warn", "warn", "pass"), "Its clocks are set by hand"),
    # built for few watts
    (
        "power limit at its default",
        lambda: node("L4"),
        ("pass", "pass", "pass"),
        "as it is built. It was at 1,050 MHz and 58 °C. It is 72 W.",
    ),
    ("power limit at its default", lambda: node("T4"), ("pass", "pass", "pass"), "as it is built"),
    # but not for so little
    (
        "power limit at its default, and slower still",
        lambda: node("L4").slow(bf16=30).under(sm_mhz=520.0),
        ("warn", "pass", "pass"),
        "built",
    ),
    (
        "power limit at its default, and something else caps it",
        lambda: node("A100").slow(bf16=120).under(sm_mhz=600.0, power_w=150.0),
        ("warn", "pass", "pass"),
        "which keeps no healthy one so slow",
    ),
    (
        "power limit lowered a little, and something else caps it",
        lambda: node("A100").told(power_limit_w=390.0).slow(bf16=100).under(sm_mhz=480.0, power_w=140.0),
        ("warn", "pass", "pass"),
        "It is 390 W; 400 W is the default, which keeps no healthy one so slow",
    ),
    ("4 of 16 lanes", four_lanes, ("fail", "pass", "fail"), "Its link has 4 lanes of 16."),
    ("generation 1 under load", stuck_at_first_generation, ("warn", "pass", "warn"), "Its link stays at generation 1 of 4."),
    # at rest it is at generation 1 by design, and copies found it at 5
    ("generation 1 at rest", lambda: node("H100").under(link_gen=1), ("pass", "pass", "pass"), ""),
    (
        "the way behind a good link",
        lambda: node("H100").slow(host_to_device=30.0),
        ("fail", "pass", "pass"),
        "Lanes and generation are as they should be",
    ),
    (
        "the way behind a good link, a little",
        lambda: node("H100").slow(host_to_device=49.0),
        ("warn", "pass", "pass"),
        "as they should be",
    ),
    (
        "the way behind a good link, of a desktop",
        lambda: node("RTX 4090").slow(host_to_device=18.0),
        ("warn", "pass", "pass"),
        "Lanes and generation are as they should be",
    ),
    (
        "the other NUMA node's buffer",
        lambda: node("H100").slow(host_to_device=40.0, device_to_host=41.0).seen(device_numa=1, host_numa=0),
        ("warn", "pass", "pass"),
        "The GPU is at NUMA node 1, and the buffer lies on node 0.",
    ),
    (
        "the other NUMA node's CPUs",
        lambda: node("H100").slow(host_to_device=40.0).seen(device_numa=1, host_numa=None, mask_numa=(0,)),
        ("warn", "pass", "pass"),
        "this process may not use CPUs of it",
    ),
    ("shared", lambda: node("H100").slow(bf16=380, tf32=200).moving(0.4), ("warn", "pass", "pass"), "Its rate moves by 40 %"),
    ("a slow path, or shared all the time", lambda: node("H100").slow(bf16=380), ("fail", "pass", "pass"), "takes a slow path"),
    (
        "TF32 that is not used",
        lambda: node("A100").slow(tf32=19.2),
        ("warn", "pass", "pass"),
        "TF32 is not used, perhaps because of NVIDIA_TF32_OVERRIDE=0",
    ),
    (
        "TF32 that is slow, and faster than FP32",
        lambda: node("A100").slow(tf32=40),
        ("warn", "pass", "pass"),
        "slow path for this type",
    ),
    ("one type's path", lambda: node("H100").slow(fp8=700), ("warn", "pass", "pass"), "takes a slow path for this type"),
    (
        "half a CPU",
        lambda: node("H100").slow(bf16=400).whole(cpu_quota=0.5),
        ("warn", "pass", "pass"),
        "This rank may use 0.5 CPUs",
    ),
    (
        "the memory's clock",
        lambda: node("RTX 4090").slow(copy=440).under("copy", memory_mhz=5001.0),
        ("fail", "pass", "pass"),
        "Its memory's clock was 5,001 of 10,501 MHz.",
    ),
    # GeForce computes with its memory's clock a little lower
    ("the memory's clock", lambda: node("RTX 4090").under("copy", memory_mhz=10_251.0), ("pass", "pass", "pass"), ""),
    (
        "a low clock without a reason",
        lambda: node("H100").slow(bf16=500).under(sm_mhz=1000.0, reasons={}, counted={}),
        ("warn", "pass", "pass"),
        "no reason",
    ),
    (
        "a clock that was not seen",
        lambda: node("H100").slow(bf16=500).unwatched(),
        ("warn", "skip", "skip"),
        "Its clock was not seen",
    ),
    (
        "AMD's, of which no clock is seen",
        lambda: node("MI300X").slow(bf16=400),
        ("fail", "skip", "skip"),
        "Nothing more is known",
    ),
    ("AMD's", lambda: node("MI300X").slow(bf16=530), ("warn", "skip", "skip"), ""),
    # its watts are the maker's choice: 59 % of what NVIDIA prints, and all that its clock allows
    ("a laptop", lambda: node("4090 Laptop"), ("pass", "pass", "pass"), ""),
    ("a laptop with something on it", lambda: node("4090 Laptop").slow(bf16=20), ("warn", "pass", "pass"), "slow path"),
    ("a laptop's memory", lambda: node("4090 Laptop").slow(copy=200), ("warn", "pass", "pass"), "Something else uses the memory"),
    ("a laptop that is set to few watts", lambda: node("4090 Laptop").told(power_limit_w=60.0), ("pass", "pass", "pass"), ""),
    ("a Jetson, whose memory is the CPU's too", jetson, ("pass", "pass", "skip"), ""),
    ("built with 8 lanes", lambda: node("4060 Ti"), ("pass", "pass", "pass"), ""),
    ("16 lanes in a slot of 8", in_a_short_slot, ("pass", "pass", "pass"), ""),
    ("an instance of MIG", slice_of_a100, ("pass", "pass", "pass"), ""),
    (
        "a slow instance of MIG",
        lambda: slice_of_a100(bf16=12.0),
        ("warn", "pass", "pass"),
        "Other instances of the same GPU share",
    ),
    ("an instance that copies slowly", half_of_a100, ("warn", "pass", "pass"), "Other instances of the same GPU share"),
    # what a virtual machine shows of the link is of its own making
    (
        "a virtual machine",
        lambda: node("H100").told(virtualization="passthrough", link_gen_max=1).slow(host_to_device=20.0),
        ("pass", "pass", "skip"),
        "",
    ),
    ("NVLink-C2C", lambda: node("GH200"), ("pass", "pass", "skip"), ""),
    ("fp8 that raises", lambda: node("H100").seen(raised={"fp8": "no kernel"}), ("pass", "pass", "pass"), ""),
    # half of what its compute capability can do, as some are built
    ("a kind that nobody knows", unheard_of, ("pass", "pass", "pass"), ""),
    ("a kind that nobody knows, at half", lambda: unheard_of().slow(bf16=58, tf32=29), ("pass", "pass", "pass"), "slow path"),
    # as P100, T4G and B200, whose copies reach 68 to 76 % of what their memory could
    ("copies of a kind that nobody knows", lambda: unheard_of().slow(copy=590), ("pass", "pass", "pass"), ""),
    ("slow ones", lambda: unheard_of().slow(copy=400), ("warn", "pass", "pass"), "Something else uses the memory"),
    ("a kind that nobody knows, at a fifth", lambda: unheard_of().slow(bf16=20), ("warn", "pass", "pass"), "slow path"),
]


@pytest.mark.parametrize(
    ("facts", "statuses", "words"), [scenario[1:] for scenario in SCENARIOS], ids=[one[0] for one in SCENARIOS]
)
def test_scenarios(facts: Callable[[], Node], statuses: tuple[str, str, str], words: str) -> None:
    verdicts = [facts().judge(check) for check in (CHECK, CLOCKS, LINK)]

    assert tuple(verdict.status for verdict in verdicts) == statuses
    assert any(words in finding.why for finding in verdicts[0].findings) or not words
    assert statuses[0] not in ("fail", "warn") or all(finding.measured and finding.expected for finding in verdicts[0].findings)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (hot, "gpu-clocks"),
        (braked, "gpu-clocks"),
        (locked, "gpu-clocks"),
        (four_lanes, "gpu-pcie-link"),
        (stuck_at_first_generation, "gpu-pcie-link"),
        (lambda: node("H100").slow(bf16=400).whole(cpu_quota=0.5), "cpu-budget"),
        (lowered, None),  # a note explains nothing
        (lambda: node("H100").slow(bf16=380), None),
    ],
)
def test_one_cause_is_told_once(facts: Callable[[], Node], cause: str | None) -> None:
    findings = facts().judge(CHECK).findings

    assert [finding.explained_by for finding in findings] == [cause]


@pytest.mark.parametrize(
    ("count", "rates", "levels"),
    [
        (8, {3: 740}, {}),  # 7 % are silicon and cooling
        (8, {3: 720}, {"gpu:3": "warn"}),
        (8, {3: 660}, {"gpu:3": "fail"}),  # it also warns by the data sheet, which is told once
        (8, {3: 300}, {"gpu:3": "fail"}),  # by the data sheet alone
        (3, {2: 720}, {"gpu:2": "warn"}),
        (2, {1: 720}, {"gpu:1": "note"}),  # which of them is right?
        (1, {0: 720}, {}),
        (8, dict.fromkeys(range(8), 660), {f"gpu:{index}": "note" for index in range(8)}),  # all alike, at their power limit
    ],
)
def test_equal_gpus_are_compared(count: int, rates: dict[int, float], levels: dict[str, str]) -> None:
    machine = node("H100", count)
    for index, rate in rates.items():
        machine.slow(index, bf16=rate)

    assert {finding.subject: finding.level for finding in machine.judge(CHECK).findings} == levels


def test_a_slow_copy_among_equals_is_told() -> None:
    (finding,) = node("H200", 4).slow(2, copy=3100).judge(CHECK).findings

    assert (finding.level, finding.subject) == ("fail", "gpu:2")
    assert "copies" in finding.summary


def test_equal_limits_make_equals() -> None:
    """An admin gave two of them fewer watts."""
    machine = node("H100", 5)
    for index in (3, 4):
        machine.slow(index, bf16=700).told(index, power_limit_w=500.0)

    assert machine.judge(CHECK).status == "pass"


def test_the_slow_one_of_eight_is_hot() -> None:
    machine = node("H100", 8).slow(6, bf16=715).under(index=6, sm_mhz=1460.0, counted={"sw_thermal": 0.5})
    (finding,) = machine.judge(CHECK).findings

    assert (finding.subject, finding.level, finding.explained_by) == ("gpu:6", "warn", "gpu-clocks")
    assert "Heat makes the driver lower its clock" in finding.why


@pytest.mark.parametrize(
    ("count", "digests", "levels"),
    [
        (8, {}, {}),
        (8, {5: ("bad", "bad")}, {"gpu:5": "fail"}),
        (8, {5: ("bad", "5c0ffee5")}, {"gpu:5": "warn"}),  # once: it may come again
        (8, {5: ("bad", "worse")}, {"gpu:5": "fail"}),
        (2, {1: ("bad", "bad")}, {"gpu:0": "fail", "gpu:1": "fail"}),  # one of them
        (8, {5: (None, None)}, {}),  # it was not asked
        (1, {0: ("bad", "bad")}, {}),
    ],
)
def test_equal_gpus_compute_the_same(
    count: int, digests: dict[int, tuple[str | None, str | None]], levels: dict[str, str]
) -> None:
    machine = node("A100", count)
    for index, (digest, again) in digests.items():
        machine.seen(index, digest=digest, digest_repeated=again)
    verdict = machine.judge(CHECK)

    assert {finding.subject: finding.level for finding in verdict.findings} == levels


def test_a_second_try_that_fails_is_no_second_wrong_product() -> None:
    machine = node("A100", 8).seen(5, digest="bad", digest_repeated=None, raised={"digest_repeated": "CUDA error"})

    assert [(finding.subject, finding.level) for finding in machine.judge(CHECK).findings] == [("gpu:5", "warn")]


def test_unequal_gpus_may_compute_otherwise() -> None:
    one = node("A100", 2).seen(1, name="NVIDIA A100-SXM4-40GB", digest="other")

    assert one.judge(CHECK).status == "pass"


MPS = Mps(folder="/tmp/nvidia-mps", said=False, daemon="listens")


@pytest.mark.parametrize(
    ("facts", "shared", "words"),
    [
        (
            node("A100"),
            {"sharing": GpuSharing(mps=None, thread_percentage=None, shims=("CUDA_DEVICE_SM_LIMIT=30 (HAMi)",))},
            "HAMi",
        ),
        (node("A100"), {"sharing": GpuSharing(mps=MPS, thread_percentage=25.0, shims=())}, "MPS"),
        (node("A100").whole(marks=("HAMi's libvgpu",)), {}, "libvgpu"),
        (node("A100").told(virtualization="vgpu"), {}, "vGPU"),
        (node("H100").confidential(), {}, "confidential computing"),
        (node("A100").seen(backend="xpu", name="Intel Data Center GPU Max 1550"), {}, "xpu"),
        (node("A100").seen(name="NVIDIA GB10", capability=(12, 1)).told(pci_device="2e12").unlinked(), {}, "not known"),
        # what its copies reach is judged, and passes; what its products do is not published
        (
            node("RTX 4090").seen(name="NVIDIA GeForce RTX 5090 D", multiprocessors=170).told(pci_device="2b87").slow(copy=1600),
            {},
            "not known",
        ),
    ],
)
def test_numbers_without_verdict(facts: Node, shared: dict[str, Any], words: str) -> None:
    verdict = facts.slow(bf16=30).judge(CHECK, **shared)

    assert verdict.status == "skip"
    assert verdict.reason is not None
    assert words in verdict.reason.detail
    assert "bf16 30" in verdict.reason.detail


def test_in_a_virtual_machine_the_link_is_not_judged() -> None:
    slow = node("H100").slow(host_to_device=20.0).judge(CHECK, runtime=runtime("bare", view="virtual machine"))

    assert slow.status == "pass"


def test_what_could_not_be_measured_is_told() -> None:
    assert "fp8 was not measured (no kernel)" in node("H100").seen(raised={"fp8": "no kernel"}).judge(CHECK).seen


@pytest.mark.parametrize(
    ("facts", "statuses"),
    [
        (node("H100").whole(ended=Ended(how="hung", step="copy")), ("error", "skip", "skip")),
        (node("H100").seen(skipped="somebody else uses it"), ("skip", "skip", "skip")),
        (node("H100").seen(raised={"begin": "CUDA error: out of memory"}).whole(rates=()), ("error", "pass", "pass")),
    ],
)
def test_where_nothing_was_measured(facts: Node, statuses: tuple[str, str, str]) -> None:
    assert tuple(facts.judge(check).status for check in (CHECK, CLOCKS, LINK)) == statuses


@pytest.mark.parametrize("what", ["begin", "bf16"])
@pytest.mark.parametrize("count", [1, 8])
def test_one_whose_products_raise_is_no_pass(what: str, count: int) -> None:
    """Its equals do well, and it has no rate that falls short."""
    facts = node("H100", count).seen(raised={what: "AcceleratorError: CUDA error: uncorrectable ECC error"})
    facts.rates[0].pop("bf16")
    verdict = facts.judge(CHECK)

    assert verdict.status == "error"
    assert verdict.reason is not None
    assert f"gpu:0: {what}: AcceleratorError: CUDA error: uncorrectable ECC error" in verdict.reason.detail


def test_those_that_were_left_alone_are_told() -> None:
    assert (
        "gpu:1 was left alone: pid 7 computes on it" in node("H100", 2).seen(1, skipped="pid 7 computes on it").judge(CHECK).seen
    )


def deep(**fields: Any) -> list[Finding]:
    return [
        *node("H100")
        .seen(**{"sustained": 0.99, "launch_us": 4.0, "overlap": 0.95, **fields})
        .whole(length="long")
        .judge(CHECK)
        .findings
    ]


@pytest.mark.parametrize(
    ("fields", "level", "words"),
    [
        ({"sustained": 0.88}, "warn", "gpu:0: after four seconds of products 88 %"),
        ({"launch_us": 22.0}, "note", "gpu:0: launching a kernel takes 22 µs"),
        ({"overlap": 0.1}, "note", "10 % of a copy"),
        ({"overlap": -0.02}, "note", "0 % of a copy"),
    ],
)
def test_the_long_probe_tells_more(fields: dict[str, Any], level: str, words: str) -> None:
    (finding,) = deep(**fields)

    assert finding.level == level
    assert words in finding.summary


def test_a_long_probe_of_a_healthy_one_passes() -> None:
    assert deep() == []


@pytest.mark.parametrize(
    ("load", "level"),
    [
        ({"counted": {"sw_thermal": 0.5}}, "warn"),
        ({"reasons": {"power_cap": 1.0}, "power_w": 698.0}, "note"),  # as it is built
    ],
)
def test_why_it_decays(load: dict[str, Any], level: str) -> None:
    facts = node("H100").seen(sustained=0.9).whole(length="long").under("sustained", sm_mhz=1500.0, **load)
    (finding,) = facts.judge(CHECK).findings

    assert finding.level == level


def test_fixes_name_the_gpu_by_its_address() -> None:
    (finding,) = node("H100", 2).slow(1, bf16=300).under(index=1, sm_mhz=600.0, reasons={"hw_thermal": 1.0}).judge(CHECK).findings

    assert finding.owner == "admin"
    assert "nvidia-smi -i 0000:02:00.0 -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK" in finding.fixes[0].commands
