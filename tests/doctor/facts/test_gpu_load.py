"""What NVML saw of a GPU in each phase of the probe, out of looks at it."""

from typing import Any

import pytest

from dl_doctor.facts.gpu_load import COUNTERS, Phase, loads_of, share_of

MS = 1_000_000
"""In the nanoseconds of a counter."""


def phase(begin_s: float, end_s: float, name: str = "products", index: int | None = None) -> Phase:
    return Phase(phase=name, index=index, begin_s=begin_s, end_s=end_s)


def looks(*changes: dict[str, Any], every_s: float = 0.05, **same: Any) -> list[dict[str, Any]]:
    """Looks from 100 s on, at a GPU that NVML tells everything of."""
    known = {"sm_mhz": 1755, "memory_mhz": 2619, "power_mw": 640_000, "temperature_c": 52, "reasons": 0x4}
    known |= {"link_gen": 5, "link_width": 16, "replays": 0, **dict.fromkeys(COUNTERS, 0), "thermal": None, **same}
    return [{"at_s": 100 + number * every_s, **known, **change} for number, change in enumerate(changes)]


def test_each_phase_has_the_looks_that_fell_into_it() -> None:
    seen = looks({"sm_mhz": 345}, {}, {}, {"sm_mhz": 1700}, {"sm_mhz": 1980, "power_mw": 200_000})
    loads = loads_of(seen, [phase(100.04, 100.16), phase(100.19, 100.3, "host copies", 0), phase(107, 108, "copy")])

    assert [(load.phase, load.samples) for load in loads] == [("products", 3), ("host copies", 1)]  # nobody looked at the copy
    products, copies = loads
    assert (products.sm_mhz, products.sm_mhz_end, products.memory_mhz, products.power_w) == (1755, 1700, 2619, 640)
    assert (copies.sm_mhz, copies.power_w, copies.counted, copies.replays) == (1980, 200, {}, None)


def test_a_phase_may_come_in_several_spans() -> None:
    """What a counter grew by between them is not of the phase."""
    seen = looks(*({"sw_thermal": number * 10 * MS} for number in (0, 2, 2, 30, 31, 33)), replays=7)
    (load,) = loads_of(seen, [phase(99, 100.11), phase(100.14, 101)])

    assert load.samples == 6
    assert load.counted == {"sw_thermal": pytest.approx((20 + 30) / 200)}
    assert load.replays == 0


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        ((0x1, 0x1), {"idle": 1.0}),
        ((0x4, 0x4 | 0x20), {"power_cap": 1.0, "sw_thermal": 0.5}),
        ((0x8 | 0x40, 0x8 | 0x80), {"hw_slowdown": 1.0, "hw_thermal": 0.5, "power_brake": 0.5}),
        ((0x2, 0x100), {"applications_clocks": 0.5, "display_clocks": 0.5}),
        ((0x200, 0x400 | 0x10), {"board_limit": 0.5, "reliability": 0.5, "sync_boost": 0.5}),
        ((0x0, 0x8000), {}),  # a bit that nobody has named yet
        ((None, None), {}),
    ],
)
def test_reasons_are_the_share_of_looks(bits: tuple[Any, ...], reasons: dict[str, float]) -> None:
    (load,) = loads_of(looks(*({"reasons": one} for one in bits)), [phase(99, 101)])

    assert load.reasons == reasons


@pytest.mark.parametrize(
    ("grown", "span_s", "seen", "share"),
    [
        (0, 0.4, 0.0, 0.0),
        (200 * MS, 0.4, 0.0, 0.5),  # nanoseconds, as nvml.h says
        (430 * MS, 0.4, 1.0, 1.0),  # a little more than all of the time: the looks were not at the same instant
        (200_000, 0.4, 1.0, 0.5),  # in every look, and 0.05 % of the time? then it counts microseconds
        (200_000, 0.4, 0.2, 0.0005),  # flickering bits do not tell that
        (40 * MS, 0.4, 1.0, 0.1),  # microseconds would be more than all of the time
        (4000 * MS, 0.4, 1.0, None),  # in no unit
        (200 * MS, 0.0, 1.0, None),  # one look
    ],
)
def test_a_counters_unit_is_the_one_that_fits(grown: int, span_s: float, seen: float, share: float | None) -> None:
    assert share_of(grown, span_s, seen) == (None if share is None else pytest.approx(share))


def test_old_drivers_do_not_say_whose_the_heat_is() -> None:
    seen = looks({"thermal": 0}, {"thermal": 40_000}, reasons=0x40, sw_thermal=None, hw_thermal=None)
    (load,) = loads_of(seen, [phase(99, 101)])

    assert load.counted == {"thermal": pytest.approx(0.8)}  # microseconds: the bit was in all looks


def test_a_link_is_the_best_that_was_seen() -> None:
    """An idle one saves power, and takes a moment to wake."""
    seen = looks({"link_gen": 1}, {"link_gen": 1}, {"link_gen": 5, "replays": 3})
    (load,) = loads_of(seen, [phase(99, 101, "host copies")])

    assert (load.link_gen, load.link_width, load.replays) == (5, 16, 3)


def test_what_nvml_does_not_tell_is_none() -> None:
    nothing = dict.fromkeys(looks({})[0])
    (load,) = loads_of([{**nothing, "at_s": 100.0}, {**nothing, "at_s": 100.05}], [phase(99, 101)])

    assert (load.sm_mhz, load.sm_mhz_end, load.power_w, load.temperature_c, load.link_gen, load.replays) == (None,) * 6
    assert (load.reasons, load.counted) == ({}, {})
