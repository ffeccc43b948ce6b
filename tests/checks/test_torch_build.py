"""What the image promises, where it promises something."""

from typing import Any

import pytest

from dl_doctor.checks.python.torch_build import CHECK
from dl_doctor.facts import Environment
from tests.facts import not_imported, target, torch_files, torch_import


@pytest.mark.parametrize(
    ("version", "variables", "levels"),
    [
        ("2.6.0+cu124", {}, []),
        ("2.6.0+cu124", {"PYTORCH_VERSION": "2.6.0"}, []),
        (
            "2.6.0a0+ecf3bae40a.nv25.01",
            {"PYTORCH_VERSION": "2.6.0a0+ecf3bae", "CUDA_VERSION": "12.4.0.038"},
            [],
        ),  # NVIDIA
        ("2.7.1+cu126", {"PYTORCH_VERSION": "2.6.0a0+ecf3bae"}, ["warn"]),
        ("2.6.0+cu124", {"PYTORCH_VERSION": "nightly"}, []),  # no version
        ("2.6.0+cu124", {"CUDA_VERSION": "12.4.1"}, []),
        ("2.6.0+cu124", {"CUDA_VERSION": "12.1.0"}, ["note"]),  # a wheel in an image of nvidia/cuda is fine
        ("2.6.0+cu124", {"CUDA_VERSION": "default"}, []),
    ],
)
def test_promises(version: str, variables: dict[str, str], levels: list[str]) -> None:
    verdict = CHECK.judge(torch_import(version=version), torch_files(version), target(), Environment(variables))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "pass"),
        ({"parallel_info": "ATen parallel backend: native thread pool\n"}, "warn"),
        ({"parallel_info": "ATen parallel backend: native thread pool\n", "affinity_before": None}, "pass"),  # macOS
        ({"parallel_info": None}, "pass"),
        ({"cuda": None, "hip": "6.2", "version": "2.6.0+rocm6.2"}, "pass"),
    ],
)
def test_openmp(fields: dict[str, Any], status: str) -> None:
    assert CHECK.judge(torch_import(**fields), torch_files(), target(), Environment({})).status == status


def test_without_an_import_or_without_pytorch() -> None:
    assert CHECK.judge(not_imported(how="hung"), torch_files(), target(), Environment({})).status == "skip"
    assert CHECK.judge(torch_import(), torch_files(None), target(), Environment({})).status == "skip"
