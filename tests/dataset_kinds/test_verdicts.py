"""The verdict table: each kind of dataset under each start method, with what is found and where it lies.

The datasets are made and examined for real, in the job's environment. What is not in a cell is not found.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.checks.dataset import (
    dataset_cuda,
    dataset_open_handles,
    dataset_picklable,
    dataset_pickle_size,
    dataset_replication,
)
from dl_doctor.checks.workers import start_method
from dl_doctor.contract import Check, needs_of
from dl_doctor.facts import Loader, Target, dataset_objects, dataset_trip, entry_script, loader, worker_cuda
from dl_doctor.model import Finding, Unavailable, Verdict
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.system import System
from dl_doctor.units import GIB
from tests.collected import collected
from tests.facts import UNKNOWN, allowance, dataset_samples, examination, loader_plan, memory_budget, start_methods

FILE = Path(__file__).with_name("kinds.py")
METHODS = ("fork", "spawn", "forkserver")
CHECKS = (
    dataset_cuda.CHECK,
    dataset_open_handles.CHECK,
    dataset_picklable.CHECK,
    dataset_pickle_size.CHECK,
    dataset_replication.CHECK,
    start_method.CHECK,
)
MEMORY = memory_budget(headroom=4 * GIB)
WORKERS = 32

Cell = dict[str, tuple[str, str]]
"""Level and subject of what a check finds."""

HEALTHY: Cell = {}


def stays(path: str) -> tuple[Cell, Cell]:
    """What cannot be pickled: a note under fork, by which it works, and else it ends the loader."""
    return {"dataset-picklable": ("note", path)}, {"dataset-picklable": ("fail", path)}


def shared(path: str) -> tuple[Cell, Cell]:
    """A handle: under fork it works and gives wrong data. One cause, and one finding."""
    return {"dataset-open-handles": ("warn", path)}, stays(path)[1]


TABLE: dict[str, tuple[Cell, Cell]] = {
    # under fork, and under spawn and forkserver
    "healthy": (HEALTHY, HEALTHY),
    "in_a_lambda": stays("dataset.transform.transforms[2].fn"),
    "in_a_partial": stays("dataset.scale.keywords['exp']"),
    "local_class": stays("dataset"),
    "under_a_guard": stays("dataset"),  # it is pickled without complaint, and the child does not find its class
    "cannot_be_read_back": stays("dataset"),
    "open_file": shared("dataset.file"),
    "mapped_file": stays("dataset.file"),
    "written_log": stays("dataset.log"),  # nobody reads from it
    "descriptor": ({"dataset-open-handles": ("warn", "dataset.fd")}, {"dataset-open-handles": ("fail", "dataset.fd")}),
    "h5py": shared("dataset.h5"),
    "lmdb": shared("dataset.env"),
    "sqlite": shared("dataset.db"),
    "opens_later": (HEALTHY, HEALTHY),
    "memory_mapped": (HEALTHY, HEALTHY),
    "generator": stays("dataset.stream"),
    "thread_lock": stays("dataset.cache['lock']"),
    "mp_lock": (HEALTHY, HEALTHY),  # it can be pickled while a child starts, and at no other time
    "module": stays("dataset.np"),
    "own_rng": (HEALTHY, HEALTHY),  # that it repeats itself is another check's
    "gradients_held": stays("dataset.x"),
    "tensors_held": (HEALTHY, HEALTHY),
    "cuda_tensor": (
        {"dataset-cuda": ("fail", "dataset.tables['mean']")},
        {"dataset-cuda": ("warn", "dataset.tables['mean']")},
    ),
    "million_strings": (  # by what the workers hold: 60 MiB of objects for 17 MiB of pickle
        {"dataset-replication": ("warn", "dataset.names")},
        {"dataset-pickle-size": ("warn", "dataset.names")},
    ),
    "object_array": (HEALTHY, HEALTHY),  # 18 MiB in each of 32 workers: not a quarter of what is left
    "string_array": (HEALTHY, HEALTHY),
    "same_string": (HEALTHY, HEALTHY),  # one object, referred to a million times
    "lazy_pickle": (HEALTHY, {"dataset-pickle-size": ("fail", "dataset.blob")}),
    "own_sampler": (HEALTHY, HEALTHY),  # a lambda in it, and it stays in the main process
    "own_collate": stays("collate_fn"),
    "own_worker_init": stays("worker_init_fn"),
    "fsspec_thread": ({"start-method": ("warn", "fsspec")}, HEALTHY),
    "ordinary_thread": (HEALTHY, HEALTHY),
}

PACKAGES = ("h5py", "lmdb")

BY_TORCH = ("healthy", "million_strings", "own_sampler", "own_collate", "own_worker_init", "tensors_held", "gradients_held")
"""Kinds that are collated as usual, and loaders. With the others goes a collate_fn that has no child import torch for seconds."""

SHARED = {
    # what forked workers would share that samples depend on
    "open_file": ["dataset.file"],  # smaller than a buffer: it is read to its end whatever is wanted of it
    "always_set_back": ["dataset.file"],
    "many_files": [f"dataset.files[{index}]" for index in range(4)],
    "held_by_a_module": ["plain.bin"],
    "temporary_file": [],
    "log_opened_for_both": [],
    "descriptor_read_at_a_place": [],
    "opened_anew": [],
}


@pytest.mark.parametrize("kind", SHARED)
def test_what_samples_do_to_files_that_are_open(kind: str, torch_python: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("KINDS_FOLDER", str(tmp_path))

    async def objects_of(probes: Probes) -> Any:
        settings, target = Settings(dataset=f"{FILE}:{kind}"), Target(path=torch_python, why="a test", has_torch=True)
        made = await loader.collect(probes, settings, target, allowance())
        assert isinstance(made, Loader)
        await dataset_objects.collect(probes, examination(made))
        return await dataset_objects.collect(probes, examination(made))  # what was read before makes no difference

    found = collected(objects_of)

    assert found.undecided is None
    assert [handle.path.rpartition("/")[2] for handle in found.shared] == SHARED[kind]


@pytest.mark.parametrize("kind", TABLE)
def test_verdicts(kind: str, torch_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind in PACKAGES and not installed(torch_python, kind):
        pytest.skip(f"{kind} is not installed in the environment of torch; `make test` installs it")
    monkeypatch.setenv("KINDS_FOLDER", str(tmp_path))
    monkeypatch.setenv("KIND", kind)
    forked, by_pickle = TABLE[kind]
    name = kind if kind in BY_TORCH else "collated_by_list"
    if kind == "mp_lock":  # bound to the method that was the default when it was made
        found = {method: examined(name, torch_python, method)[method] for method in METHODS}
    else:
        found = examined(name, torch_python, *METHODS)

    assert cells(found) == {"fork": forked, "spawn": by_pickle, "forkserver": by_pickle}


def installed(python: str, package: str) -> bool:
    return any(Path(python).parents[1].glob(f"lib/python3*/site-packages/{package}"))


def cells(found: dict[str, dict[str, Verdict]]) -> dict[str, Cell]:
    """What stands in the table for these verdicts; the note on defaults is not the dataset's."""
    return {
        method: {
            check: (finding.level, finding.subject)
            for check, verdict in verdicts.items()
            for finding in told(verdict)
            if finding.subject != "start_method"
        }
        for method, verdicts in found.items()
    }


def told(verdict: Verdict) -> Iterator[Finding]:
    """Its findings; that it could not tell would be one too."""
    yield from verdict.findings
    if verdict.status == "error":
        assert verdict.reason is not None
        yield Finding(level="fail", subject="unknown", summary=verdict.reason.detail)


def examined(name: str, python: str, *methods: str) -> dict[str, dict[str, Verdict]]:
    """By start method, what each check says; the dataset is made once, and the first of them is the default then."""

    async def looked() -> dict[str, dict[str, Verdict]]:
        verdicts = {}
        system = System()
        probes = Probes(system, system.clock_s() + 110)
        try:
            settings = Settings(dataset=f"{FILE}:{name}", start_method=methods[0], num_workers=WORKERS)  # type: ignore[arg-type]
            known = await what_all_share(probes, settings, python)
            for method in methods:
                plan = loader_plan(start_method=method, num_workers=WORKERS, loader=known[0])
                trip = await dataset_trip.collect(probes, known[1], plan, start_methods())
                verdicts[method] = {check.id: judged(check, [*known, trip, plan, MEMORY, start_methods()]) for check in CHECKS}
        finally:
            probes.close()
        return verdicts

    return asyncio.run(looked())


async def what_all_share(probes: Probes, settings: Settings, python: str) -> list[Any]:
    target = Target(path=python, why="a test", has_torch=True)
    made = await loader.collect(probes, settings, target, allowance(MEMORY.headroom_bytes))
    assert not isinstance(made, Unavailable)
    assert made.made, made.wrong or made.ended
    known = examination(made)
    return [
        made,
        known,
        dataset_samples(),
        await dataset_objects.collect(probes, known),
        await worker_cuda.collect(probes, known, UNKNOWN, UNKNOWN),
        await entry_script.collect(probes, settings, target),
    ]


def judged(check: Check, known: list[Any]) -> Verdict:
    needs = needs_of(check.judge).items()
    verdict: Verdict = check.judge(**{name: next(one for one in known if isinstance(one, need.fact)) for name, need in needs})
    return verdict
