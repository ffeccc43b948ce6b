"""What NVML saw of a GPU while it computed or copied: what two processes have told, joined by their common clock."""

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
