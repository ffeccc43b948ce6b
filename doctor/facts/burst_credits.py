"""What is fast only until its credits are used up: instances and volumes that burst, as far as a machine tells them itself."""

import re

import msgspec

from dl_doctor.facts.mounts import Mounts
from dl_doctor.model import Unavailable
from dl_doctor.system import System

DMI = "/sys/class/dmi/id"

BURSTABLE = re.compile(r"t[234][a-z]*\.[0-9a-z]+")
"""EC2's names of instance types: t2, t3, t3a, t4g. Azure's and Google's machines do not tell their type there."""

EBS = "Amazon Elastic Block Store"
"""Its model, as NVMe tells it. Of its volumes gp2, st1 and sc1 burst, and gp3 and io2 do not; which one it is, is not told."""


class BurstCredits(msgspec.Struct, frozen=True, kw_only=True):
    """Source: /sys/class/dmi/id, models in /sys/class/block, the mount table."""

    instance: str | None
    """The type of this machine where its CPUs live on credits: `t3.large`."""

    volumes: tuple[str, ...]
    """Kinds of storage in sight that may live on credits. Which one data lies on is not looked at."""


def collect(system: System, mounts: Mounts | Unavailable) -> BurstCredits:
    product = read(system, f"{DMI}/product_name")
    vendor = read(system, f"{DMI}/sys_vendor")
    models = {read(system, f"/sys/class/block/{name}/device/model") for name in listed(system, "/sys/class/block")}
    sources = [] if isinstance(mounts, Unavailable) else [mount.source for mount in mounts.entries]
    volumes = ["EBS (gp2, st1 and sc1 do)"] if EBS in models else []
    volumes += ["EFS"] if any(re.match(r"fs-[0-9a-f]+\.efs\.", source) for source in sources) else []
    known = vendor == "Amazon EC2" and BURSTABLE.fullmatch(product)
    return BurstCredits(instance=product if known else None, volumes=tuple(volumes))


def read(system: System, path: str) -> str:
    try:
        return system.read_text(path).strip()
    except OSError:
        return ""


def listed(system: System, path: str) -> list[str]:
    try:
        return system.listdir(path)
    except OSError:
        return []
