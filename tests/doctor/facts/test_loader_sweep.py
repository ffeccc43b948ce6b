"""The sweep on loaders of known cost, measured for real: what is in the way gets its name, on quiet machines and busy ones.

Loaders that sleep are as fast as they are anywhere; of those that compute, only names are asked for, and no speed.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import LoaderSweep, loader, loader_sweep
from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings, SweepOptions
from dl_doctor.system import System
from dl_doctor.units import GIB, MIB
from tests import facts
from tests.collected import collected
from tests.facts import (
    allowance,
    cpu_budget,
    cpu_limit,
    loader_plan,
    memory_budget,
    readable,
    shared_memory,
    start_methods,
    target,
)
from tests.loaders import probed

SETS = Path(__file__).parents[2] / "sweep_sets.py"


def swept(torch_python: str, name: str, *, headroom: int = 8 * GIB, shm: int = GIB, **options: Any) -> LoaderSweep:
    """What the sweep says of a loader of sweep_sets.py, within 8 seconds unless it is said."""
    settings = Settings(loader=f"{SETS}:{name}", sweep=SweepOptions(**{"budget_s": 8.0, **options}))
    memory = memory_budget(headroom)

    async def of_it(probes: Probes) -> LoaderSweep | Unavailable:
        made = await loader.collect(probes, settings, target(path=torch_python), allowance())
        assert isinstance(made, loader.Loader), made
        plan = loader_plan(loader=made, batch_bytes=MIB)
        groups = Cgroups(groups={}, version="v2", namespaced=None)
        facts = (
            made,
            readable(made),
            plan,
            start_methods(),
            cpu_budget(cpu_limit(2)),
            memory,
            shared_memory(free_bytes=shm),
            groups,
            Unavailable.not_asked("a test"),
        )
        told = [one async for one in loader_sweep.collect(System(), probes, settings, *facts)]
        return told[-1]

    found = collected(of_it)
    assert isinstance(found, LoaderSweep), found
    return found


SLEEPING: dict[str, tuple[str, dict[str, Any], str]] = {
    # the loader, how it is swept, and what is in the way
    "latency": ("latency", {"workers": (1, 4)}, "latency"),
    "two ranks": ("latency", {"workers": (1, 4), "ranks": 2}, "latency"),
    "iterable": ("iterable", {"workers": (1, 4)}, "latency"),
    "unbatched": ("unbatched", {"workers": (1, 4)}, "latency"),
    "lock": ("lock", {"workers": (1, 4)}, "lock"),
    "network": ("network", {"workers": (1, 4)}, "network"),
    "straggler": ("straggler", {"workers": (1, 8), "budget_s": 20}, "straggler"),
    "startup": ("startup", {"workers": (1, 2), "budget_s": 20}, "startup"),
    "a step time": ("latency", {"workers": (1, 4), "step_time_s": 0.1}, "gpu"),
    "shared memory": ("latency", {"shm": 19 * MIB}, "memory"),  # for 8 workers: no room for 9, and each one still helps
}
COMPUTING: dict[str, tuple[str, dict[str, Any], str]] = {
    "cpu": ("cpu", {"workers": (1, 4)}, "cpu"),
    "collate": ("collate", {"workers": (1, 4)}, "collate"),
    "ipc": ("ipc", {"workers": (1, 4)}, "ipc"),
    "a busy step": ("latency", {"workers": (1, 4), "step": f"{SETS.parent}/sweep_steps.py:busy"}, "host"),
}


@pytest.fixture(scope="module")
def sleepers(torch_python: str) -> dict[str, LoaderSweep]:
    """Three are swept at once: they leave the CPUs to each other."""
    with ThreadPoolExecutor(3) as pool:
        longest_first = sorted(SLEEPING, key=lambda case: -SLEEPING[case][1].get("budget_s", 0))
        running = {case: pool.submit(swept, torch_python, SLEEPING[case][0], **SLEEPING[case][1]) for case in longest_first}
        return {case: sweep.result() for case, sweep in running.items()}


@pytest.mark.alone
@pytest.mark.parametrize("case", SLEEPING)
def test_what_sleeps_gets_the_name_of_what_is_in_the_way(sleepers: dict[str, LoaderSweep], case: str) -> None:
    found = sleepers[case]

    assert found.bottleneck == SLEEPING[case][2], found
    assert found.evidence


@pytest.mark.alone
@pytest.mark.parametrize("case", COMPUTING)
def test_what_computes_gets_the_name_of_what_is_in_the_way(torch_python: str, case: str) -> None:
    name, options, bottleneck = COMPUTING[case]
    found = swept(torch_python, name, **options)

    assert found.bottleneck == bottleneck, found
    assert found.evidence


@pytest.mark.alone
def test_what_sleeps_is_recommended_as_many_workers_as_help(torch_python: str) -> None:
    found = swept(torch_python, "latency", workers=(0, 1, 4))
    rates = [point.samples_per_s for point in found.points]

    assert found.recommended == 4, found
    assert rates[2] / rates[1] > 2
    assert 80 < rates[1] < 260  # 4 ms for a sample, and on a busy machine more
    assert {stage.name for stage in found.stages} >= {"workers", "main process"}
    assert found.line == "DataLoader(..., num_workers=4)"


def test_workers_that_give_the_same_items_are_no_gain(torch_python: str) -> None:
    """Four of them deliver four times as many samples a second, and each one four times."""
    found = swept(torch_python, "repeating", budget_s=5)

    assert [point.num_workers for point in found.points] == [0, 1], found
    assert found.recommended <= 1
    assert found.recommendation is not None
    assert found.recommendation.gain == "an epoch holds each sample once, and not 4 times"
    assert "see iterable-sharding" in found.recommendation.reason
    assert {point.epoch_s for point in found.points} == {None}  # its length is not known, and not 0


def test_thread_workers_are_measured_where_the_loader_has_them(torch_python: str) -> None:
    """A stand-in, as no torch that is released has them: see sweep_sets.py. Without processes nothing is known of processes."""
    arguments = {
        "workers": 2, "prefetch_factor": 2, "method": "fork", "pin_memory": False, "batch_size": None, "window_s": 0.5,
        "most_s": 5.0, "worker_bytes": GIB, "shared_bytes": GIB, "step_s": None, "step_spec": None, "cached": False, "begin": 0,
        "every": 1, "again": None, "changes": {"worker_method": "thread", "multiprocessing_context": None},
    }  # fmt: skip
    answer = probed(torch_python, f"{SETS}:threads", "sweep_rung", arguments).answer or {}

    assert answer["raised"] is None, answer
    assert len(answer["marks"]) > 3
    assert answer["seen"]["cpu_s"] is None


FOREIGN = {
    "nvidia.dali": "DALI loads with threads of its own; its own setting is num_threads of the pipeline",
    "of_somebody": None,
}


@pytest.mark.parametrize(("package", "told"), FOREIGN.items())
def test_a_loader_with_threads_of_its_own_is_not_measured(package: str, told: str | None) -> None:
    made = facts.loader(kind="other", type=f"{package}.Iterator", packages=(package,))
    missing = loader_sweep.not_measured(made, Unavailable.absent("no Dataset of torch"), loader_plan())

    assert missing == Unavailable.absent(f"num_workers does not apply: {told}" if told else "no Dataset of torch")


@pytest.mark.parametrize(
    ("length", "told"),
    [(3, "an epoch has no batch: 3 samples are fewer than batch_size=32, and are dropped"), (64, "an epoch has no batch")],
)
def test_an_epoch_without_a_batch_is_not_measured(length: int, told: str) -> None:
    """By drop_last, or by a sampler of the job's that gives nothing."""
    made = facts.loader(facts.loader_arguments(batch_size=32, batches=0), length=length)

    assert loader_sweep.not_measured(made, readable(made), loader_plan(loader=made)) == Unavailable.absent(told)


def test_a_loader_that_raises_is_told(torch_python: str) -> None:
    found = swept(torch_python, "raising")

    assert (found.conclusion, found.recommendation, found.points) == ("broke", None, ())
    assert found.why == "the loader broke: ValueError: sample 0 is damaged"


def test_nothing_is_started_that_memory_does_not_hold(torch_python: str) -> None:
    found = swept(torch_python, "latency", headroom=64 * MIB, budget_s=5)

    assert max((point.num_workers for point in found.points), default=0) <= 2
    assert found.limited_by
    assert "of the memory that is left" in found.limited_by


def test_a_step_that_cannot_be_imported_is_named(torch_python: str) -> None:
    found = swept(torch_python, "latency", step="no_such_module:train")

    assert found.conclusion == "nothing"  # the loader may be well
    assert found.why == "nothing was measured: --step no_such_module:train: ModuleNotFoundError: No module named 'no_such_module'"


@pytest.mark.alone
def test_batches_that_take_too_long_ask_for_a_larger_budget(torch_python: str) -> None:
    found = swept(torch_python, "slow", budget_s=3)

    assert found.conclusion == "nothing"
    assert "a batch takes 1.6 s; --budget 110 may be enough" in found.why
