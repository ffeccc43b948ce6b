"""Data that is not there: no such path, an empty folder, a pointer, a file that may not be read. Real folders."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dl_doctor.checks.dataset.data_present import CHECK
from dl_doctor.facts import DataPaths, data_paths
from dl_doctor.model import Ended, Verdict
from dl_doctor.settings import Settings
from tests.collected import collected
from tests.facts import UNKNOWN, data_path

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
XET = "# xet version 0\nfilesize = 12345\nhash = '5a'\n"


def looked_at(*paths: Path) -> Verdict:
    return CHECK.judge(collected(data_paths.collect, Settings(data=tuple(map(str, paths))), UNKNOWN))


def nothing(folder: Path) -> None:
    folder.rmdir()


def files(*names: str, text: str = "data") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    return write


def link_outside(folder: Path) -> None:
    """As datasets are laid out that were downloaded into a cache."""
    files("0.png")(folder.with_name("cache"))
    (folder / "train").symlink_to(folder.with_name("cache"))


def pointers(folder: Path) -> None:
    files("README.md", text="About it. " * 100)(folder)
    files("train/0.parquet", "train/1.parquet", text=LFS)(folder)


@pytest.mark.parametrize(
    ("make", "status", "said"),
    [
        (files("0.png", "a/1.png"), "pass", ""),
        (nothing, "fail", "does not exist"),
        (files(), "fail", "is empty"),
        (files("a/b/.keep", text=""), "fail", "is empty"),  # folders with nothing in them
        (link_outside, "pass", ""),
        (pointers, "fail", ".parquet is a pointer"),
        (files("model.bin", text=XET), "fail", "model.bin is a pointer"),
        (files("notes.txt", text="see version https://git-lfs.github.com/spec/v1"), "pass", ""),  # it speaks of one
    ],
)
def test_a_folder(make: Callable[[Path], None], status: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    make(folder)
    verdict = looked_at(folder)

    assert verdict.status == status
    assert said in "".join(finding.summary for finding in verdict.findings)


@pytest.mark.parametrize(("text", "status"), [("data", "pass"), ("", "fail"), (LFS, "fail")])
def test_a_file(text: str, status: str, tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_text(text)

    assert looked_at(tmp_path / "train.tar").status == status


def test_a_device_is_not_empty() -> None:
    assert looked_at(Path(os.devnull)).status == "pass"


def test_each_path_is_judged(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    files("0.png")(tmp_path / "train")

    assert [finding.subject for finding in looked_at(tmp_path / "train", tmp_path / "val").findings] == [str(tmp_path / "val")]


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ((), "skip"),
        ((data_path("working"),), "skip"),
        ((data_path("data", ended=Ended(how="hung"), exists=None),), "error"),
        ((data_path("data", ended=Ended(how="hung"), exists=None), data_path("data", exists=False)), "fail"),
    ],
)
def test_what_was_not_seen(entries: tuple[data_paths.DataPath, ...], status: str) -> None:
    assert CHECK.judge(DataPaths(entries)).status == status
