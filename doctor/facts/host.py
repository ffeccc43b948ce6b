"""What people call the machine by."""

import msgspec

from dl_doctor.system import System


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the host name, /etc/os-release, /proc/sys/kernel/osrelease, /proc/cpuinfo."""

    hostname: str
    os: str | None
    """PRETTY_NAME; of the image, in a container."""

    kernel: str | None
    hypervisor: bool | None
    """Whether the CPU says that it runs under one; None where it does not say."""


def collect(system: System) -> Host:
    return Host(
        hostname=system.hostname(),
        os=parse_os_release(read_or_empty(system, "/etc/os-release")),
        kernel=read_or_empty(system, "/proc/sys/kernel/osrelease").strip() or None,
        hypervisor=parse_hypervisor(read_or_empty(system, "/proc/cpuinfo")),
    )


def read_or_empty(system: System, path: str) -> str:
    try:
        return system.read_text(path)
    except OSError:
        return ""


def parse_os_release(text: str) -> str | None:
    """PRETTY_NAME of os-release(5), without its quotes."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "PRETTY_NAME":
            return value.strip().strip("\"'") or None
    return None


def parse_hypervisor(text: str) -> bool | None:
    """The `hypervisor` flag of x86; other architectures have no such flag."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return "hypervisor" in value.split()
    return None
