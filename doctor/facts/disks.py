"""What each path of this job lies on: from the mount that is seen there down to the disks below it."""

import posixpath
from collections.abc import Iterable

import msgspec

from dl_doctor.facts.data_paths import DataPaths
from dl_doctor.facts.filesystems import Kind, kind_of
from dl_doctor.facts.mounts import Mount, Mounts
from dl_doctor.system import System

BLOCK = "/sys/class/block"

DEEPEST = 8
"""Devices on top of one another: a partition, LUKS, LVM, RAID and a disk are five."""

VIRTUAL = ("vd", "xvd", "nbd", "rbd", "drbd", "loop", "zd", "zram", "ram", "sr")
"""How the names of devices begin whose flags say nothing of what is below: of virtual machines, networks, files, memory, and
pools of ZFS (zd)."""


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A block device that is made of no other. Source: /sys/class/block/NAME."""

    name: str
    model: str | None
    """As the device tells it; cloud volumes and virtual disks are known by it."""

    rotational: bool | None
    """The kernel's flag, which virtual disks and bridges often get wrong."""

    virtual: bool
    """Whether its name says that a hypervisor, a network, a pool or a file is behind it."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What one path lies on."""

    path: str
    """As in data_paths."""

    mount_point: str
    filesystem: str
    kind: Kind
    source: str
    """As the mount table names it: a device, or a server's export."""

    layers: tuple[str, ...]
    """Devices and mounts on the way down: `overlay`, `md0`, `dm-1`, `nvme0n1p2`."""

    disks: tuple[Disk, ...]
    """Empty where none is below, or none is in sight."""


class Disks(msgspec.Struct, frozen=True):
    """Source: the mount table, /sys/dev/block, /sys/class/block, /sys/fs/btrfs."""

    places: tuple[Place, ...]

    def of(self, path: str) -> Place | None:
        return next((place for place in self.places if place.path == path), None)


def collect(system: System, mounts: Mounts, data_paths: DataPaths) -> Disks:
    found = [place_of(system, mounts, entry.path, entry.real_path or entry.path) for entry in data_paths.entries]
    return Disks(tuple(place for place in found if place))


def place_of(system: System, mounts: Mounts, path: str, real_path: str) -> Place | None:
    """What is below a path; None in a table that shows no mount there."""
    mount = mounts.containing(real_path)
    if mount is None:
        return None
    layers: list[str] = []
    bottom = below_layers(mount, mounts, layers)
    names = devices(system, bottom)
    disks = leaves(system, names, layers)
    return Place(
        path=path,
        mount_point=mount.mount_point,
        filesystem=mount.filesystem,
        kind=kind_of(bottom.filesystem),
        source=bottom.source,
        layers=tuple(layers),
        disks=tuple(disk_of(system, name) for name in disks),
    )


def below_layers(mount: Mount, mounts: Mounts, layers: list[str]) -> Mount:
    """The mount that holds what is written to a mount of layers; itself, where that is out of sight."""
    while mount.filesystem == "overlay":
        upper = upper_folder(mount.super_options)
        below = mounts.containing(upper) if upper.startswith("/") else None
        if below is None or below.id == mount.id or below.filesystem == "overlay":
            return mount  # the host's paths, seen from inside a container
        layers.append(mount.filesystem)
        mount = below
    return mount


def upper_folder(options: str) -> str:
    """Where an overlay keeps what is written; of a read-only one, its topmost folder."""
    named = dict(option.partition("=")[::2] for option in options.split(","))
    return named.get("upperdir") or named.get("lowerdir", "").partition(":")[0]


def devices(system: System, mount: Mount) -> list[str]:
    """Names of the block devices that a filesystem is on."""
    if mount.device and not mount.device.startswith("0:"):
        numbered = posixpath.basename(link(system, f"/sys/dev/block/{mount.device}"))
        return [numbered] if numbered else []
    if not mount.source.startswith("/dev/"):
        return []
    name = device_of(system, mount.source)
    return members_of_btrfs(system, name) if name else []


def device_of(system: System, source: str) -> str | None:
    """The kernel's name of /dev/sda1 or /dev/mapper/vg-data."""
    name = source.removeprefix("/dev/")
    if not name.startswith("mapper/"):
        return name if there(system, f"{BLOCK}/{name}") else None
    mapped = [name for name in listed(system, BLOCK) if name.startswith("dm-")]
    return next((dm for dm in mapped if text(system, f"{BLOCK}/{dm}/dm/name") == name.removeprefix("mapper/")), None)


def members_of_btrfs(system: System, name: str) -> list[str]:
    """All devices of the btrfs that this one belongs to; itself where that cannot be seen."""
    groups = (listed(system, f"/sys/fs/btrfs/{uuid}/devices") for uuid in listed(system, "/sys/fs/btrfs"))
    return next((group for group in groups if name in group), [name])


def leaves(system: System, names: Iterable[str], layers: list[str], depth: int = 0) -> list[str]:
    """Devices that are made of no other: partitions and what device mapper and md combine are followed down."""
    found: list[str] = []
    for name in names:
        folder = f"{BLOCK}/{name}"
        whole = posixpath.basename(posixpath.dirname(link(system, folder))) if there(system, f"{folder}/partition") else ""
        below = [whole] if whole else listed(system, f"{folder}/slaves")
        if below and depth < DEEPEST:
            layers.append(name)
            found += leaves(system, below, layers, depth + 1)
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def disk_of(system: System, name: str) -> Disk:
    flag = text(system, f"{BLOCK}/{name}/queue/rotational")
    return Disk(
        name=name,
        model=text(system, f"{BLOCK}/{name}/device/model"),
        rotational={"0": False, "1": True}.get(flag or ""),
        virtual=name.startswith(VIRTUAL),
    )


def text(system: System, path: str) -> str | None:
    try:
        return system.read_text(path).strip() or None
    except OSError:
        return None


def listed(system: System, path: str) -> list[str]:
    try:
        return system.listdir(path)
    except OSError:
        return []


def link(system: System, path: str) -> str:
    try:
        return system.readlink(path)
    except OSError:
        return ""


def there(system: System, path: str) -> bool:
    try:
        return system.exists(path)
    except OSError:
        return False
