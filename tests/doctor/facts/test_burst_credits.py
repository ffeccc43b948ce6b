"""What bursts: instances by the name of their type, volumes by their model, and when a sweep says so."""

from pathlib import Path

import pytest

from dl_doctor.facts.bottleneck import Bottleneck
from dl_doctor.facts.burst_credits import EBS, BurstCredits, collect
from dl_doctor.facts.loader_sweep import not_for_hours
from dl_doctor.facts.mounts import Mounts, parse_mountinfo
from dl_doctor.system import System

EFS = "fs-0123abcd.efs.eu-west-1.amazonaws.com:/"


@pytest.mark.parametrize(
    ("vendor", "product", "model", "source", "instance", "volumes"),
    [
        ("Amazon EC2", "t3.large", EBS, "/dev/nvme0n1p1", "t3.large", ("EBS (gp2, st1 and sc1 do)",)),
        ("Amazon EC2", "t4g.2xlarge", "", "/dev/vda", "t4g.2xlarge", ()),
        ("Amazon EC2", "g5.xlarge", "Amazon EC2 NVMe Instance Storage", EFS, None, ("EFS",)),
        ("Amazon EC2", "trn1.2xlarge", "", "/dev/vda", None, ()),
        ("Somebody", "t3.large", "", "server:/efs.data", None, ()),
        ("", "", "", "/dev/vda", None, ()),  # no /sys at all
    ],
)
def test_what_bursts(
    tmp_path: Path, vendor: str, product: str, model: str, source: str, instance: str | None, volumes: tuple[str, ...]
) -> None:
    told = {"class/dmi/id/sys_vendor": vendor, "class/dmi/id/product_name": product, "class/block/nvme0n1/device/model": model}
    for path, text in told.items():
        if text:
            (tmp_path / "sys" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys" / path).write_text(f"{text}  \n")
    mounts = Mounts(parse_mountinfo(f"1 0 0:40 / / rw - nfs4 {source} rw\n"))

    assert collect(System(str(tmp_path)), mounts) == BurstCredits(instance=instance, volumes=volumes)


@pytest.mark.parametrize(
    ("instance", "volumes", "bottleneck", "begin"),
    [
        ("t3.large", (), "cpu", "This is a t3.large: when its CPU credits are used up"),
        ("t3.large", ("EFS",), "disk", "This is a t3.large"),
        (None, ("EFS",), "network", "If the data lies on EFS, hours may be slower"),
        (None, ("EFS",), "cpu", ""),  # every machine of EC2 has a volume: it matters where data is read from one
        (None, (), "disk", ""),
    ],
)
def test_when_it_is_said(instance: str | None, volumes: tuple[str, ...], bottleneck: Bottleneck, begin: str) -> None:
    said = not_for_hours(BurstCredits(instance=instance, volumes=volumes), bottleneck)

    assert said.startswith(begin)
    assert bool(said) == bool(begin)
