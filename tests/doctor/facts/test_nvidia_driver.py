"""What the kernel shows: cards on the bus, the driver's banner, numbers and nodes; and what is no sign of a GPU."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import nvidia_driver
from dl_doctor.facts.nvidia_driver import NvidiaDriver, nothing_to_ask, parse_majors, parse_version
from dl_doctor.model import NO_GPU, Unavailable
from tests import facts
from tests.recorded import RecordedSystem

NOWHERE = Unavailable.absent("a test")


def seen(folder: Path, files: dict[str, Any], runtime: Any = NOWHERE) -> NvidiaDriver:
    return nvidia_driver.collect(RecordedSystem({"files": files}, folder), runtime)


def device(address: str, vendor: str, kind: str) -> dict[str, Any]:
    return {f"/sys/bus/pci/devices/{address}/vendor": f"{vendor}\n", f"/sys/bus/pci/devices/{address}/class": f"{kind}\n"}


def test_cards_are_nvidias_display_controllers(tmp_path: Path) -> None:
    files = {
        **device("0000:01:00.0", "0x10de", "0x030200"),  # 3D controller
        **device("0000:02:00.0", "0x10de", "0x030000"),  # VGA
        **device("0000:02:00.1", "0x10de", "0x040300"),  # the sound chip of the same card
        **device("0000:03:00.0", "0x10de", "0x068000"),  # NVSwitch
        **device("0000:04:00.0", "0x1a03", "0x030000"),  # the board's own
    }

    assert seen(tmp_path, files).pci == ("0000:01:00.0", "0000:02:00.0")


@pytest.mark.parametrize(
    ("files", "sandbox", "platform"),
    [
        ({"/dev": {"folder": ["nvidia0"]}}, None, "native"),
        ({"/dev": {"folder": ["dxg"]}}, "wsl", "wsl"),
        ({"/dev": {"folder": ["dxg"]}}, None, "wsl"),  # a container in WSL, with a kernel's name of its own
        ({"/dev": {"folder": []}}, "wsl", "wsl"),
        ({"/etc/nv_tegra_release": "# R36 (release)"}, None, "jetson"),
        ({"/dev": {"folder": ["nvmap", "nvhost-gpu"]}}, None, "jetson"),
    ],
)
def test_wsl_and_jetson_are_told_apart(tmp_path: Path, files: dict[str, Any], sandbox: Any, platform: str) -> None:
    assert seen(tmp_path, files, facts.runtime("bare", sandbox=sandbox)).platform == platform


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n", "550.90.07"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version:  11.4.0\n",
            "570.86.15",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build\n", "580.65.06"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  418.126.02  Wed\n", "418.126.02"),
        ("", None),
        ("something else 1.2.3\n", None),
    ],
)
def test_both_banners(banner: str, version: str | None) -> None:
    assert parse_version(banner) == version


def test_device_numbers() -> None:
    text = "Character devices:\n  1 mem\n195 nvidia-frontend\n195 nvidiactl\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n"

    assert parse_majors(text) == {"nvidia": 195, "nvidiactl": 195, "nvidia-uvm": 510}


@pytest.mark.parametrize(
    ("driver", "grant", "reason"),
    [
        (facts.nvidia_driver(0), facts.gpu_grant(), NO_GPU),
        (facts.nvidia_driver(0, pci=None), NOWHERE, NO_GPU),
        (facts.nvidia_driver(0), facts.gpu_grant(promised=0), NO_GPU),
        (facts.nvidia_driver(0), facts.gpu_grant(promised=8, nodes=("kfd",)), "the GPUs here are AMD's"),
        (facts.nvidia_driver(0), facts.gpu_grant(promised=1), None),
        (facts.nvidia_driver(1), facts.gpu_grant(), None),
        (facts.nvidia_driver(0, pci=("0000:01:00.0",)), NOWHERE, None),
    ],
)
def test_nobody_is_asked_without_a_sign(driver: NvidiaDriver, grant: Any, reason: str | None) -> None:
    nothing = nothing_to_ask(driver, grant)

    assert (nothing and nothing.detail) == reason
