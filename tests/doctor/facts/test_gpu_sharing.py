"""The daemon of MPS is found without a word to it; and what catches CUDA's calls is told by its files and variables."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import gpu_sharing
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_sharing import GpuSharing, limited, percentage, preloaded
from dl_doctor.model import Unavailable
from dl_doctor.probes import mps_daemon
from tests import facts
from tests.collected import collected
from tests.recorded import RecordedSystem


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's name has 107 characters at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def daemon(path: Path) -> str:
    told: str = mps_daemon.probe({"path": str(path)}, lambda _: None)["daemon"]
    return told


def test_a_daemon_that_listens_hears_nothing(short_folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(short_folder / "control"))
        listening.listen()
        listening.setblocking(False)

        assert daemon(short_folder / "control") == "listens"
        with pytest.raises(BlockingIOError):
            listening.accept()

    assert daemon(short_folder / "control") == "refuses"  # the socket outlives who made it


@pytest.mark.parametrize("path", ["nowhere/control", "/dev/null/control"])
def test_no_daemon(tmp_path: Path, path: str) -> None:
    assert daemon(tmp_path / path) == "absent"


def test_what_is_no_socket(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "control")

    assert daemon(tmp_path / "control") == "unknown"


def asked(folder: Path, preload: str = "", **variables: str) -> Any:
    system = RecordedSystem({"files": {"/etc/ld.so.preload": preload} if preload else {}}, folder)
    return collected(gpu_sharing.collect, system, Environment(variables), facts.nvidia_driver(), facts.gpu_grant())


@pytest.mark.parametrize(
    ("text", "told"), [("30", 30.0), ("12.5", 12.5), ("100", 100.0), ("0", None), ("130", None), ("half", None), (None, None)]
)
def test_percentages(text: str | None, told: float | None) -> None:
    assert percentage(text) == told


@pytest.mark.parametrize(
    ("variable", "file", "told"),
    [
        ("", "/usr/local/vgpu/libvgpu.so\n", ["libvgpu.so is preloaded by /etc/ld.so.preload (HAMi)"]),
        ("/opt/libnvshare.so:/usr/lib/libjemalloc.so.2", "", ["libnvshare.so is preloaded by LD_PRELOAD (nvshare)"]),
        ("/usr/lib/libjemalloc.so.2", "", []),
    ],
)
def test_libraries_that_catch_calls(variable: str, file: str, told: list[str]) -> None:
    assert preloaded(Environment({"LD_PRELOAD": variable}), file) == told


def test_limits_of_hami() -> None:
    variables = {"CUDA_DEVICE_MEMORY_LIMIT_0": "3000m", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_DEVICE_SM_LIMIT": "30"}

    assert limited(Environment(variables)) == ["CUDA_DEVICE_MEMORY_LIMIT_0=3000m (HAMi)", "CUDA_DEVICE_SM_LIMIT=30 (HAMi)"]


@pytest.mark.parametrize(
    ("sharing", "reasons"),
    [
        (facts.gpu_sharing(), 0),
        (facts.gpu_sharing("listens"), 1),
        (facts.gpu_sharing("listens", thread_percentage=30.0), 2),
        (facts.gpu_sharing("listens", thread_percentage=100.0), 1),
        (facts.gpu_sharing("absent", said=True, thread_percentage=30.0), 0),  # nobody who would hold the job to it
        (facts.gpu_sharing(shims=("CUDA_DEVICE_SM_LIMIT=30 (HAMi)",)), 1),
    ],
)
def test_when_rates_tell_nothing(sharing: GpuSharing, reasons: int) -> None:
    assert len(sharing.without_verdict) == reasons


def test_a_job_with_everything(tmp_path: Path) -> None:
    told = asked(tmp_path, "/vgpu/libvgpu.so", CUDA_MPS_PIPE_DIRECTORY=str(tmp_path), CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25")

    assert told == GpuSharing(
        mps=gpu_sharing.Mps(folder=str(tmp_path), said=True, daemon="absent"),
        thread_percentage=25.0,
        shims=("libvgpu.so is preloaded by /etc/ld.so.preload (HAMi)",),
    )


def test_a_machine_without_gpus_pays_nothing(tmp_path: Path) -> None:
    system = RecordedSystem({"files": {}}, tmp_path)

    assert isinstance(
        collected(gpu_sharing.collect, system, Environment({}), facts.nvidia_driver(0), facts.gpu_grant()), Unavailable
    )
