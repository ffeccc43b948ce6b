"""AMD's nodes and Apple's GPUs, as far as a machine without them can tell."""

import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import AppleGpu, RocmAccess, apple_gpu, rocm_access
from dl_doctor.facts.host import Host
from dl_doctor.facts.rocm_access import gpus_on_the_bus, render_nodes
from dl_doctor.model import Unavailable
from dl_doctor.probes import apple_gpu as probe
from dl_doctor.units import GIB
from tests import facts
from tests.collected import collected
from tests.recorded import RecordedSystem

NO_SLURM = Unavailable.absent("no Slurm")

MI300X = {
    "/sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002\n",
    "/sys/bus/pci/devices/0000:05:00.0/class": "0x120000\n",  # a processing accelerator
    "/sys/bus/pci/devices/0000:06:00.0/vendor": "0x1002\n",
    "/sys/bus/pci/devices/0000:06:00.0/class": "0x030000\n",
    "/sys/bus/pci/devices/0000:06:00.1/vendor": "0x1002\n",
    "/sys/bus/pci/devices/0000:06:00.1/class": "0x040300\n",  # sound
    "/sys/bus/pci/devices/0000:07:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:07:00.0/class": "0x030200\n",
    "/dev/dri": {"folder": ["card0", "renderD128", "renderD129", "renderD130"]},
    "/sys/class/drm/renderD128/device/vendor": "0x1002\n",
    "/sys/class/drm/renderD129/device/vendor": "0x10de\n",
}


def test_what_is_amds(tmp_path: Path) -> None:
    system = RecordedSystem({"files": MI300X}, tmp_path)

    assert gpus_on_the_bus(system) == ("0000:05:00.0", "0000:06:00.0")
    assert render_nodes(system) == ["renderD128"]


def accessed(folder: Path, files: dict[str, Any], nodes: tuple[str, ...] = (), job: Any = NO_SLURM) -> RocmAccess | Unavailable:
    told: RocmAccess | Unavailable = collected(
        rocm_access.collect, RecordedSystem({"files": files}, folder), facts.gpu_grant(nodes=nodes), job
    )
    return told


@pytest.mark.parametrize(
    ("files", "nodes", "job", "words"),
    [
        ({}, (), NO_SLURM, "no GPU of AMD's"),
        ({}, ("nvidia0",), NO_SLURM, "no GPU of AMD's"),
        (MI300X, ("kfd",), facts.slurm(), "granted no GPU"),
    ],
)
def test_when_no_node_is_tried(tmp_path: Path, files: dict[str, Any], nodes: tuple[str, ...], job: Any, words: str) -> None:
    told = accessed(tmp_path, files, nodes, job)

    assert isinstance(told, Unavailable)
    assert words in told.detail


def test_a_card_whose_driver_is_not_here(tmp_path: Path) -> None:
    told = accessed(tmp_path, MI300X)

    assert isinstance(told, RocmAccess)
    assert (told.bus, told.kfd) == (("0000:05:00.0", "0000:06:00.0"), None)


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="is about machines without AMD's driver")
def test_nodes_that_are_tried(tmp_path: Path) -> None:
    """They are in the listing and not on the machine that runs this."""
    told = accessed(tmp_path, MI300X, ("kfd",))

    assert isinstance(told, RocmAccess)
    assert told.kfd is not None
    assert told.kfd.error == "ENOENT"
    assert [(node.name, node.error) for node in told.render] == [("renderD128", "ENOENT")]
    assert told.uid is not None


def on_a_mac(kernel: str | None) -> AppleGpu | Unavailable:
    host = Host(hostname="mac", os=None, kernel=kernel, hypervisor=None)
    target = facts.target(path=sys.executable)
    told: AppleGpu | Unavailable = collected(apple_gpu.collect, host, target, facts.torch_files(), facts.memory_budget(64 * GIB))
    return told


@pytest.mark.parametrize("kernel", ["6.8.0-31-generic", None])
@pytest.mark.skipif(platform.system() == "Darwin", reason="is about other machines")
def test_other_machines_import_no_torch_for_it(kernel: str | None) -> None:
    """Also where the kernel's name is out of sight: the process says what it runs on, and stops."""
    assert on_a_mac(kernel) == Unavailable.absent("this is no Mac")


@pytest.mark.skipif(platform.system() == "Darwin", reason="is about other machines")
def test_the_probe_off_a_mac() -> None:
    steps: list[str] = []
    told = probe.probe({}, steps.append)

    assert (told["translated"], told["virtual"], steps) == (None, None, ["ask the platform"])
