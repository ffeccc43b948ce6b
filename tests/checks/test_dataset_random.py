"""Copies of one generator warn; what torch seeds, and what is not random, does not. Real workers' draws."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_random import CHECK
from dl_doctor.facts import worker_draws
from dl_doctor.facts.worker_draws import Draws, Generator, WorkerDraws
from dl_doctor.model import Ended
from tests.examined import examined
from tests.facts import ANSWERED, UNKNOWN, loader, loader_arguments, loader_plan


@pytest.mark.parametrize(
    ("name", "level", "subject"),
    [
        ("python_rng", "warn", "dataset.rng"),
        ("numpy_rng", "warn", "dataset.rng"),
        ("numpy_state", "warn", "dataset.rng['crop']"),
        ("torch_rng", "warn", "dataset.rng"),
        ("module_rng", "warn", "datasets.MODULES_OWN"),
        ("fixed_seed", "warn", "worker_init_fn"),
        ("counter", "note", "dataset"),
        ("by_name", "warn", "dataset.rng"),  # its sampler gives names, and it has neither a length nor __getitem__
        ("slow_rng", "warn", "dataset.rng"),  # one index is drawn instead of three
        ("global_numpy", None, None),  # torch seeds it
        ("global_python", None, None),
        ("global_torch", None, None),
        ("global_half", None, None),
        ("deterministic", None, None),  # it holds a generator, and does not draw from it
        ("by_index", None, None),
    ],
)
def test_real_draws(torch_python: str, name: str, level: str | None, subject: str | None) -> None:
    made, draws = examined(torch_python, name, worker_draws.collect)
    findings = CHECK.judge(draws, made, loader_plan(loader=made), UNKNOWN).findings

    assert [(finding.level, finding.subject) for finding in findings] == ([] if level is None else [(level, subject)])


SAME = Draws(ended=ANSWERED, first=("a", "b"), second=("c", "d"))
OTHER = Draws(ended=ANSWERED, first=("e", "f"), second=("g", "h"))
STEADY = Draws(ended=ANSWERED, first=("a", "b"), second=("a", "b"))
HALF = Draws(ended=ANSWERED, first=("a", "b"), second=("a", "x"))
HALF_OTHER = Draws(ended=ANSWERED, first=("a", "y"), second=("a", "z"))
DIED = Draws(ended=Ended(how="killed", signal="SIGSEGV", step="draw sample 3 twice"))
SLOW = Draws(ended=Ended(how="hung", step="draw sample 3 twice"))
RNG = Generator(path="dataset.rng", type="random.Random")


@pytest.mark.parametrize(
    ("workers", "generators", "arguments", "plan", "status", "levels"),
    [
        ((SAME, SAME), (RNG,), {}, {"num_workers": 2}, "pass", ["warn"]),
        ((SAME, SAME), (RNG,), {}, {"num_workers": 1}, "pass", []),  # nobody draws it twice
        ((SAME, SAME), (RNG,), {}, {"num_workers": 0}, "pass", []),
        ((SAME, SAME), (RNG,), {}, {}, "pass", ["warn"]),  # how many there will be is not known
        ((SAME, SAME), (), {}, {"num_workers": 2}, "pass", ["note"]),  # a counter looks the same
        ((SAME, SAME), (), {"worker_init_fn": "train.seed"}, {"num_workers": 2}, "pass", ["warn"]),
        ((SAME, OTHER), (RNG,), {}, {"num_workers": 2}, "pass", []),
        ((STEADY, STEADY), (RNG,), {}, {"num_workers": 2}, "pass", []),
        ((HALF, HALF), (RNG,), {}, {"num_workers": 2}, "pass", ["warn"]),  # one sample of two is random
        ((HALF, HALF_OTHER), (RNG,), {}, {"num_workers": 2}, "pass", []),
        ((DIED, SAME), (), {}, {"num_workers": 2}, "error", []),
        ((SLOW, SLOW), (), {}, {"num_workers": 2}, "skip", []),  # whether it hangs is told by dataset-sample
    ],
)
def test_what_is_made_of_draws(
    workers: Any, generators: Any, arguments: dict[str, Any], plan: dict[str, Any], status: str, levels: list[str]
) -> None:
    made = loader(loader_arguments(**arguments))
    verdict = CHECK.judge(WorkerDraws(workers=workers, generators=generators), made, loader_plan(**plan), UNKNOWN)

    assert [finding.level for finding in verdict.findings] == levels
    assert verdict.status == ("warn" if "warn" in levels else status)


def test_iterable_datasets_are_another_checks() -> None:
    assert CHECK.judge(WorkerDraws(workers=(SAME, SAME)), loader(kind="iterable"), loader_plan(), UNKNOWN).status == "skip"
