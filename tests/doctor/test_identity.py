"""Whose machine it is, by files of /proc, /sys and /etc."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.facts import Host, Mounts, Nvml
from dl_doctor.facts.mounts import parse_mountinfo
from dl_doctor.facts.nvml import Gpu
from dl_doctor.identity import identity_of, machine_digest, parse_servers, passwd_entry
from dl_doctor.model import Ended, Identity, Unavailable
from dl_doctor.system import System
from tests.recorded import RecordedSystem, read

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 10.1.2.0/24 2 0 2
        |-- 10.1.2.0
           /24 link UNICAST
        |-- 10.1.2.3
           /32 host LOCAL
        |-- 10.1.2.255
           /32 link BROADCAST
"""
IF_INET6 = """fd000000000000000000000000000002 04 40 00 82     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""
MOUNTS = (
    "22 1 0:5 / / rw - ext4 /dev/vda rw\n"
    "23 22 0:6 / /data rw - nfs4 nfs01.example.org:/export rw,addr=10.0.0.9\n"
    "24 22 0:7 / /share rw - cifs //files/share rw,username=asmith,domain=LAB\n"
)


class Listing(msgspec.Struct, frozen=True):
    """Any fact that lists GPUs, such as their states."""

    gpus: tuple[Gpu, ...]


def test_all_of_it(tmp_path: Path) -> None:
    machine, _ = read("docker-v1")
    files = {
        "/proc/self/net/fib_trie": FIB_TRIE,
        "/proc/self/net/if_inet6": IF_INET6,
        "/sys/class/net/eth0/address": "02:fc:00:00:00:01\n",
        "/sys/class/net/lo/address": "00:00:00:00:00:00\n",
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:Alice:/net/homes/alice:/bin/sh\nbroken\n",
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    }
    environment = {"HOME": "/net/homes/alice", "LOGNAME": "alice", "SUDO_USER": "bob"}
    system = RecordedSystem({**machine, "files": files, "uid": 1000, "environment": environment}, tmp_path)
    known: dict[type, object] = {
        Host: Host(hostname="node17.example.org", os=None, kernel=None, hypervisor=None),
        Mounts: Mounts(parse_mountinfo(MOUNTS)),
        Nvml: Nvml(ended=Ended(how="answered"), gpus=(Gpu(index=0, uuid="GPU-1"), Gpu(index=1))),
        Listing: Listing(gpus=(Gpu(index=0, uuid="GPU-1"), Gpu(index=1, uuid="GPU-2"))),
        Unavailable: Unavailable.absent("nothing to see"),
    }

    assert identity_of(system, known) == Identity(
        hostnames=("node17.example.org", "node17"),
        users=("alice", "bob", "asmith", "LAB"),
        homes=("/net/homes/alice",),
        ips=("10.1.2.3", "fd00:0000:0000:0000:0000:0000:0000:0002"),
        macs=("02:fc:00:00:00:01",),
        gpus=("GPU-1", "GPU-2"),
        servers=("nfs01.example.org", "files"),
        machine=machine_digest("0123456789abcdef0123456789abcdef"),
    )


def test_where_nothing_can_be_read(tmp_path: Path) -> None:
    """As below --root, where no process runs."""
    assert identity_of(System(str(tmp_path)), {}) == Identity()


@pytest.mark.parametrize(
    ("source", "servers"),
    [
        ("nfs01:/export", ["nfs01"]),
        ("[fe80::1]:/export", ["fe80::1"]),
        ("//files/share", ["files"]),
        ("10.0.0.1@tcp:10.0.0.2@o2ib1:/scratch", ["10.0.0.1", "10.0.0.2"]),  # Lustre
        ("mon1:6789,mon2:6789:/", ["mon1", "mon2"]),  # Ceph
        ("alice@node3:/data", ["alice@node3"]),  # sshfs
        ("/dev/nvme0n1p2", []),
        ("overlay", []),
        ("C:\\134", []),  # WSL
    ],
)
def test_servers_of_mounts(source: str, servers: list[str]) -> None:
    assert parse_servers(source) == servers


@pytest.mark.parametrize(
    ("text", "known"),
    [("0123456789abcdef0123456789abcdef\n", True), ("uninitialized\n", False), ("", False), ("0123\n", False)],
)
def test_the_machines_digest(text: str, known: Any) -> None:
    digest = machine_digest(text)

    assert (digest is not None) == known
    assert digest is None or (len(digest) == 64 and text.strip() not in digest)


def test_a_user_that_is_not_in_the_file() -> None:
    """Of a directory service, which is not asked."""
    assert passwd_entry("root:x:0:0:root:/root:/bin/sh\n", 1000) == ("", "")
