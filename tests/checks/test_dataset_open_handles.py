"""Handles that forked workers would share warn; a descriptor that no attribute leads to counts where it is a data file's."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_open_handles import CHECK
from dl_doctor.facts.dataset_objects import Handle
from dl_doctor.facts.dataset_trip import Culprit
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import dataset_objects, dataset_trip, loader, loader_plan, start_methods

H5 = Handle(path="dataset.h5", type="h5py._hl.files.File", kind="h5py", file="data/a.h5")
ENV = Handle(path="dataset.env", type="Environment", kind="lmdb", file=None)
RAISED = Ended(how="raised", error="TypeError: h5py objects cannot be pickled")


def judged(handles: Any = (), opened: tuple[str, ...] = (), trip: Any = None, **plan: Any) -> Verdict:
    plan = {"start_method": "fork", "num_workers": 2, **plan}
    arrived = trip or dataset_trip(plan["start_method"])
    return CHECK.judge(loader(opened=opened), dataset_objects(handles=handles), arrived, start_methods(), loader_plan(**plan))


@pytest.mark.parametrize(
    ("handles", "opened", "subjects"),
    [
        ((), (), []),
        ((H5,), ("/data/a.h5",), ["dataset.h5"]),  # one and the same, though the one path is relative
        ((), ("/data/a.h5",), ["/data/a.h5"]),  # held by a module, say
        ((), ("/var/log/train.log", "/data/images.bin"), []),  # a logger's, and what may be read with os.pread
        ((ENV,), ("/data/data.mdb", "/data/lock.mdb"), ["dataset.env"]),
    ],
)
def test_under_fork(handles: Any, opened: tuple[str, ...], subjects: list[str]) -> None:
    verdict = judged(handles, opened)

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [("warn", subject) for subject in subjects]


def test_without_workers_nothing_is_shared() -> None:
    assert judged((H5,), num_workers=0).status == "pass"


def test_a_handle_that_is_opened_anew_in_the_worker_is_healthy() -> None:
    assert judged((H5,), start_method="spawn").status == "pass"


def test_a_handle_that_cannot_travel_is_explained_by_that() -> None:
    culprit = Culprit(path="dataset.h5", type="h5py._hl.files.File", name=None, module=None, line=None)
    (finding,) = judged((H5, ENV), start_method="spawn", trip=dataset_trip("spawn", RAISED, culprit=culprit)).findings

    assert (finding.level, finding.subject, finding.explained_by) == ("fail", "dataset.h5", "dataset-picklable")


@pytest.mark.parametrize(
    ("method", "handles", "status"), [("fork", (H5,), "warn"), ("spawn", (H5,), "error"), ("spawn", (), "pass")]
)
def test_only_under_spawn_it_matters_whether_it_travels(method: str, handles: Any, status: str) -> None:
    assert judged(handles, trip=Unavailable.timeout("late"), start_method=method).status == status


@pytest.mark.parametrize(
    ("handle", "lines"),
    [(H5, 5), (ENV, 5), (Handle(path="collate_fn.<closure>.h", type="_io.FileIO", kind="file", file=None), 0)],
)
def test_lines_to_copy_are_for_attributes_of_the_dataset(handle: Handle, lines: int) -> None:
    (finding,) = judged((handle,)).findings

    assert len(finding.fixes[0].commands) == lines


def test_a_walk_that_did_not_end_is_an_error() -> None:
    hung = dataset_objects(ended=Ended(how="hung"))

    assert CHECK.judge(loader(), hung, dataset_trip(), start_methods(), loader_plan()).status == "error"
