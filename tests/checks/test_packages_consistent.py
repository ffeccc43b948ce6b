"""What fits this torch, told by metadata first and by PyTorch's tables else."""

from typing import Any

import pytest

from dl_doctor.checks.python.packages_consistent import CHECK, TORCHAUDIO, TORCHVISION
from dl_doctor.facts.torch_files import Companion, Pin
from dl_doctor.model import Verdict
from tests.facts import target, torch_files

NVIDIA_IMAGE = "2.6.0a0+ecf3bae40a.nv25.01"


def judged(version: str = "2.6.0+cu124", **fields: Any) -> Verdict:
    return CHECK.judge(torch_files(version, **fields), target())


@pytest.mark.parametrize(
    ("torch", "name", "version", "wanted", "status"),
    [
        ("2.6.0+cu124", "torchvision", "0.21.0+cu124", "2.6.0", "pass"),
        ("2.6.0+cu124", "torchvision", "0.20.1", "2.5.1", "warn"),
        ("2.6.0+cu124", "torchvision", "0.99.0", "2.6.0", "pass"),  # its own word goes before the table
        ("2.6.0", "torchvision", "0.21.0", None, "pass"),  # as conda's metadata has it
        ("2.6.0", "torchvision", "0.20.1", None, "warn"),
        ("1.13.1", "torchvision", "0.14.1", None, "pass"),
        ("2.99.0", "torchvision", "0.1.0", None, "pass"),  # newer than the table
        (NVIDIA_IMAGE, "torchvision", "0.20.0a0", None, "pass"),  # built together, with versions of its own
        ("2.7.0.dev20250310+cu126", "torchvision", "0.22.0.dev20250310+cu126", "2.7.0.dev20250310", "pass"),
        ("2.6.0+cu124", "torchvision", "0.21.0+cpu", "2.6.0", "warn"),
        ("2.6.0", "torchvision", "0.21.0+cpu", "2.6.0", "pass"),  # PyPI's builds carry no tag
        ("2.6.0+computecanada", "torchvision", "0.21.0+cpu", None, "pass"),  # a site's own tag
        ("2.6.0", "torchaudio", "2.6.0", None, "pass"),
        ("2.6.0", "torchaudio", "2.5.1", "2.5.1", "warn"),
        ("2.13.0", "torchaudio", "2.11.0", None, "pass"),  # the stable interface
        ("2.10.0", "torchaudio", "2.11.0", None, "warn"),
        ("1.13.1", "torchaudio", "0.13.1", None, "pass"),
    ],
)
def test_companions(torch: str, name: str, version: str, wanted: str | None, status: str) -> None:
    verdict = judged(torch, companions=(Companion(name=name, version=version, wanted_torch=wanted),), packages={})

    assert verdict.status == status


@pytest.mark.parametrize(
    ("torch", "numpy", "status"),
    [
        ("2.2.2+cu121", "2.0.0", "fail"),
        ("2.2.2+cu121", "1.26.4", "pass"),
        ("2.3.0+cu121", "2.0.0", "pass"),
        ("2.6.0+cu124", "1.26.4", "pass"),  # built for 2, works with 1
        ("2.2.0a0+81ea7a4.nv23.12", "2.0.0", "warn"),  # somebody's build may be for it
        ("1.13.1", "3.0.0", "fail"),
    ],
)
def test_numpy(torch: str, numpy: str, status: str) -> None:
    assert judged(torch, packages={"numpy": numpy}).status == status


@pytest.mark.parametrize(
    ("installed", "status", "words"),
    [
        ("9.1.0.70", "pass", ""),
        ("9.1.0.70.0", "pass", ""),
        ("9.5.1.17", "warn", "nvidia-cudnn-cu12 9.5.1.17 instead of 9.1.0.70"),
        (None, "warn", "nvidia-cudnn-cu12 9.1.0.70 is missing"),
    ],
)
def test_pins(installed: str | None, status: str, words: str) -> None:
    verdict = judged(pins=(Pin(name="nvidia-cudnn-cu12", wanted="9.1.0.70", installed=installed),))

    assert verdict.status == status
    assert all(words in finding.summary for finding in verdict.findings)


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"nvidia-nccl-cu13": "2.29.7"}, "warn"),  # pytorch/pytorch#186591
        ({"nvidia-cudnn-cu13": "9.1.0.70"}, "pass"),  # not one of torch's
        ({}, "pass"),
    ],
)
def test_packages_that_overwrite_each_other(other: dict[str, str], status: str) -> None:
    pin = Pin(name="nvidia-nccl-cu12", wanted="2.29.3", installed="2.29.3")
    verdict = judged(pins=(pin,), packages={"nvidia-nccl-cu12": "2.29.3", **other})

    assert verdict.status == status
    for finding in verdict.findings:
        assert finding.fixes[0].commands[0] == "/venv/bin/python -m pip uninstall -y nvidia-nccl-cu13"


def test_cudnn_of_two_major_versions_lies_side_by_side() -> None:
    """libcudnn.so.8 and libcudnn.so.9 are two files."""
    pin = Pin(name="nvidia-cudnn-cu12", wanted="9.1.0.70", installed="9.1.0.70")
    packages = {"nvidia-cudnn-cu12": "9.1.0.70", "nvidia-cudnn-cu11": "8.9.6.50"}

    assert judged(pins=(pin,), packages=packages).status == "pass"


@pytest.mark.parametrize(
    ("version", "metadata", "status"),
    [("2.6.0+cu124", "2.6.0", "pass"), ("2.6.0", None, "pass"), ("2.6.0+cu124", "2.5.1+cu124", "warn")],
)
def test_files_and_metadata(version: str, metadata: str | None, status: str) -> None:
    assert judged(version, metadata_version=metadata).status == status


def test_the_command_names_the_index_of_this_build() -> None:
    companion = Companion(name="torchvision", version="0.20.1", wanted_torch="2.5.1")
    (finding,) = judged(companions=(companion,)).findings

    assert finding.fixes[0].commands == (
        "/venv/bin/python -m pip install torch==2.6.0 torchvision --index-url https://download.pytorch.org/whl/cu124",
    )


def test_the_tables_are_plausible() -> None:
    for table in (TORCHVISION, TORCHAUDIO):
        assert list(table) == sorted(table)
        assert list(table.values()) == sorted(table.values())
        assert len(set(table.values())) == len(table)


def test_what_is_no_pytorch_is_not_judged() -> None:
    assert CHECK.judge(torch_files(None), target()).status == "skip"
