"""Which paths are this job's, and what a real look at them tells."""

import os
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts.data_paths import DataPath, collect, paths
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from tests.collected import collected


@pytest.mark.parametrize(
    ("data", "environment", "found"),
    [
        ((), {}, [("working", "/w", "the working directory"), ("temporary", "/tmp", "the usual folder")]),
        (("a", "/b"), {}, [("data", "/w/a", "--data"), ("data", "/b", "--data")]),
        (("a", "/w/a"), {}, [("data", "/w/a", "--data")]),  # the same one twice
        ((), {"TMPDIR": "", "TEMP": "/t"}, [("temporary", "/t", "TEMP")]),  # empty is unset
        ((), {"HOME": "/home/me"}, [("cache", "/home/me/.cache", "HOME")]),
        ((), {"HOME": "/home/me", "XDG_CACHE_HOME": "/c"}, [("cache", "/c", "XDG_CACHE_HOME")]),
        ((), {"HOME": "/home/me", "HF_HOME": "~/hf"}, [("cache", "/home/me/hf", "HF_HOME")]),
        ((), {"HF_HOME": "~/hf"}, [("cache", "/w/~/hf", "HF_HOME")]),  # without a home it stays as it is
        ((), {"SLURM_TMPDIR": "/local/7"}, [("scratch", "/local/7", "SLURM_TMPDIR")]),
    ],
)
def test_which_paths_are_looked_at(data: tuple[str, ...], environment: dict[str, str], found: list[Any]) -> None:
    told = paths(data, (), "/w", environment)

    assert [path for path in found if path not in told] == []
    assert len(told) == len({(role, path) for role, path, _ in told})
    assert [path for path in told if path[0] == "data"] == [path for path in found if path[0] == "data"]


def seen(monkeypatch: pytest.MonkeyPatch, *data: Path, **variables: str) -> dict[str, DataPath]:
    """What is found of these paths and of those that the variables name."""
    for name in ("TMPDIR", "TEMP", "TMP", "HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "SLURM_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = collected(collect, Settings(data=tuple(map(str, data))), Unavailable.not_asked("no site"))
    return {entry.said_by if entry.role != "data" else entry.path: entry for entry in found.entries}


def test_a_look_at_real_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, data, cache = tmp_path / "work", tmp_path / "data", tmp_path / "cache"
    for folder in (work, data / "class"):
        folder.mkdir(parents=True)
    for number in range(30):
        (data / "class" / f"{number}.jpg").write_bytes(b"x" * 1000)
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(work)

    found = seen(monkeypatch, data, tmp_path / "link", tmp_path / "gone", HF_HOME=str(cache / "hf"))

    here, linked, gone = (found[str(tmp_path / name)] for name in ("data", "link", "gone"))
    assert {entry.ended.how for entry in found.values()} == {"answered"}
    assert (here.files_seen, here.mean_file_bytes, here.written) == (30, 1000, False)
    assert (linked.real_path, linked.files_seen) == (str(data), 30)
    assert (gone.exists, gone.real_path, gone.refusal) == (False, str(tmp_path), None)
    assert found["the working directory"].written
    assert (found["HF_HOME"].exists, found["HF_HOME"].written) == (False, True)
    assert here.total_bytes == os.statvfs(data).f_blocks * os.statvfs(data).f_frsize
    assert list(work.iterdir()) == []
    assert not cache.exists()  # it was asked whether it could be made


def test_one_file_is_data_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.h5").write_bytes(b"x" * 5000)

    found = seen(monkeypatch, tmp_path / "train.h5", tmp_path / "train.h5" / "no-folder")

    assert (found[str(tmp_path / "train.h5")].files_seen, found[str(tmp_path / "train.h5")].mean_file_bytes) == (1, 5000)
    assert found[str(tmp_path / "train.h5" / "no-folder")].exists is False


def test_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report cannot carry the bytes, so the path is not found, and all else goes on."""
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(strange).mkdir()
    monkeypatch.chdir(strange)

    assert len(seen(monkeypatch)) >= 2
