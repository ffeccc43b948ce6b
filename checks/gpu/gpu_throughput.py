from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dl_doctor.contract import Check
from dl_doctor.facts import GpuProbe, GpuShortfalls, GpuYardsticks
from dl_doctor.facts.gpu_probe import ProbedGpu, Rate
from dl_doctor.facts.gpu_shortfalls import (
    BEHIND,
    BY_FORMULA,
    HOST_COPIES,
    PEERS_NEEDED,
    STEADY,
    URGENT,
    Laggard,
    Mismatch,
    Shortfall,
)
from dl_doctor.facts.gpu_yardsticks import Brake, Yardstick
from dl_doctor.model import Finding, Fix, Level, Owner, Quantity, Reason, Verdict
from dl_doctor.units import percent, plain

FAR_BEHIND = 0.15
"""Below the median of equal GPUs. Proposal; three times what healthy ones differ by."""

POWER_BOUND = 0.5
FEW_WATTS, POWER_BOUND_OF_FEW = 100, 0.4
"""Part of the data sheet's clock down to which a GPU goes at its own power limit, and one of few watts (L4: 72 W). Below it
something else caps it: one of four V100 was seen at 150 W. Proposals."""

SUSTAINED = 0.95
"""Part of the first second's rate that is left after four. Proposal."""

LAUNCH_US = 15.0
"""An eager operation takes 3 to 8 µs to launch; more is a slow or crowded CPU, or a profiler. Proposal."""

OVERLAP = 0.3
"""Below it a copy does not hide behind products. Proposal."""

ORDER: tuple[Level, ...] = ("note", "warn", "fail")

MAIN = ("bf16", "fp16")
"""Types that the verdict goes by: the first, or the second on GPUs before Ampere."""

ORDER_OF_RATES = ("bf16", "fp16", "tf32", "fp32", "fp8", "copy", *HOST_COPIES)


def gpu_throughput(probe: GpuProbe, yardsticks: GpuYardsticks, short: GpuShortfalls) -> Verdict:
    """Each GPU is as fast as its kind

    ## What it checks
    What each GPU does in two seconds, in the job's own PyTorch: matrix products in bf16 (or fp16), tf32 and fp32, copies in its
    own memory, and copies from and to the host; and whether equal GPUs compute the same, bit by bit.

    ## Why it matters
    A GPU that is half as fast tells nobody, and in a job with many all wait for it. The cause decides who can mend it: heat,
    power, clocks that somebody set, another process, a link with too few lanes, memory on the wrong NUMA node, a CPU too slow to
    launch.

    ## How it decides
    Against the data sheet of its kind, found by PCI id and else by name: bf16 below 55 % of a data-centre card's figure fails and
    below 70 % warns; below 60 and 75 % for GeForce and RTX; below 35 and 45 % for AMD Instinct. Copies in its memory fail below
    75 % and warn below 90 % of what NVIDIA measured on this kind. The link to the host is held against its lanes and generation.
    The cause is told by the clock that was seen meanwhile and by what is possible at that clock. A power limit, lowered or the
    GPU's own, makes it a note. Laptops are judged at their clock alone, because the maker of each sets its watts; so are kinds
    that the table does not know, by a formula of multiprocessors, clock and compute capability. They never fail.
    With three equal GPUs or more, one that is 7 % below their median warns, and 15 % below fails; of two it is a note. Equal GPUs
    that twice computed another product from the same numbers fail.
    An instance of MIG is held against its part of the GPU, and warns at most; so does a rate that moves by more than 10 %. Behind
    shims, MPS, vGPU and confidential computing numbers are told and not judged. A GPU whose products end in an error is no pass.

    For example, an H100 SXM that does 410 of 989 TFLOP/s in bf16 at 780 MHz and 91 °C fails, and heat is told as the cause.

    ## How to fix
    By the cause that is told; most are for who runs the machine. Shared GPUs: end what else runs there. Wrong NUMA node: numactl.

    ## Known limits
    Two seconds warm no GPU up: that heat slows it down later is seen with `--profile deep`. It has not been seen on a real GPU
    yet. Products of other shapes than the probe's reach less. What the CPU does to training is not in these figures.

    ## References
    stas00/ml-engineering (maximum achievable FLOPS), NVIDIA's DCGM diagnostics, Azure's node health checks, NVIDIA/nvbandwidth
    """
    if probe.ended.how != "answered":
        return Verdict.unknown(f"the probe of the GPUs' speed {probe.ended.in_words}")
    measured = [gpu for gpu in probe.gpus if gpu.skipped is None]
    skipped = [f"{gpu.gpu} was left alone: {gpu.skipped}" for gpu in probe.gpus if gpu.skipped]
    if not probe.rates:
        raised = "; ".join(f"{gpu.gpu}: {what}: {error}" for gpu in measured for what, error in gpu.raised.items())
        return Verdict.unknown(f"nothing could be measured: {raised}") if raised else Verdict.skip("; ".join(skipped) or "no GPU")
    unjudged = [f"{gpu.gpu} is not judged: {reason}" for gpu in measured if (reason := yardsticks.of(gpu.gpu).no_verdict)]
    seen = "; ".join((*figures(measured, probe.rates, yardsticks), *skipped, *unjudged, duration(probe)))
    broken = [f"{gpu.gpu}: {error}" for gpu in measured if (error := broken_off(gpu, probe.rates))]
    if not (broken or short.judged or short.mismatches or short.shortfalls):
        return Verdict.skip(seen if unjudged else f"{seen}; what it can is not known, by table or formula")
    cases = {gpu.gpu: Case(gpu, yardsticks.of(gpu.gpu), probe.cpu_quota) for gpu in measured}
    return Verdict(
        seen,
        [
            *(wrong(mismatch) for mismatch in short.mismatches),
            *(cases[one.gpu].falls_short(one) for one in short.shortfalls),
            *(cases[one.gpu].lags(one) for one in short.laggards),
            *(finding for case in cases.values() if not case.yardstick.no_verdict for finding in case.deep()),
        ],
        Reason("failed", f"not all could be measured: {'; '.join(broken)}") if broken else None,
    )


def broken_off(gpu: ProbedGpu, rates: Sequence[Rate]) -> str | None:
    """The error without which the product that the verdict goes by would be known."""
    if gpu.backend not in ("cuda", "hip") or any(rate.gpu == gpu.gpu and rate.what in MAIN for rate in rates):
        return None  # Apple's and Intel's may lack the type
    return next((f"{what}: {error}" for what, error in gpu.raised.items() if what in ("begin", *MAIN)), None)


def figures(gpus: Sequence[ProbedGpu], rates: Sequence[Rate], yardsticks: GpuYardsticks) -> Iterator[str]:
    """Equal GPUs in one line, with the lowest and the highest of each rate."""
    groups: dict[str, list[ProbedGpu]] = {}
    for gpu in gpus:
        groups.setdefault(name_of(gpu, yardsticks.of(gpu.gpu)), []).append(gpu)
    for name, equal in groups.items():
        among = {gpu.gpu for gpu in equal}
        told = [span([rate for rate in rates if rate.gpu in among and rate.what == what]) for what in ORDER_OF_RATES]
        raised = dict.fromkeys(f"{what} was not measured ({error})" for gpu in equal for what, error in gpu.raised.items())
        which = f"{len(equal)} × {name}" if len(equal) > 1 else f"{equal[0].gpu} {name}"
        yield f"{which}: {', '.join(filter(None, (*told, *raised)))}"


def name_of(gpu: ProbedGpu, yardstick: Yardstick) -> str:
    return yardstick.part or gpu.name or gpu.backend


def span(rates: Sequence[Rate]) -> str:
    """`bf16 712 to 745 of 989 TFLOP/s (72 %)`; the share is the lowest's."""
    if not rates:
        return ""
    low, high = (pick(rates, key=lambda rate: rate.achieved) for pick in (min, max))
    between = " to ".join(dict.fromkeys((plain(low.achieved), plain(high.achieved))))
    if not low.possible:
        return f"{low.what} {between} {low.unit}"
    by = " by formula" if low.basis == "formula" else ""
    return f"{low.what} {between} of {plain(low.possible)} {low.unit}{by} ({percent(low.achieved / low.possible)})"


def duration(probe: GpuProbe) -> str:
    return "two seconds each: heat was not tested (--profile deep)" if probe.length == "short" else "seconds of products on end"


@dataclass(frozen=True)
class Cause:
    """Why a GPU is slow, and what that makes of the finding."""

    words: str
    most: Level = "fail"
    """A choice of somebody's is a note, however slow it makes the GPU."""

    explained_by: str | None = None
    fixes: tuple[Fix, ...] = ()
    owner: Owner = "admin"


@dataclass(frozen=True)
class Case:
    """One GPU, and how it is told of it."""

    gpu: ProbedGpu
    yardstick: Yardstick
    cpu_quota: float | None

    def falls_short(self, short: Shortfall) -> Finding:
        rate, cause = short.rate, self.cause_of(short)
        bad: Level = "fail" if short.severe else "warn"
        if rate.basis == "formula" and short.at_its_clock is not None and short.at_its_clock >= BY_FORMULA:
            bad = "note"
        words = [cause.words]
        if short.at_its_clock is not None:
            words.append(f"At the clock that it had it does {percent(short.at_its_clock)} of what it can.")
        if self.yardstick.instance:
            words.append("Other instances of the same GPU share power and clock with it.")
        return Finding(
            level=least_of(bad, cause.most, "warn" if self.yardstick.instance or rate.spread > STEADY else "fail"),
            subject=short.gpu,
            summary=f"{short.gpu}: {self.summary(short)}",
            measured=Quantity(tidy(rate.achieved), rate.unit, f"{rate.what}, the median of blocks"),
            expected=Quantity(tidy(short.fine), rate.unit, self.source(rate)),
            relation="at_least",
            why=" ".join(filter(None, words)),
            owner=cause.owner,
            explained_by=cause.explained_by,
            fixes=cause.fixes,
        )

    def summary(self, short: Shortfall) -> str:
        rate = short.rate
        part = f"{plain(rate.achieved)} {rate.unit}, {percent(rate.achieved / (rate.possible or rate.achieved))}"
        if rate.what == "copy":
            return f"copies in its memory reach {part} of its rate"
        if rate.what in HOST_COPIES:
            source, _, target = rate.what.partition(" to ")
            return f"copies from {source} to {target} reach {part} of what card and slot can"
        return f"products in {rate.what} reach {part} of what this kind can ({name_of(self.gpu, self.yardstick)})"

    def source(self, rate: Rate) -> str:
        possible = f"{plain(rate.possible or 0)} {rate.unit}"
        if rate.basis == "link":
            return f"pinned memory on a link of {possible}"
        if rate.basis == "formula":
            return f"by formula: multiprocessors and clock make {possible}"
        return f"a healthy one; {possible} by {self.yardstick.source or 'the data sheet'}"

    def cause_of(self, short: Shortfall) -> Cause:
        load, yardstick = self.yardstick.load, self.yardstick
        if short.why == "cpu":
            return self.slow_cpu()
        if short.brake is not None:
            return self.braked(short.brake)
        if short.why == "moves":
            words = f"Its rate moves by {percent(short.rate.spread)}: something else uses it, perhaps out of our sight."
            return Cause(words, "warn", fixes=(who_uses_it(),))
        if short.why == "slow path":
            words = "This PyTorch takes a slow path for this type; half precision is as fast as it should be."
            if short.at_its_clock is not None:
                words = "Clock and rate are steady: this PyTorch takes a slow path on it, or something uses it all the time."
            return Cause(words, fixes=(*newer_torch(), who_uses_it()), owner="you")
        if short.why == "tf32 off":
            words = "They are no faster than in fp32: TF32 is not used, perhaps because of NVIDIA_TF32_OVERRIDE=0."
            fix = Fix("Let TF32 be used", ("unset NVIDIA_TF32_OVERRIDE", 'torch.set_float32_matmul_precision("high")'))
            return Cause(words, fixes=(fix,), owner="you")
        if short.why == "low clock":
            clock = f"{(load.sm_mhz if load else None) or 0:,.0f} MHz, the data sheet's is {yardstick.at_mhz or 0:,.0f}"
            return Cause(f"Its clock was {clock}, and NVML gave no reason.", "warn", fixes=(self.look(),))
        if short.why == "memory clock":
            copying = next((load for load in self.gpu.loads if load.phase == "copy"), None)
            clock = f"{(copying.memory_mhz if copying else None) or 0:,.0f} of {yardstick.memory_clock_max_mhz or 0:,} MHz"
            return Cause(f"Its memory's clock was {clock}.", fixes=(self.look(),))
        if short.rate.what in HOST_COPIES:
            return self.slow_link(short)
        return self.unknown(short)

    def unknown(self, short: Shortfall) -> Cause:
        if self.gpu.backend != "cuda":
            return Cause("Nothing more is known of GPUs of this maker.", fixes=(Fix("Look at it", ("amd-smi monitor",)),))
        if short.rate.what == "copy":
            words = "Something else uses the memory, or it is slower than on others of its kind."
            return Cause(words, fixes=(who_uses_it(), self.look()))
        words = "Its clock was not seen, so that heat, power and other processes cannot be told apart."
        return Cause(words, "warn", fixes=(self.look(), who_uses_it()))

    def slow_cpu(self) -> Cause:
        few = f"This rank may use {plain(self.cpu_quota or 0)} CPUs"
        words = f"{few}: what launches is stopped for a part of the time, and the GPU waits."
        return Cause(words, "warn", "cpu-budget", (Fix("Give each rank a CPU at least", note="cpu-budget says how."),), "you")

    def braked(self, brake: Brake) -> Cause:
        words, limit = BRAKES[brake.reason], self.yardstick.power_limit_w or 0
        load = brake.load
        at = [f"{load.sm_mhz:,.0f} MHz"] if load.sm_mhz else []
        at += [f"{plain(load.temperature_c)} °C"] if load.temperature_c is not None else []
        words += f" It was at {' and '.join(at)}." if at else ""
        if brake.reason in URGENT:
            return Cause(words, explained_by="gpu-clocks", fixes=(self.look(),))
        if brake.reason == "locked clocks":
            return Cause(words, "warn", "gpu-clocks", (self.look(),))
        default = self.yardstick.power_limit_default_w or limit
        lowered = f"; {plain(default)} W is the default" if brake.reason == "lowered limit" else ""
        words += f" It is {plain(limit)} W{lowered}"
        lowest = (POWER_BOUND_OF_FEW if default < FEW_WATTS else POWER_BOUND) * (min(1, limit / default) if default else 1)
        if load.sm_mhz and self.yardstick.at_mhz and load.sm_mhz < lowest * self.yardstick.at_mhz:
            return Cause(f"{words}, which keeps no healthy one so slow.", "warn", fixes=(self.look(),))
        return Cause(f"{words}.", "note")

    def slow_link(self, short: Shortfall) -> Cause:
        link, near = self.yardstick.link, self.gpu.device_numa
        if short.why == "lanes" and link:
            return Cause(f"Its link has {link.width} lanes of {link.best_width}.", explained_by="gpu-pcie-link")
        if short.why == "generation" and link:
            return Cause(f"Its link stays at generation {link.gen} of {link.best_gen}.", "warn", "gpu-pcie-link")
        if short.why == "numa" and near is not None:
            buffer = self.gpu.host_numa
            lies = f"the buffer lies on node {buffer}" if buffer not in (None, near) else "this process may not use CPUs of it"
            return Cause(f"The GPU is at NUMA node {near}, and {lies}.", "warn", fixes=(bind(near),), owner="you")
        words = "Lanes and generation are as they should be: a shared switch, an IOMMU or a CPU that saves power is in the way."
        fixes = (
            Fix("Look at the way from the CPU", ("nvidia-smi topo -m", "lspci -tv")),
            Fix("Have the IOMMU and the CPU's power saving looked at", ("cat /proc/cmdline",)),
        )
        return Cause(words, "fail" if self.yardstick.kind == "data-centre" else "warn", fixes=fixes)

    def lags(self, lag: Laggard) -> Finding:
        few, rate = lag.equal < PEERS_NEEDED, lag.rate
        bad: Level = "note" if few else "fail" if lag.gap > FAR_BEHIND else "warn"
        words = BRAKES[lag.brake.reason] if lag.brake else "NVML gives no reason: its silicon, its place in the rack, or a guest."
        hint = "With two it cannot be told which is as it should be." if few else "A job on all of them waits for this one."
        others = "the other one" if few else f"the median of {lag.equal} equal GPUs"
        return Finding(
            level=least_of(bad, "warn" if lag.starved or rate.spread > STEADY else "fail"),
            subject=lag.gpu,
            summary=f"{lag.gpu} is {percent(lag.gap)} slower than its equals in {'copies' if rate.what == 'copy' else rate.what}",
            measured=Quantity(tidy(rate.achieved), rate.unit, rate.what),
            expected=Quantity(tidy((1 - BEHIND) * lag.against), rate.unit, f"{percent(BEHIND)} below {others}"),
            relation="at_least",
            why=f"{words} {hint}",
            owner="admin",
            explained_by="gpu-clocks" if lag.brake and lag.brake.reason in URGENT else None,
            fixes=(self.look(),),
        )

    def deep(self) -> Iterable[Finding]:
        """What only the long probe looks at."""
        gpu = self.gpu
        if gpu.sustained is not None and gpu.sustained < SUSTAINED:
            yield self.decays(gpu.sustained)
        if gpu.launch_us is not None and gpu.launch_us > LAUNCH_US:
            yield self.launches_slowly(gpu.launch_us)
        if gpu.overlap is not None and gpu.overlap < OVERLAP:
            yield Finding(
                level="note",
                subject=gpu.gpu,
                summary=f"{gpu.gpu}: {percent(max(gpu.overlap, 0))} of a copy from the host hides behind products",
                measured=Quantity(round(100 * max(gpu.overlap, 0)), "%", "copies and products in two streams"),
                expected=Quantity(round(100 * OVERLAP), "%", "on most it is almost all"),
                relation="at_least",
                why="Copies and products seem to wait for each other, so that prefetching to the GPU gains little.",
            )

    def decays(self, left: float) -> Finding:
        brake = next((brake for brake in self.yardstick.brakes if brake.load.phase == "sustained"), None)
        return Finding(
            level="note" if brake and brake.reason in ("lowered limit", "power limit") else "warn",
            subject=self.gpu.gpu,
            summary=f"{self.gpu.gpu}: after four seconds of products {percent(left)} of the first rate is left",
            measured=Quantity(round(100 * left, 1), "%", "the last second's rate by the first one's"),
            expected=Quantity(100 * SUSTAINED, "%", "a GPU that keeps its clock"),
            relation="at_least",
            why=BRAKES[brake.reason] if brake else "NVML gave no reason for it.",
            owner="admin",
            explained_by="gpu-clocks" if brake and brake.reason in URGENT else None,
            fixes=(self.look(),),
        )

    def launches_slowly(self, took: float) -> Finding:
        starved = self.cpu_quota is not None and self.cpu_quota < 1
        return Finding(
            level="warn" if starved else "note",
            subject=self.gpu.gpu,
            summary=f"{self.gpu.gpu}: launching a kernel takes {plain(took)} µs of the CPU",
            measured=Quantity(round(took, 1), "µs", "tiny kernels one after another"),
            expected=Quantity(LAUNCH_US, "µs", "3 to 8 are usual for an eager operation"),
            relation="at_most",
            why="Models of many small operations are bound by it. The CPU is slow or crowded, saves power, or is being profiled.",
            explained_by="cpu-budget" if starved else None,
            fixes=(Fix("Launch less, with CUDA graphs", ('torch.compile(model, mode="reduce-overhead")',)),),
        )

    def look(self) -> Fix:
        """By its address on the bus, because PyTorch may count in another order than NVML."""
        which = self.gpu.pci or self.gpu.nvml_index
        command = "nvidia-smi" if which is None else f"nvidia-smi -i {which}"
        return Fix("See what NVML says while it works", (f"{command} -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",))


BRAKES = {
    "overheated": "Heat makes the hardware slow itself down.",
    "power brake": "The power supply asks it to slow down.",
    "hardware slowdown": "The hardware slows itself down.",
    "hot": "Heat makes the driver lower its clock.",
    "held below limit": "Its power is capped below its own limit.",
    "lowered limit": "A power limit that an admin has lowered sets its clock.",
    "locked clocks": "Its clocks are set by hand, and not near the highest.",
    "power limit": "Its own power limit sets its clock, as it is built.",
}


def who_uses_it() -> Fix:
    return Fix("See who uses it, on the host", ("nvidia-smi",))


def newer_torch() -> tuple[Fix, ...]:
    command = 'python -c "import torch; print(torch.cuda.get_arch_list())"'
    return (Fix("Use a PyTorch that is built for this GPU, and a new one", (command,)),)


def bind(node: int) -> Fix:
    return Fix(
        "Run each rank on the CPUs of its GPU's node",
        (f"numactl --cpunodebind={node} --membind={node} ...", "srun --gpu-bind=closest ..."),
    )


def wrong(mismatch: Mismatch) -> Finding:
    others = "the other one" if mismatch.equal == 2 else f"the other {mismatch.equal - 1}"
    unsure = " With two it cannot be told which is right." if mismatch.equal == 2 else ""
    times = "twice" if mismatch.twice else "in one of two tries"
    return Finding(
        level="fail" if mismatch.twice else "warn",
        subject=mismatch.gpu,
        summary=f"{mismatch.gpu} computes another product than {others} from the same numbers, {times}",
        measured=Quantity(2 if mismatch.twice else 1, "wrong products", "a fixed product, bit by bit"),
        expected=Quantity(0, "wrong products", "equal GPUs with the same library"),
        relation="at_most",
        why=f"One that does not give the same bits as its equals spoils training, and no error is raised.{unsure}",
        owner="admin",
        fixes=(
            Fix("Take it out of use, and have it tested for long", ("dcgmi diag -r 3",), risk="disruptive"),
            Fix("Train without it meanwhile", ("CUDA_VISIBLE_DEVICES=... python train.py",)),
        ),
    )


def least_of(*levels: Level) -> Level:
    return min(levels, key=ORDER.index)


def tidy(number: float) -> float:
    """Three digits: more are noise."""
    return float(f"{number:.3g}")


CHECK = Check(gpu_throughput, scope="node")
"""The data sheet says whether a GPU is slow, its clock and link say why, and its equals say it where neither does."""
