"""A build for CPUs is wrong only where GPUs are for this job."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.torch_cuda_build import CHECK
from dl_doctor.model import Unavailable
from tests.facts import gpu_grant, job_gpus, target, torch_files

CPU: dict[str, Any] = {"version": "2.6.0+cpu", "cuda": None, "libraries": ("libtorch_cpu.so", "libtorch_python.so")}
NODES = ("nvidia0", "nvidiactl")


@pytest.mark.parametrize(
    ("torch", "grant", "expected", "levels"),
    [
        (CPU, {}, True, []),
        (CPU, {"promised": 2}, True, ["fail"]),
        (CPU, {"nodes": NODES}, True, ["fail"]),
        (CPU, {"nodes": NODES}, False, []),  # hidden on purpose, or none of them opens
        (CPU, {"nodes": NODES, "promised": 0}, False, []),  # --expect-gpus 0
        (CPU, {"nodes": ("kfd",)}, True, ["note"]),  # a processor's own graphics has it too
        (CPU, {"nodes": ("dxg",)}, True, ["note"]),  # every WSL has it
        ({}, {"nodes": NODES}, True, []),
        ({}, {}, True, []),
        ({"cuda": None, "hip": "6.2", "libraries": ("libtorch_hip.so",)}, {"nodes": ("kfd",)}, True, []),
        ({"cuda": None}, {"nodes": NODES}, True, []),  # libtorch_cuda.so is there: somebody's own version file
        ({**CPU, "conda": ("pytorch-2.6.0-cpu_generic_py311_0",)}, {"promised": 1}, True, ["fail"]),
        ({"version": None}, {"promised": 1}, True, []),  # not PyTorch at all
    ],
)
def test_builds(torch: dict[str, Any], grant: dict[str, Any], *, expected: bool, levels: list[str]) -> None:
    verdict = CHECK.judge(torch_files(**torch), target(), gpu_grant(**grant), job_gpus(expected=expected))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("conda", "command"),
    [
        ((), "/venv/bin/python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126"),
        (("pytorch-2.6.0-cpu_generic_py311_0",), "conda install 'pytorch=*=*cuda*'"),
    ],
)
def test_the_fix_is_for_who_installed_it(conda: tuple[str, ...], command: str) -> None:
    (finding,) = CHECK.judge(torch_files(**CPU, conda=conda), target(), gpu_grant(promised=1), job_gpus()).findings

    assert finding.fixes[0].commands == (command,)


def test_without_a_look_at_the_gpus_nothing_is_said() -> None:
    unseen = Unavailable.failed("/dev")

    assert CHECK.judge(torch_files(**CPU), target(), unseen, unseen).status == "pass"
