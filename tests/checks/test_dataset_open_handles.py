"""What forked workers would share warns: handles of libraries, and files whose offset is moved by reading samples."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_open_handles import CHECK
from dl_doctor.facts.dataset_objects import FileOffsets, Handle, Moved
from dl_doctor.model import Ended, Verdict
from tests.facts import ANSWERED, dataset_objects, loader, loader_plan, start_methods

H5 = Handle(path="dataset.h5", type="h5py._hl.files.File", kind="h5py", file="data/a.h5")
X = Handle(path="dataset.x", type="h5py._hl.dataset.Dataset", kind="h5py", file="data/a.h5")
ENV = Handle(path="dataset.env", type="Environment", kind="lmdb", file=None)
FILE = Handle(path="dataset.file", type="_io.BufferedReader", kind="file", file="/data/a.bin", descriptor=5)
NUMBER = Handle(path="dataset.fd", type="int", kind="file", file="/data/a.bin", descriptor=5)
SHARDS = tuple(
    Handle(path=f"dataset.shards[{index}]", type="_io.FileIO", kind="file", file=f"/data/{index}.bin", descriptor=10 + index)
    for index in range(3)
)


def offsets(*moved: int, read: int = 16, **fields: Any) -> FileOffsets:
    """Descriptors 5 and 10 to 12 are watched; these are moved."""
    files = tuple(Moved(number, "/data/a.bin" if number == 5 else f"/data/{number - 10}.bin") for number in moved)
    return FileOffsets(**{"ended": ANSWERED, "watched": (5, 10, 11, 12), "moved": files, "samples_read": read, **fields})


def judged(handles: Any = (), opened: tuple[str, ...] = (), looked: FileOffsets | None = None, **plan: Any) -> Verdict:
    plan = {"start_method": "fork", "num_workers": 2, **plan}
    objects = dataset_objects(handles=handles, offsets=looked or offsets(read=0, watched=()))
    return CHECK.judge(loader(opened=opened), objects, start_methods(), loader_plan(**plan))


@pytest.mark.parametrize(
    ("handles", "opened", "subjects"),
    [
        ((), (), []),
        ((H5,), ("/data/a.h5",), ["dataset.h5"]),  # one and the same, though the one path is relative
        ((X, H5), ("/data/a.h5",), ["dataset.h5"]),  # closing the file closes what is of it
        ((), ("/data/a.h5",), ["/data/a.h5"]),  # held by a module, say
        ((), ("/var/log/train.log", "/data/images.bin"), []),  # no sample read from them
        ((ENV,), ("/data/data.mdb", "/data/lock.mdb"), ["dataset.env"]),
    ],
)
def test_libraries_under_fork(handles: Any, opened: tuple[str, ...], subjects: list[str]) -> None:
    verdict = judged(handles, opened)

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [("warn", subject) for subject in subjects]


@pytest.mark.parametrize(
    ("handles", "moved", "subjects"),
    [
        ((FILE,), (5,), ["dataset.file"]),
        ((FILE,), (), []),  # mapped, or kept so that it is not removed
        ((NUMBER,), (5,), ["dataset.fd"]),  # os.read
        ((NUMBER,), (), []),  # os.pread
        ((NUMBER, FILE), (5,), ["dataset.file"]),  # a number that happens to be the descriptor of another
        ((), (5,), ["/data/a.bin"]),  # held by a module
        (SHARDS, (10, 12), ["dataset.shards[0]"]),  # one list, one change
        ((*SHARDS, FILE), (5, 11), ["dataset.shards[1]", "dataset.file"]),
        ((H5,), (5,), ["dataset.h5", "/data/a.bin"]),
    ],
)
def test_of_files_the_offset_tells(handles: Any, moved: tuple[int, ...], subjects: list[str]) -> None:
    verdict = judged(handles, looked=offsets(*moved))

    assert [(finding.level, finding.subject) for finding in verdict.findings] == [("warn", subject) for subject in subjects]


@pytest.mark.parametrize(
    ("handles", "looked", "status"),
    [
        ((FILE,), offsets(read=0, trouble="KeyError: 0"), "skip"),  # dataset-sample fails
        ((FILE,), offsets(5, read=0, trouble="KeyError: 0"), "warn"),  # enough is known
        ((FILE,), offsets(read=1, trouble="KeyError: 0"), "pass"),
        ((FILE,), FileOffsets(ended=Ended(how="hung")), "skip"),
        ((H5, FILE), FileOffsets(ended=Ended(how="hung")), "warn"),  # enough is known
        ((), FileOffsets(ended=Ended(how="hung")), "pass"),  # nothing is open
        ((FILE,), offsets(read=0, watched=()), "pass"),  # it is open for appending
        ((H5,), offsets(read=0, watched=(), trouble="KeyError: 0"), "warn"),
    ],
)
def test_where_samples_could_not_be_read(handles: Any, looked: FileOffsets, status: str) -> None:
    assert judged(handles, looked=looked).status == status


def test_without_workers_nothing_is_shared() -> None:
    assert judged((H5,), num_workers=0).status == "pass"


@pytest.mark.parametrize(
    ("handles", "moved", "levels"),
    [
        ((H5, ENV, FILE), (5,), []),  # that they do not travel is told by dataset-picklable
        ((NUMBER,), (5,), ["fail"]),  # it travels, and stands for nothing there
        ((NUMBER,), (), []),
    ],
)
def test_by_pickle_no_handle_gets_to_a_worker(handles: Any, moved: tuple[int, ...], levels: list[str]) -> None:
    verdict = judged(handles, looked=offsets(*moved), start_method="spawn")

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("handle", "line"),
    [
        (H5, 'self.h5 = h5py.File(self.path, "r")'),
        (X, 'self.x = h5py.File(self.path, "r")["..."]'),
        (ENV, "self.env = lmdb.open(self.path, readonly=True, lock=False, readahead=False)"),
        (NUMBER, "self.fd = os.open(self.path, os.O_RDONLY)"),
        (Handle(path="dataset.z", type="zipfile.ZipFile", kind="file", file="a.zip", descriptor=5), "zipfile.ZipFile(self.path)"),
        (
            Handle(path="dataset.steps[0]", type="_io.FileIO", kind="file", file="a", descriptor=5),
            'self.file = open(self.path, "rb")',
        ),
        (Handle(path="collate_fn.<closure>.h", type="_io.FileIO", kind="file", file=None, descriptor=5), None),
    ],
)
def test_lines_to_copy_are_for_attributes_of_the_dataset(handle: Handle, line: str | None) -> None:
    (finding,) = judged((handle,), looked=offsets(*[5] if handle.descriptor else [])).findings
    commands = finding.fixes[-1].commands

    assert not commands if line is None else commands[-1].strip().endswith(line)


def test_a_walk_that_did_not_end_is_an_error() -> None:
    hung = dataset_objects(ended=Ended(how="hung"))

    assert CHECK.judge(loader(), hung, start_methods(), loader_plan()).status == "error"
