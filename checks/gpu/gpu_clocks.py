from collections import Counter
from collections.abc import Iterator, Sequence

from dl_doctor.contract import Check
from dl_doctor.facts import GpuProbe, GpuYardsticks
from dl_doctor.facts.gpu_load import Load
from dl_doctor.facts.gpu_probe import ProbedGpu
from dl_doctor.facts.gpu_yardsticks import LOCKED, SLOWED, Brake, Yardstick
from dl_doctor.model import Finding, Fix, Level, Quantity, Verdict
from dl_doctor.units import percent, plain

LEVELS: dict[str, Level] = {
    "overheated": "fail",
    "power brake": "fail",
    "hardware slowdown": "fail",
    "hot": "warn",
    "held below limit": "warn",
    "lowered limit": "note",
    "locked clocks": "warn",
}
"""What the hardware does in need fails; what the driver does to stay healthy warns; what an admin chose is a note, but for
clocks, which are often set for a measurement and forgotten. A power limit at its default is how the GPU is built, and no
finding."""


def gpu_clocks(probe: GpuProbe, yardsticks: GpuYardsticks) -> Verdict:
    """Nothing holds the clocks of the GPUs down

    ## What it checks
    Why the clock of each GPU was not higher while it computed for two seconds: NVML's event reasons, twenty times a second, and
    its counters of the time that each reason held.

    ## Why it matters
    A GPU that is too hot, or gets too little power, is slower by half and more, and says so nowhere else. In a job with many GPUs
    all wait for the slowest.

    ## How it decides
    A reason counts from 10 % of the time on. The hardware's own slowdown fails: by heat, by the power supply (power brake), or
    by something that it does not tell; of a laptop the last two only warn. The driver's slowdown by heat warns. So do clocks
    that are set to less than 90 % of the highest, and a cap while less than 80 % of the power limit is drawn. A power limit
    below the default is a note: an admin chose it. One at the default bounds most GPUs under full load, as it is meant to. What
    is told of an idle GPU counts for nothing.

    For example, a server card at 1,050 of 1,755 MHz and 88 °C whose counter of heat moved 70 % of the time fails.

    ## How to fix
    Heat: more air through the chassis, free filters and fans, fewer watts. Power brake: cables, plugs and power supplies. Both
    are for who runs the machine.

    ## Known limits
    Two seconds warm no GPU up: what comes with heat is seen with `--profile deep`, and sooner on a machine that has worked. A
    laptop moves power between CPU and GPU all the time, and a lower limit there is not told. In a virtual machine NVML may keep
    the reasons to itself.

    ## References
    NVIDIA's NVML reference on nvmlClocksEventReasons, mlfoundations/open_clip#703, Azure/azurehpc#595, ollama/ollama#13552
    """
    if probe.ended.how != "answered":
        return Verdict.skip("the probe of the GPUs' speed gave no answer: see gpu-throughput")
    watched = [(gpu, yardstick) for gpu in probe.gpus if (yardstick := of(gpu, yardsticks)) and tells(yardstick.load)]
    if not watched:
        return unseen(probe)
    findings = [finding for gpu, yardstick in watched for finding in slowed(gpu, yardstick)]
    watched_ones = {gpu.gpu for gpu, _ in watched}
    untold = [gpu.gpu for gpu in probe.gpus if gpu.skipped is None and gpu.gpu not in watched_ones]
    rest = [f"{', '.join(untold)}: NVML told nothing"] if untold else []
    return Verdict("; ".join([*seen(watched), *rest]), findings)


def of(gpu: ProbedGpu, yardsticks: GpuYardsticks) -> Yardstick | None:
    return None if gpu.skipped else yardsticks.of(gpu.gpu)


def tells(load: Load | None) -> bool:
    """Whether NVML told anything: where it has no clock, no reason and no counter, nothing is known."""
    return load is not None and (load.sm_mhz is not None or bool(load.reasons or load.counted))


def unseen(probe: GpuProbe) -> Verdict:
    skipped = [f"{gpu.gpu}: {gpu.skipped}" for gpu in probe.gpus if gpu.skipped]
    if skipped:
        return Verdict.skip("no GPU was measured: " + "; ".join(skipped))
    if probe.watched is not None and probe.watched.how != "answered":
        return Verdict.unknown(f"the process that asked NVML meanwhile {probe.watched.in_words}")
    return Verdict.skip("NVML told nothing of the clocks" + (f": {probe.watch_error}" if probe.watch_error else ""))


def seen(watched: Sequence[tuple[ProbedGpu, Yardstick]]) -> Iterator[str]:
    """GPUs with the same highest clock in one line."""
    groups: dict[int | None, list[tuple[str, Yardstick, Load]]] = {}
    for gpu, yardstick in watched:
        if yardstick.load is not None:
            groups.setdefault(yardstick.clock_max_mhz, []).append((gpu.gpu, yardstick, yardstick.load))
    for highest, alike in groups.items():
        clocks = sorted(load.sm_mhz for _, _, load in alike if load.sm_mhz is not None)
        watts = max((load.power_w for _, _, load in alike if load.power_w is not None), default=None)
        degrees = max((load.temperature_c for _, _, load in alike if load.temperature_c is not None), default=None)
        held = Counter(brake.reason for _, yardstick, _ in alike for brake in worst(yardstick))
        told = [
            clock(clocks[0], highest, clocks[-1]) if clocks else "",
            "" if watts is None else f"up to {plain(watts)} W",
            "" if degrees is None else f"up to {plain(degrees)} °C",
            *(f"{reason} on {number}" if len(alike) > 1 else reason for reason, number in held.items()),
        ]
        which = alike[0][0] if len(alike) == 1 else f"{len(alike)} GPUs"
        yield f"{which}: {', '.join(filter(None, told)) or 'no figures'}"


def clock(mhz: float | None, highest: int | None, upto: float | None = None) -> str:
    if mhz is None:
        return ""
    between = " to ".join(dict.fromkeys(f"{one:,.0f}" for one in (mhz, upto or mhz)))
    return f"{between} of {highest:,} MHz" if highest else f"{between} MHz"


def worst(yardstick: Yardstick) -> Iterator[Brake]:
    """Each reason once, in the phase in which it held most of the time."""
    seen: set[str] = set()
    for brake in yardstick.brakes:
        if brake.reason not in seen:
            seen.add(brake.reason)
            yield brake


def slowed(gpu: ProbedGpu, yardstick: Yardstick) -> Iterator[Finding]:
    for brake in worst(yardstick):
        if brake.reason in LEVELS:
            yield finding(gpu, yardstick, brake)


def finding(gpu: ProbedGpu, yardstick: Yardstick, brake: Brake) -> Finding:
    summary, why, fixes = told(gpu, yardstick, brake)
    measured, expected = figures(yardstick, brake)
    return Finding(
        level=level_of(brake, yardstick),
        subject=gpu.gpu,
        summary=f"{gpu.gpu}: {summary}",
        measured=measured,
        expected=expected,
        relation="at_most" if expected and expected.unit == "% of the time" else "at_least",
        why=why,
        owner="admin",
        fixes=fixes,
    )


def level_of(brake: Brake, yardstick: Yardstick) -> Level:
    """A laptop on battery, or with a weak charger, brakes its GPU as it should."""
    return "warn" if yardstick.portable and brake.reason in ("power brake", "hardware slowdown") else LEVELS[brake.reason]


def figures(yardstick: Yardstick, brake: Brake) -> tuple[Quantity | None, Quantity | None]:
    limit, default = yardstick.power_limit_w, yardstick.power_limit_default_w
    if brake.reason == "lowered limit" and limit and default:
        return Quantity(limit, "W", "NVML's enforced power limit"), Quantity(default, "W", "NVML's default power limit")
    if brake.reason == "held below limit" and brake.load.power_w and limit:
        return Quantity(brake.load.power_w, "W", "NVML under load"), Quantity(limit, "W", "NVML's enforced power limit")
    if brake.reason == "locked clocks" and brake.load.sm_mhz and yardstick.clock_max_mhz:
        wanted = Quantity(round(LOCKED * yardstick.clock_max_mhz), "MHz", f"{percent(LOCKED)} of NVML's highest")
        return Quantity(round(brake.load.sm_mhz), "MHz", "NVML under load"), wanted
    measured = Quantity(round(100 * min(brake.share, 1), 1), "% of the time", "NVML's event reasons and their counters")
    return measured, Quantity(round(100 * SLOWED, 1), "% of the time", "from where on it counts")


def told(gpu: ProbedGpu, yardstick: Yardstick, brake: Brake) -> tuple[str, str, tuple[Fix, ...]]:
    """Summary without the GPU, why and fixes."""
    which, part, load = nvidia_smi(gpu), percent(min(brake.share, 1)), brake.load
    at = clock(load.sm_mhz, yardstick.clock_max_mhz) or "an unknown clock"
    hot = f" at {plain(load.temperature_c)} °C" if load.temperature_c is not None else ""
    look = Fix("See what NVML says while it works", (f"{which} -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",))
    if brake.reason == "overheated":
        return (
            f"heat makes the hardware slow itself down, {part} of the time{hot}: {at}",
            "It halves the clock, or worse, until it is cooler.",
            (cool(), look),
        )
    if brake.reason == "hot":
        return (
            f"heat makes the driver lower the clock, {part} of the time{hot}: {at}",
            "It was so after two seconds of work; a job works for hours.",
            (cool(), look),
        )
    if brake.reason in ("power brake", "hardware slowdown") and yardstick.portable:
        return (
            f"the laptop makes the GPU slow down, {part} of the time: {at}",
            "Laptops do so on battery, and with a charger that is too weak.",
            (Fix("Plug it in, with the charger that it came with"), look),
        )
    if brake.reason == "power brake":
        return (
            f"the power supply asks the GPU to slow down (power brake), {part} of the time: {at}",
            "The board's external signal is on: a supply has failed, is too weak, or a plug is not in all the way.",
            (Fix("Have cables, plugs and power supplies looked at", risk="disruptive"), look),
        )
    if brake.reason == "hardware slowdown":
        return (
            f"the hardware slows itself down, {part} of the time: {at}",
            "It says neither heat nor power brake: then it is a current that is too high, or a signal of the board.",
            (Fix("Have cables, plugs and power supplies looked at", risk="disruptive"), look),
        )
    if brake.reason == "held below limit":
        return (
            f"its power is capped {part} of the time, though it draws {watts(load.power_w)} of {watts(yardstick.power_limit_w)}",
            "Something else than the GPU's own limit caps it, such as a limit of the chassis that the BMC sets.",
            (Fix("Have the chassis' power settings (BMC, iDRAC, iLO) looked at"), look),
        )
    if brake.reason == "lowered limit":
        default = yardstick.power_limit_default_w
        return (
            f"its power limit is {watts(yardstick.power_limit_w)}, by default {watts(default)}, and sets the clock: {at}",
            "An admin, or a tool, chose it. The GPU is slower by it, and draws less.",
            (Fix("Set the default limit, if that is not wanted", (f"{which} -pl {default:g}",), risk="needs-root"),),
        )
    return (
        f"its clocks are set by hand, and not near the highest: {at}",
        "Somebody set them (nvidia-smi -ac or -lgc), perhaps for a measurement.",
        (Fix("Let the driver choose them again", (f"{which} -rac", f"{which} -rgc"), risk="needs-root"),),
    )


def cool() -> Fix:
    return Fix(
        "Have the cooling looked at",
        risk="disruptive",
        note="Fans, filters, blanks in empty slots, air from the front.",
    )


def watts(value: float | None) -> str:
    return "an unknown power" if value is None else f"{plain(value)} W"


def nvidia_smi(gpu: ProbedGpu) -> str:
    """By its address on the bus, because PyTorch may count in another order."""
    which = gpu.pci or gpu.nvml_index
    return "nvidia-smi" if which is None else f"nvidia-smi -i {which}"


CHECK = Check(gpu_clocks, scope="node")
"""Only what is seen under the probe's own load counts: an idle GPU is slow by design, and says so with the same bits."""
