"""How GPUs are measured, without PyTorch: GPUs of ours that work through their queues beside the CPU, and a clock of ours."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from dl_doctor.probes import gpu_products, gpu_race, gpu_speed
from dl_doctor.probes.gpu_copies import copy_on
from dl_doctor.probes.gpu_devices import cpu_list
from dl_doctor.probes.gpu_products import main_type, other_types, products
from dl_doctor.probes.gpu_race import MOST_PIECES, Run, measure, quantile, race, settle
from dl_doctor.probes.gpu_speed import Session
from dl_doctor.units import GIB, MIB

LAUNCH_S = 0.00001
"""What the CPU takes to launch something."""


class Clock:
    """Time passes where somebody sleeps, waits or launches."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_race, "time", CLOCK)


class Event:
    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    def query(self) -> bool:
        return CLOCK.now_s >= self.at_s

    def elapsed_time(self, later: "Event") -> float:
        return 1000 * (later.at_s - self.at_s)


class Gpu:
    """One that takes what it is given without waiting, and is done with it later."""

    def __init__(self, index: int = 0, *, name: str = "H100", capability: tuple[int, int] | None = (9, 0), **told: Any) -> None:
        self.index, self.kind, self.backend = index, "cuda", "cuda"
        self.told = {"name": name, "multiprocessors": 132, "capability": capability and list(capability), "integrated": False}
        self.told |= {"pci": f"0000:0{index + 1}:00.0", "memory_bytes": 80 * GIB, **told}
        self.raised: dict[str, str] = {}
        self.skipped: str | None = None
        self.budget = GIB
        self.free: int | Exception = 79 * GIB
        self.l2_bytes = 50 * MIB
        self.busy_until_s = 0.0
        self.begun = False

    def use(self) -> None:
        pass

    def work(self, seconds: float) -> None:
        CLOCK.sleep(LAUNCH_S)
        self.busy_until_s = max(self.busy_until_s, CLOCK.now_s) + seconds

    def mark(self) -> Event:
        return Event(max(self.busy_until_s, CLOCK.now_s))

    def wait(self) -> None:
        CLOCK.now_s = max(CLOCK.now_s, self.busy_until_s)

    def begin(self) -> None:
        self.begun = True

    def free_bytes(self) -> int:
        if isinstance(self.free, Exception):
            raise self.free
        return self.free

    def let_go(self) -> None:
        pass

    def supports(self, major: int, minor: int) -> bool:
        return self.told["capability"] is not None and self.told["capability"] >= [major, minor]


def run_on(gpu: Gpu, seconds: float | Callable[[], float], what: str = "bf16", block: int = 1) -> Run:
    """Work that takes so long, and counts as one."""
    return Run(gpu, what, lambda: gpu.work(seconds() if callable(seconds) else seconds), 1, block)


def test_no_gpu_waits_for_another_one() -> None:
    """One thread serves eight, of which one is three times as slow."""
    gpus = [Gpu(index) for index in range(8)]
    runs = [run_on(gpu, 0.0048 if gpu.index == 5 else 0.0016, block=8) for gpu in gpus]
    begin_s, end_s = race(runs, 0.4)

    for run in runs:
        assert quantile(run.rates(), 0.5) == pytest.approx(1 / 0.0048 if run.device.index == 5 else 1 / 0.0016, rel=0.01)
        assert sum(run.taken) > 0.98 * 0.4, run.device.index
    assert 0.4 <= end_s - begin_s < 0.4 + 3 * 8 * 0.0048 + 0.01  # what still was in the queues


def test_what_fails_on_one_goes_on_on_others() -> None:
    def fail() -> float:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later")

    ill, well = Gpu(0), Gpu(1)
    runs = [run_on(ill, fail), run_on(well, 0.001)]
    found, _, _ = measure(runs, 0.03)

    assert ill.raised == {"bf16": "RuntimeError: CUDA error: an illegal memory access was encountered"}
    assert (list(found), well.raised) == ([runs[1]], {})
    assert found[runs[1]]["achieved"] == pytest.approx(1000, rel=0.01)


def test_where_nothing_works_nothing_is_waited_for() -> None:
    gpu = Gpu()
    gpu.raised["bf16"] = "OutOfMemoryError"
    found, begin_s, end_s = measure([run_on(gpu, 0.001)], 5)

    assert (found, begin_s) == ({}, end_s)


@pytest.mark.parametrize(
    ("once_s", "most_s", "block"),
    [
        (0.0016, 0.4, 8),  # 8192 in bf16 on an H100: blocks of 12 ms and a little more
        (0.0099, 0.2, 2),
        (0.06, 0.2, 1),  # one is longer than a block
        (0.000001, 0.2, MOST_PIECES),  # the queue holds no more
        (0.00099, 0.02, 2),  # ten blocks have to fit
    ],
)
def test_blocks_are_long_and_many(once_s: float, most_s: float, block: int) -> None:
    run = run_on(Gpu(), once_s)
    run.calibrate(most_s)

    assert run.block == block


def test_a_noisy_measurement_is_made_once_more() -> None:
    """And of the two the one with less noise is taken."""
    noise = random.Random(3)
    end_of_the_noise_s = CLOCK.now_s + 0.2
    run = run_on(Gpu(), lambda: 0.01 * (1 + noise.random() if CLOCK.now_s < end_of_the_noise_s else 1))
    found, begin_s, end_s = measure([run], 0.2)

    assert found[run]["achieved"] == pytest.approx(100, rel=0.01)
    assert found[run]["spread"] < 0.01
    assert end_s - begin_s > 0.4


def test_warming_up_ends_when_the_clock_is_steady() -> None:
    begin_s = CLOCK.now_s
    settle([run_on(Gpu(), 0.01)], 0.4)
    steady_s = CLOCK.now_s
    settle([run_on(Gpu(), lambda: 0.01 + 0.02 * (CLOCK.now_s - steady_s))], 0.4)  # slower and slower

    assert steady_s - begin_s < 0.3
    assert CLOCK.now_s - steady_s >= 0.4


@pytest.mark.parametrize(
    ("capability", "main", "others", "in_deep"),
    [
        ((7, 0), "fp16", ["fp32"], []),  # V100: no bf16, no TF32
        ((8, 0), "bf16", ["fp32", "tf32"], ["fp16"]),
        ((8, 6), "bf16", ["fp32", "tf32"], ["fp16"]),
        ((8, 9), "bf16", ["fp32", "tf32"], ["fp16", "fp8"]),
        ((12, 0), "bf16", ["fp32", "tf32"], ["fp16", "fp8"]),
        (None, "bf16", ["fp32"], ["fp16"]),  # AMD's, Intel's, Apple's
    ],
)
def test_types_by_what_a_gpu_has(capability: Any, main: str, others: list[str], in_deep: list[str]) -> None:
    gpu = Gpu(capability=capability)

    assert (main_type(gpu), other_types(gpu, False), other_types(gpu, True)) == (main, others, [*others, *in_deep])


@pytest.mark.parametrize(
    ("tera", "what", "budget", "seconds", "length"),
    [
        (700, "bf16", GIB, 0.4, 8192),
        (700, "bf16", 64 * MIB, 0.4, 3072),  # a quarter of what little is free
        (400, "tf32", GIB, 0.2, 8192),
        (52, "fp32", GIB, 0.2, 6144),
        (8, "fp32", GIB, 0.2, 3072),  # a T4: 4096 would take a twelfth of the time
        (0.5, "fp32", GIB, 0.2, 1024),
        (0.5, "fp32", MIB, 0.2, 256),  # less than the trial takes elsewhere
    ],
)
def test_matrices_are_as_large_as_time_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, tera: float, what: str, budget: int, seconds: float, length: int
) -> None:
    asked: list[tuple[int, ...]] = []

    def product(device: Gpu, what: str, *sizes: int) -> Run:
        asked.append(sizes)
        operations = 2 * sizes[0] * sizes[1] * sizes[2]
        return Run(device, what, lambda: device.work(operations / tera / 1e12), operations)

    monkeypatch.setattr(gpu_products, "product", product)
    gpu, slower = Gpu(0), Gpu(1)
    gpu.budget, slower.budget = budget, budget // 4
    (run,) = products([gpu], lambda _: what, seconds)

    assert asked[-1] == (length, length, length)
    assert run.block >= 1

    both = products([gpu, slower], lambda _: what, seconds)
    assert len(both) == 2
    assert asked[-1] == asked[-2]  # equal GPUs are compared, so both get what fits the fuller one
    assert asked[-1][0] <= length


def test_the_second_level_cache_is_not_measured() -> None:
    gpu = Gpu()
    gpu.budget = 200 * MIB

    assert copy_on(gpu, 384 * MIB) is None
    assert gpu.raised == {"copy": "the memory that may be taken is too small: a cache of 50 MiB would be measured"}


def session(**arguments: Any) -> Session:
    return Session(None, {"length": "short", "most_bytes": GIB, "host_bytes": MIB, **arguments}, lambda _: None)


@pytest.mark.parametrize(
    ("told", "free", "arguments", "skipped", "raised"),
    [
        ({}, 79 * GIB, {}, None, {}),
        ({}, 79 * GIB, {"leave": {"0000:01:00.0": "pid 7 computes on it"}}, "pid 7 computes on it", {}),
        ({}, 79 * GIB, {"leave": {"0000:02:00.0": "pid 7 computes on it"}}, None, {}),
        ({"pci": None}, 79 * GIB, {"leave": {"0000:02:00.0": "busy"}}, "this one's address is not known", {}),
        ({"pci": None}, 79 * GIB, {}, None, {}),
        ({}, 60 * GIB, {"check_memory": True}, "20.0 GiB of its memory are in use", {}),  # an instance's, or AMD's
        ({}, 60 * GIB, {}, None, {}),  # where NVML has been asked: the caller's own
        ({"integrated": True}, 60 * GIB, {"check_memory": True}, None, {}),  # the host's memory, which others may use
        ({}, 200 * MIB, {}, "only 200 MiB of its memory are free", {}),
        ({}, RuntimeError("CUDA error: out of memory\n"), {}, None, {"begin": "RuntimeError: CUDA error: out of memory"}),
    ],
)
def test_a_gpu_that_is_left_alone_is_told(told: dict[str, Any], free: Any, arguments: Any, skipped: Any, raised: Any) -> None:
    gpu = Gpu(**told)
    gpu.free = free
    usable = session(**arguments).begun(gpu)

    assert usable is (skipped is None and not raised)
    assert gpu.skipped is None if skipped is None else skipped in (gpu.skipped or "")
    assert gpu.raised == raised
    assert gpu.begun is not bool(arguments.get("leave") and skipped)  # no context where another one works
    assert gpu.budget <= GIB


def test_a_budget_is_a_quarter_of_what_is_free() -> None:
    gpu = Gpu()
    gpu.free = 2 * GIB
    session().begun(gpu)

    assert gpu.budget == GIB // 2


@pytest.mark.parametrize(
    ("digests", "repeated"),
    [
        ((("a",), ("a",), ("b",)), [None, None, None]),  # the third is of another kind
        ((("a", "a"), ("x", "a"), ("b",)), ["a", "a", None]),  # once is no proof
        ((("a", "a"), ("x", "x"), ("b",)), ["a", "x", None]),
    ],
)
def test_equal_gpus_that_differ_compute_once_more(
    monkeypatch: pytest.MonkeyPatch, digests: tuple[tuple[str, ...], ...], repeated: list[str | None]
) -> None:
    gpus = [Gpu(0), Gpu(1), Gpu(2, name="A100")]
    to_come = {gpu: iter(those) for gpu, those in zip(gpus, digests, strict=True)}
    monkeypatch.setattr(gpu_speed, "matrices", lambda *_: [])
    monkeypatch.setattr(gpu_speed, "digest", lambda gpu, _: next(to_come[gpu]))
    it = session()
    it.extras = {gpu: {} for gpu in gpus}
    it.compare(gpus)

    assert [it.extras[gpu]["digest"] for gpu in gpus] == [those[0] for those in digests]
    assert [it.extras[gpu].get("digest_repeated") for gpu in gpus] == repeated


@pytest.mark.parametrize(("text", "cpus"), [("0-2,8\n", {0, 1, 2, 8}), ("5", {5}), ("", set()), ("\n", set()), ("x-y", set())])
def test_a_list_of_cpus(text: str, cpus: set[int]) -> None:
    assert cpu_list(text) == cpus
