"""A build for CPUs is wrong only where GPUs are for this job."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.torch_cuda_build import CHECK
from dl_doctor.facts import Environment
from dl_doctor.model import Unavailable
from tests.facts import gpu_grant, target, torch_files

CPU: dict[str, Any] = {"version": "2.6.0+cpu", "cuda": None, "libraries": ("libtorch_cpu.so", "libtorch_python.so")}
NODES = ("nvidia0", "nvidiactl")


@pytest.mark.parametrize(
    ("torch", "grant", "variables", "levels"),
    [
        (CPU, {}, {}, []),
        (CPU, {"promised": 2}, {}, ["fail"]),
        (CPU, {"nodes": NODES}, {}, ["fail"]),
        (CPU, {"nodes": NODES}, {"CUDA_VISIBLE_DEVICES": "0"}, ["fail"]),
        (CPU, {"nodes": NODES}, {"CUDA_VISIBLE_DEVICES": ""}, []),  # hidden on purpose
        (CPU, {"nodes": NODES}, {"CUDA_VISIBLE_DEVICES": "-1"}, []),
        (CPU, {"nodes": NODES, "promised": 0}, {}, []),  # --expect-gpus 0
        (CPU, {"nodes": ("kfd",)}, {}, ["note"]),  # a processor's own graphics has it too
        (CPU, {"nodes": ("dxg",)}, {}, ["note"]),  # every WSL has it
        ({}, {"nodes": NODES}, {}, []),
        ({}, {}, {}, []),
        ({"cuda": None, "hip": "6.2", "libraries": ("libtorch_hip.so",)}, {"nodes": ("kfd",)}, {}, []),
        ({"cuda": None}, {"nodes": NODES}, {}, []),  # libtorch_cuda.so is there: somebody's own version file
        ({**CPU, "conda": ("pytorch-2.6.0-cpu_generic_py311_0",)}, {"promised": 1}, {}, ["fail"]),
        ({"version": None}, {"promised": 1}, {}, []),  # not PyTorch at all
    ],
)
def test_builds(torch: dict[str, Any], grant: dict[str, Any], variables: dict[str, str], levels: list[str]) -> None:
    verdict = CHECK.judge(torch_files(**torch), target(), gpu_grant(**grant), Environment(variables))

    assert [finding.level for finding in verdict.findings] == levels


@pytest.mark.parametrize(
    ("conda", "command"),
    [
        ((), "/venv/bin/python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126"),
        (("pytorch-2.6.0-cpu_generic_py311_0",), "conda install 'pytorch=*=*cuda*'"),
    ],
)
def test_the_fix_is_for_who_installed_it(conda: tuple[str, ...], command: str) -> None:
    (finding,) = CHECK.judge(torch_files(**CPU, conda=conda), target(), gpu_grant(promised=1), Environment({})).findings

    assert finding.fixes[0].commands == (command,)


def test_without_a_look_at_the_gpus_nothing_is_said() -> None:
    unseen = Unavailable.failed("/dev")

    assert CHECK.judge(torch_files(**CPU), target(), unseen, unseen).status == "pass"
