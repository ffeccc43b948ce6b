"""What lies on the disk is told without importing it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import Target, TorchFiles, torch_files
from dl_doctor.facts.torch_files import Pin, parse_assignments, parse_glibc, parse_pins, release_of
from dl_doctor.model import Unavailable
from tests.collected import collected

LINUX = {"platform_system": "Linux", "platform_machine": "x86_64", "sys_platform": "linux"}


def found(python: str = sys.executable) -> TorchFiles | Unavailable:
    told: TorchFiles | Unavailable = collected(torch_files.collect, Target(path=python, why="a test", has_torch=False))
    return told


def package(folder: Path, name: str, version: str, *requires: str) -> None:
    """The metadata of an installed distribution."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with a torch that must not be imported."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("import os\nos._exit(9)\n")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.6.0+cu124'\ncuda: str = '12.4'\nhip = None\n")
    return tmp_path


def test_a_whole_installation(folder: Path) -> None:
    (folder / "torch" / "lib" / "libtorch_cuda.so").touch()
    (folder / "torch" / "lib" / "libc10.so").write_bytes(b"\x7fELF...\0libc.so.6\0GLIBC_2.14\0")
    requires = ("nvidia-cudnn-cu12==9.1.0.70; platform_system == 'Linux'", "nvidia-nccl-cu12==2.21.5", "filelock")
    package(folder, "torch", "2.6.0+cu124", *requires)
    package(folder, "nvidia-cudnn-cu12", "9.5.1.17")
    package(folder, "torchvision", "0.20.1", "numpy", "torch==2.5.1")
    package(folder, "torchaudio", "2.6.0", "torch")

    files = found()

    assert isinstance(files, TorchFiles)
    assert (files.version, files.cuda, files.hip, files.local_tag, files.release) == (
        "2.6.0+cu124",
        "12.4",
        None,
        "cu124",
        (2, 6),
    )
    assert (files.folder, files.metadata_version) == (str((folder / "torch").resolve()), "2.6.0+cu124")
    assert (files.links_glibc, files.libraries) == (True, ("libtorch_cuda.so",))
    assert [(pin.name, pin.wanted, pin.installed) for pin in files.pins] == [
        ("nvidia-cudnn-cu12", "9.1.0.70", "9.5.1.17"),
        ("nvidia-nccl-cu12", "2.21.5", None),
    ]
    assert [(other.name, other.version, other.wanted_torch) for other in files.companions] == [
        ("torchvision", "0.20.1", "2.5.1"),
        ("torchaudio", "2.6.0", None),
    ]


def test_one_without_metadata_is_there_too(folder: Path) -> None:
    """As `python setup.py develop`, or a folder that was copied."""
    files = found()

    assert isinstance(files, TorchFiles)
    assert (files.version, files.metadata_version, files.links_glibc, files.pins) == ("2.6.0+cu124", None, None, ())


def test_a_file_of_that_name_is_not_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("light = True\n")
    (tmp_path / "version.py").write_text("__version__ = '1'\n")
    monkeypatch.chdir(tmp_path)

    files = found()

    assert isinstance(files, TorchFiles)
    assert (files.origin, files.version) == (str(tmp_path / "torch.py"), None)


def test_what_an_uninstalled_one_left_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    files = found()

    assert isinstance(files, Unavailable)
    assert files.kind == "absent"


def test_an_interpreter_that_does_not_start(tmp_path: Path) -> None:
    files = found(str(tmp_path / "python"))

    assert isinstance(files, Unavailable)
    assert files.kind == "failed"


def test_the_real_one(torch_python: str) -> None:
    files = found(torch_python)

    assert isinstance(files, TorchFiles)
    assert files.version == files.metadata_version
    assert (files.cuda, files.hip, files.local_tag) == (None, None, "cpu")
    assert (files.links_glibc, files.glibc_wanted) == (True, "2.28")
    assert "libtorch_cpu.so" in files.libraries
    assert "numpy" in files.packages


@pytest.mark.parametrize(
    ("line", "pins"),
    [
        ('nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux" and platform_machine == "x86_64"', [("9.1.0.70", "9.1.0.70")]),
        ("nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == 'Linux'", [("9.1.0.70", "9.1.0.70")]),  # as wheels of 2023 have it
        ("nvidia-cudnn-cu12[extra]==9.1.0.70", [("9.1.0.70", "9.1.0.70")]),
        ("nvidia-cudnn-cu12==9.1.0.70; platform_machine == 'aarch64'", []),
        ("nvidia-cudnn-cu12==9.1.0.70; extra == 'all'", []),
        ("nvidia-cudnn-cu12==9.1.0.70; python_version < '3.13'", []),  # not understood
        ("nvidia-cudnn-cu12<10,>=9", []),
        ("nvidia-cudnn-cu12==9.*", []),
        ("nvidia-cudnn-cu12", []),
        ("=== nonsense", []),
    ],
)
def test_pins(line: str, pins: list[tuple[str, str]]) -> None:
    parsed = parse_pins([line], LINUX, {"nvidia-cudnn-cu12": "9.1.0.70"})

    assert parsed == [Pin(name="nvidia-cudnn-cu12", wanted=wanted, installed=there) for wanted, there in pins]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from typing import Optional\ncuda: Optional[str] = None\n__version__ = '2.13.0+cpu'\n", {"__version__": "2.13.0+cpu"}),
        ("__version__ = 'a' + 'b'\n", {}),
        ("__version__: str\n", {}),
        ("not python (", {}),
        ("\0", {}),
        ("", {}),
    ],
)
def test_version_files(text: str, told: dict[str, str]) -> None:
    assert parse_assignments(text) == told


@pytest.mark.parametrize(
    ("wheel", "glibc"),
    [
        ("Tag: cp311-cp311-manylinux_2_28_x86_64\n", "2.28"),
        ("Tag: cp39-cp39-manylinux_2_17_x86_64\nTag: cp39-cp39-manylinux_2_5_x86_64\n", "2.5"),
        ("Tag: cp311-cp311-linux_x86_64\n", None),
        ("", None),
    ],
)
def test_wheel_tags(wheel: str, glibc: str | None) -> None:
    assert parse_glibc(wheel) == glibc


@pytest.mark.parametrize(
    ("version", "release"),
    [("2.13.0+cpu", (2, 13)), ("2.6.0a0+ecf3bae.nv25.01", (2, 6)), ("nonsense", None), (None, None)],
)
def test_releases(version: Any, release: Any) -> None:
    assert release_of(version) == release
