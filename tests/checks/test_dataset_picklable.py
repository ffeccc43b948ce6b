"""What does not reach a worker fails by pickle and is a note under fork; what was not tried is neither."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_picklable import CHECK
from dl_doctor.facts import DatasetTrip
from dl_doctor.facts.dataset_objects import Handle
from dl_doctor.facts.dataset_trip import Culprit
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import dataset_objects, dataset_trip, loader_plan, start_methods

RAISED = Ended(how="raised", error="TypeError: cannot pickle '_io.BufferedReader' object")
NO_MEMORY = Ended(how="exited", exit_code=1, error="MemoryError")
KILLED = Ended(how="killed", signal="SIGSEGV")
HUNG = Ended(how="hung")


def judged(method: str, trip: Any, **plan: Any) -> Verdict:
    objects = plan.pop("objects", dataset_objects())
    return CHECK.judge(trip, objects, start_methods(), loader_plan(**{"start_method": method, "num_workers": 2, **plan}))


@pytest.mark.parametrize(
    ("method", "trip", "status"),
    [
        ("spawn", dataset_trip("spawn"), "pass"),
        ("spawn", dataset_trip("spawn", RAISED), "fail"),
        ("forkserver", dataset_trip("forkserver", RAISED, where="child"), "fail"),
        ("spawn", dataset_trip("spawn", KILLED, where="child"), "fail"),
        ("spawn", dataset_trip("spawn", HUNG), "error"),
        ("spawn", dataset_trip("spawn", NO_MEMORY), "error"),  # our limit's doing
        ("fork", dataset_trip("fork", HUNG), "error"),
        ("fork", dataset_trip("fork"), "pass"),
        ("spawn", dataset_trip("spawn", trips=(), not_tried="size", stopped="size"), "skip"),
        ("spawn", dataset_trip("spawn", trips=(), not_tried="child"), "skip"),
        ("spawn", dataset_trip("spawn", trips=(), not_tried="device"), "skip"),
        ("spawn", dataset_trip("spawn", trips=(), not_tried="device", error="TypeError: no"), "fail"),  # it cannot travel anyway
    ],
)
def test_by_how_the_trip_ended(method: str, trip: Any, status: str) -> None:
    assert judged(method, trip).status == status


@pytest.mark.parametrize(
    ("ended", "method", "status"),
    [
        (KILLED, "spawn", "fail"),  # by its own __reduce__
        (KILLED, "fork", "error"),
        (HUNG, "spawn", "error"),
        (Ended(how="raised", error="KeyError: 1"), "spawn", "error"),  # a bug of ours
    ],
)
def test_when_pickling_ends_the_process(ended: Ended, method: str, status: str) -> None:
    assert judged(method, DatasetTrip(ended=ended)).status == status


def test_under_fork_what_cannot_be_pickled_is_a_note_though_nothing_was_sent() -> None:
    """Where memory is too little for a child that imports torch."""
    assert [
        finding.level for finding in judged("fork", dataset_trip("fork", error=RAISED.error, not_tried="child")).findings
    ] == ["note"]


def test_without_workers_nothing_travels() -> None:
    assert judged("spawn", dataset_trip("spawn", RAISED), num_workers=0).status == "pass"


def culprit(path: str, type_: str, name: str | None = None, module: str | None = None, line: str | None = None) -> Culprit:
    return Culprit(path=path, type=type_, name=name, module=module, line=line)


@pytest.mark.parametrize(
    ("what", "summary", "fix"),
    [
        (
            culprit("dataset.fn", "function", "make.<locals>.<lambda>", "train", "train.py:5"),
            "dataset.fn is a lambda (train.py:5): it does not reach a worker by spawn",
            "function at the top of a module",
        ),
        (
            culprit("dataset", "class", "make.<locals>.Data", "train", "train.py:9"),
            "dataset is of class make.<locals>.Data, which is inside a function (train.py:9)",
            "Move Data out of the function",
        ),
        (culprit("dataset", "class", "Data", "__main__"), "dataset is of class Data of __main__", "Move Data into a module"),
        (culprit("dataset.index.h5", "h5py._hl.files.File"), "dataset.index.h5 is of type h5py", "Make it once per worker"),
        (culprit("dataset.env", "Environment"), "dataset.env is of type Environment", "Make it once per worker"),
        (culprit("dataset.np", "module"), "dataset.np is of type module", "Import the module where it is used"),
        (culprit("dataset.rng", "torch._C.Generator"), "dataset.rng is of type torch._C.Generator", "Keep a seed"),
        (culprit("dataset.model", "acme.Model"), "dataset.model is of type acme.Model", "Or start workers by fork"),
    ],
)
def test_it_names_the_way_the_type_and_the_fix(what: Culprit, summary: str, fix: str) -> None:
    (finding,) = judged("spawn", dataset_trip("spawn", RAISED, culprit=what)).findings

    assert finding.summary.startswith(summary)
    assert finding.subject == what.path
    assert fix in finding.fixes[0].title


def test_what_is_left_out_of_the_pickle_is_named_in_the_lines_to_copy() -> None:
    (finding,) = judged(
        "spawn", dataset_trip("spawn", RAISED, culprit=culprit("dataset.parts[3].file", "_io.BufferedReader"))
    ).findings

    assert finding.fixes[0].commands[1] == '    return {**self.__dict__, "file": None}'


@pytest.mark.parametrize(
    ("method", "objects", "levels"),
    [
        ("fork", dataset_objects(), ["note"]),
        ("fork", Unavailable.timeout("late"), ["note"]),
        ("fork", dataset_objects(handles=(Handle(path="dataset.env", type="Environment", kind="lmdb", file=None),)), []),
        ("spawn", dataset_objects(handles=(Handle(path="dataset.env", type="Environment", kind="lmdb", file=None),)), ["fail"]),
    ],
)
def test_a_handle_that_forked_workers_would_share_is_told_once(method: str, objects: Any, levels: list[str]) -> None:
    trip = dataset_trip(method, error=RAISED.error, culprit=culprit("dataset.env", "Environment"), not_tried="child")
    if method == "spawn":
        trip = dataset_trip(method, RAISED, culprit=culprit("dataset.env", "Environment"))

    assert [finding.level for finding in judged(method, trip, objects=objects).findings] == levels


@pytest.mark.parametrize(
    ("kind", "kept"), [("_io.BufferedReader", False), ("h5py._hl.files.File", False), ("generator", True), ("acme.Model", True)]
)
def test_fork_is_no_remedy_for_what_forked_workers_must_not_share(kind: str, kept: bool) -> None:
    (finding,) = judged("spawn", dataset_trip("spawn", RAISED, culprit=culprit("dataset.x", kind))).findings

    assert any("fork" in fix.title for fix in finding.fixes) == kept
