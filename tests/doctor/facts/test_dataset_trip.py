"""What sending the dataset may come to: code that dies or hangs, too little memory, and nothing that is left behind."""

import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import DatasetObjects, DatasetTrip, Target, dataset_objects, dataset_trip, loader
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import GIB, MIB
from tests.collected import collected
from tests.facts import allowance, examination, loader_plan, start_methods

SOURCE = """
import multiprocessing, os, time
from pathlib import Path


class Data:
    def __init__(self, **held):
        vars(self).update(held)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


class Part:
    {part}


def make():
    return Data(part=Part())
"""


def sent(part: str, python: str, folder: Path, *, method: str = "spawn", headroom: int = 8 * GIB) -> Any:
    """The trip of a dataset that holds an object of a class with this body, and what is reachable from it."""
    (folder / "data.py").write_text(SOURCE.format(part=part))

    async def both(probes: Probes) -> Any:
        settings: Any = Settings(dataset=f"{folder / 'data.py'}:make", start_method=method)
        made: Any = await loader.collect(probes, settings, Target(path=python, why="a test", has_torch=True), allowance(headroom))
        known = examination(made, start_method=method)
        trip = await dataset_trip.collect(probes, known, loader_plan(start_method=method), start_methods())
        return trip, await dataset_objects.collect(probes, known)

    return collected(both)


@pytest.mark.parametrize(
    ("part", "how", "detail"),
    [
        ("def __reduce__(self): os._exit(3)", "exited", 3),
        ("def __reduce__(self): os.kill(os.getpid(), 11)", "killed", "SIGSEGV"),
        ("def __reduce__(self): time.sleep(60)", "hung", None),
    ],
)
def test_pickling_that_does_not_come_back(
    part: str, how: str, detail: Any, torch_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_trip, "DEADLINE_S", 3)
    trip: DatasetTrip = sent(part, torch_python, tmp_path)[0]

    assert (trip.ended.how, trip.ended.exit_code or trip.ended.signal) == (how, detail)
    assert trip.ended.step == "pickle the dataset"


@pytest.mark.parametrize(
    ("part", "how", "error"),
    [
        ("def __setstate__(self, state): os.kill(os.getpid(), 11)\n    def __getstate__(self): return 1", "killed", None),
        ("def __setstate__(self, state): raise KeyError(7)\n    def __getstate__(self): return 1", "exited", "KeyError: 7"),
        ("def __setstate__(self, state): time.sleep(60)\n    def __getstate__(self): return 1", "hung", None),
    ],
)
def test_a_child_that_cannot_read_it(
    part: str, how: str, error: str | None, torch_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_trip, "PATIENCE_S", 3)
    (travel,) = sent(part, torch_python, tmp_path)[0].trips

    assert (travel.ended.how, travel.where, travel.ended.error) == (how, "child", error)


@pytest.mark.parametrize(("method", "methods"), [("spawn", []), ("fork", ["fork"])])
def test_no_child_that_imports_torch_where_memory_is_little(
    method: str, methods: list[str], torch_python: str, tmp_path: Path
) -> None:
    trip: DatasetTrip = sent("pass", torch_python, tmp_path, method=method, headroom=400 * MIB)[0]

    assert trip.not_tried == "child"
    assert [travel.method for travel in trip.trips] == methods


def test_a_pickle_without_end_is_weighed_up_to_what_is_allowed(torch_python: str, tmp_path: Path) -> None:
    """An eighth of the memory that is left."""
    part = "def __reduce__(self): return list, (), None, (bytes(1 << 20) for _ in range(1 << 30))"
    trip: DatasetTrip = sent(part, torch_python, tmp_path, headroom=2 * GIB)[0]

    assert (trip.ended.how, trip.trips) == ("answered", ())
    assert trip.stopped in ("size", "memory")
    assert 64 * MIB < trip.pickle_bytes <= 257 * MIB


def test_the_walk_runs_no_code_of_the_dataset(torch_python: str, tmp_path: Path) -> None:
    part = (
        "bomb = device = property(lambda self: os._exit(1))\n"
        "    __len__ = __iter__ = __sizeof__ = __eq__ = __hash__ = __bool__ = lambda *_: os._exit(2)\n"
        "    def __getattribute__(self, name): os._exit(3)"
    )
    objects: DatasetObjects = sent(part, torch_python, tmp_path)[1]

    assert (objects.ended.how, objects.whole) == ("answered", True)


def test_locks_of_a_dataset_are_removed_with_the_process_that_made_them(torch_python: str, tmp_path: Path) -> None:
    """Their names stay in /dev/shm until multiprocessing's tracker finds that all processes are gone."""
    name = tmp_path / "name"
    part = f"lock = multiprocessing.Lock()\n    Path({str(name)!r}).write_text(lock._semlock.name)"
    trip: DatasetTrip = sent(part, torch_python, tmp_path)[0]

    assert trip.ended.how == "answered"
    semaphore = Path(f"/dev/shm/sem.{name.read_text().lstrip('/')}")
    end_s = time.monotonic() + 5
    while semaphore.exists() and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not semaphore.exists()
