"""What the kernel shows of NVIDIA's GPUs: on the bus, bound to the driver, as names in /dev."""

import re
from typing import Literal

import msgspec

from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.runtime import Runtime
from dl_doctor.model import NO_GPU, Unavailable
from dl_doctor.system import System

PCI = "/sys/bus/pci/devices"
PROC = "/proc/driver/nvidia"

NVIDIA = "0x10de"
DISPLAY = "0x03"
"""Class of display controllers, of which a 3D controller without a screen is one; an NVSwitch or a sound chip is none."""

VERSION = re.compile(
    r"^NVRM version:.*?(?:Kernel Module|Open Kernel Module)[^0-9\n]*(?:for \S+\s+)?([0-9]+\.[0-9.]*[0-9])", re.MULTILINE
)
"""Both banners: `NVIDIA UNIX x86_64 Kernel Module  550.90.07` and `NVIDIA UNIX Open Kernel Module for x86_64  570.86.15`."""

MAJOR = re.compile(r"^ *([0-9]+) +(nvidia\S*)$", re.MULTILINE | re.ASCII)

NODE = re.compile(r"nvidia[0-9]+|nvidiactl|nvidia-uvm|dxg|nvmap|nvhost-.*gpu", re.ASCII)
GPU_NODE = re.compile(r"nvidia[0-9]+", re.ASCII)
JETSON_NODE = re.compile(r"nvmap|nvhost-.*gpu", re.ASCII)


class NvidiaDriver(msgspec.Struct, frozen=True, kw_only=True):
    """Source: /sys/bus/pci/devices, /proc/driver/nvidia, /proc/devices, the names in /dev, /etc/nv_tegra_release."""

    platform: Literal["native", "wsl", "jetson"]
    """WSL and Jetson bring GPUs to programs in ways of their own: neither has the nodes and the folder in /proc."""

    pci: tuple[str, ...] | None
    """Addresses of NVIDIA's GPUs on the bus, the host's also in a container; None where the bus cannot be listed."""

    version: str | None
    """Of the kernel module; None where it is not loaded, or out of sight."""

    bound: tuple[str, ...]
    """PCI addresses of the GPUs that the driver has."""

    nodes: tuple[str, ...]
    """Names in /dev. That they can be opened is not said."""

    majors: dict[str, int]
    """Device numbers that the kernel gives to nvidia, nvidia-uvm and others now, by name."""

    @property
    def gpu_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in self.nodes if GPU_NODE.fullmatch(name))

    @property
    def there(self) -> bool:
        """Whether there is any sign of an NVIDIA GPU."""
        return bool(self.pci or self.version or self.bound or self.nodes or self.platform == "jetson")


def collect(system: System, runtime: Runtime | Unavailable) -> NvidiaDriver:
    nodes = tuple(name for name in listed(system, "/dev") or () if NODE.fullmatch(name))
    return NvidiaDriver(
        platform=platform_of(system, runtime, nodes),
        pci=gpus_on_the_bus(system),
        version=parse_version(read_or_empty(system, f"{PROC}/version")),
        bound=tuple(listed(system, f"{PROC}/gpus") or ()),
        nodes=nodes,
        majors=parse_majors(read_or_empty(system, "/proc/devices")),
    )


def platform_of(system: System, runtime: Runtime | Unavailable, nodes: tuple[str, ...]) -> Literal["native", "wsl", "jetson"]:
    if "dxg" in nodes or (isinstance(runtime, Runtime) and runtime.sandbox == "wsl"):
        return "wsl"
    tegra = read_or_empty(system, "/etc/nv_tegra_release") or any(map(JETSON_NODE.fullmatch, nodes))
    return "jetson" if tegra else "native"


def gpus_on_the_bus(system: System) -> tuple[str, ...] | None:
    addresses = listed(system, PCI)
    if addresses is None:
        return None
    return tuple(
        address
        for address in addresses
        if read_or_empty(system, f"{PCI}/{address}/vendor").strip() == NVIDIA
        and read_or_empty(system, f"{PCI}/{address}/class").startswith(DISPLAY)
    )


def listed(system: System, path: str) -> list[str] | None:
    try:
        return system.listdir(path)
    except OSError:
        return None


def read_or_empty(system: System, path: str) -> str:
    try:
        return system.read_text(path)
    except OSError:
        return ""


def parse_version(text: str) -> str | None:
    """The module's version in /proc/driver/nvidia/version."""
    found = VERSION.search(text)
    return found[1] if found else None


def parse_majors(text: str) -> dict[str, int]:
    """NVIDIA's lines of /proc/devices; nvidia-frontend is what the driver was called up to 5xx."""
    return {name.replace("nvidia-frontend", "nvidia"): int(number) for number, name in MAJOR.findall(text)}


def nothing_to_ask(driver: NvidiaDriver, grant: GpuGrant | Unavailable) -> Unavailable | None:
    """Why no probe need look for NVIDIA's GPUs, if so: a machine without them pays nothing."""
    promised = isinstance(grant, GpuGrant) and bool(grant.promised)
    if not driver.there and isinstance(grant, GpuGrant) and "kfd" in grant.nodes:
        return Unavailable.absent("the GPUs here are AMD's")
    if not driver.there and not promised:
        return Unavailable.absent(NO_GPU)
    return None
