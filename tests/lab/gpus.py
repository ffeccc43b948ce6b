"""A machine with NVIDIA's GPUs, as far as one can be made without: what the kernel shows in a mount namespace, and our libraries.

The nodes are /dev/null under other names where they are to open, and carry NVIDIA's own number, behind which no driver is, where
they are not.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dl_doctor.model import Report
from tests.fakes import Fakes
from tests.lab import doctor

MODULE = "550.90.07"

NULL, NVIDIA = "1 3", "195 0"
"""Major and minor numbers."""

DEVICES = Path("/sys/fs/cgroup/devices")
"""The hierarchy of v1 that allows and forbids devices."""

MOUNT = """\
set -eu
cd {folder}
mkdir bus dev
mount -t tmpfs proc /proc/driver
mkdir -p /proc/driver/nvidia/gpus
echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  {module}  Fri May 31 09:35:42 UTC 2024' >/proc/driver/nvidia/version
mount -t tmpfs -o {options} dev dev
for name in null zero full random urandom; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/shm
mount --bind /dev/shm dev/shm
for index in {indices}; do
    address=0000:0$((index + 1)):00.0
    mkdir bus/$address /proc/driver/nvidia/gpus/$address
    echo 0x10de >bus/$address/vendor
    echo 0x030200 >bus/$address/class
    mknod -m 666 dev/nvidia$index c {number}
done
mknod -m 666 dev/nvidiactl c {number}
mknod -m 666 dev/nvidia-uvm c {number}
printf 'Character devices:\\n{major} nvidia\\n{major} nvidia-uvm\\n' >devices
mount --bind devices /proc/devices
mount --bind bus /sys/bus/pci/devices
mount --move dev /dev
if [ -n "{group}" ]; then echo 0 >{group}/tasks; fi
exec "$@"
"""


@dataclass(frozen=True)
class Machine:
    """What is there, and what its driver does."""

    gpus: int = 8
    number: str = NULL
    options: str = "mode=755"
    """Of the filesystem at /dev."""

    library: str = MODULE
    """The version of the libraries."""

    does: Sequence[str] = ()
    """Lines of a description, see tests/fakes/description.h."""

    variables: dict[str, str] = field(default_factory=dict)
    group: str = ""
    """A folder of the control group that the doctor runs in."""


def examine(machine: Machine, fakes: Fakes, folder: Path, *options: str) -> Report:
    """The report of a doctor on this machine."""
    script = MOUNT.format(
        folder=folder,
        module=MODULE,
        options=machine.options,
        indices=" ".join(map(str, range(machine.gpus))),
        number=machine.number,
        major=machine.number.partition(" ")[0],
        group=machine.group,
    )
    description = folder / "description"
    description.write_text("".join(f"{line}\n" for line in (f"count={machine.gpus}", *machine.does)))
    libraries = fakes.install(folder / "lib", machine.library)
    ended = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *doctor.command({"select": "gpu"}), *options],
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries), "FAKE_GPUS": str(description), **machine.variables},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return doctor.report_of(ended)


@contextmanager
def control_group_without_gpus(name: str) -> Iterator[str]:
    """A group of v1 in which NVIDIA's devices are forbidden, as in a container whose devices were taken away."""
    group = DEVICES / name
    group.mkdir()
    try:
        (group / "devices.deny").write_text("c 195:* rwm")
        yield str(group)
    finally:
        group.rmdir()
