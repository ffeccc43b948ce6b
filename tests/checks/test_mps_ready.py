"""Answers as Macs give them, written down: none was at hand."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.mps_ready import CHECK
from dl_doctor.facts.apple_gpu import PRODUCT
from dl_doctor.model import Ended
from tests.facts import apple_gpu


@pytest.mark.parametrize(
    ("fields", "levels", "words"),
    [
        ({}, [], ""),
        ({"machine": "x86_64", "translated": True, "built": True, "available": False}, ["fail"], "Rosetta"),
        ({"machine": "x86_64", "translated": True}, ["fail"], "Rosetta"),  # whatever torch says
        ({"built": False, "available": False}, ["fail"], "built without MPS"),
        ({"available": False}, ["fail"], "not available"),
        ({"available": False, "macos": "12.2.1"}, ["fail"], "macOS 12.2.1 is older than 12.3"),
        ({"available": False, "macos": None}, ["fail"], "not available"),
        ({"available": False, "virtual": True}, ["note"], "virtual machine"),  # most of continuous integration
        ({"virtual": True}, [], ""),
        ({"virtual": True, "raised": "RuntimeError: no Metal", "agrees": None}, ["note"], "no Metal"),
        ({"raised": "RuntimeError: x", "agrees": None}, ["fail"], "RuntimeError: x"),
        ({"agrees": False}, ["fail"], "another than the CPU's"),
    ],
)
def test_answers(fields: dict[str, Any], levels: list[str], words: str) -> None:
    verdict = CHECK.judge(apple_gpu(**fields))

    assert [finding.level for finding in verdict.findings] == levels
    assert all(words in finding.summary for finding in verdict.findings)


def test_intels_processor_is_skipped() -> None:
    assert CHECK.judge(apple_gpu(machine="x86_64", translated=None, available=False)).status == "skip"


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(how="killed", signal="SIGABRT", step=PRODUCT), "fail"),
        (Ended(how="hung", step=PRODUCT), "fail"),
        (Ended(how="hung", step="import torch"), "error"),  # torch-imports tells of that
    ],
)
def test_a_process_that_ends(ended: Ended, status: str) -> None:
    assert CHECK.judge(apple_gpu(ended=ended, system=None, machine=None)).status == status
