"""An example of a plugin: one fact, its collector and a check of it, named in a Plugin that an entry point names."""

import msgspec

from dl_doctor.catalogue import Plugin
from dl_doctor.contract import Check
from dl_doctor.facts import Collector, Mounts
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.system import System

DEFAULT = "/tmp"
"""Where temporary files go when TMPDIR names no other folder; tempfile.gettempdir() in Python."""

SHARED = frozenset({"nfs", "nfs4", "lustre", "ceph", "beegfs", "gpfs", "fuse.sshfs"})
"""Types of filesystems that other nodes write to as well, as the mount table spells them."""


class Scratch(msgspec.Struct, frozen=True, kw_only=True):
    """Where this job puts its temporary files. Source: TMPDIR and the mount table."""

    path: str
    filesystem: str | None
    """Type of the mount that is seen there; None where the table shows none."""


def collect(system: System, mounts: Mounts) -> Scratch:
    path = system.environment().get("TMPDIR") or DEFAULT
    mount = mounts.containing(path)
    return Scratch(path=path, filesystem=mount.filesystem if mount else None)


def scratch_disk(scratch: Scratch) -> Verdict:
    """Temporary files stay on this node

    ## What it checks
    Whether the folder for temporary files, TMPDIR or /tmp, is on a filesystem of this node.

    ## Why it matters
    Caches and unpacked archives are many small files. On the shared filesystem they slow down everybody's job, yours first.

    ## How it decides
    By the type of the mount that is seen at the folder. A network filesystem warns.

    ## How to fix
    Point TMPDIR at the node's own disk, /local on Acme's nodes.

    ## Known limits
    A filesystem in user space can be local or not; only sshfs is known not to be.

    ## References
    Acme's user guide, storage
    """
    seen = f"{scratch.path} is on {scratch.filesystem or 'no mount that can be seen'}"
    return Verdict(seen, [shared(scratch)] if scratch.filesystem in SHARED else [])


def shared(scratch: Scratch) -> Finding:
    return Finding(
        level="warn",
        subject=scratch.path,
        summary=f"Temporary files go to {scratch.path}, which is on {scratch.filesystem}",
        why="Every small file of theirs is a request to a server that all nodes share.",
        fixes=(Fix("Keep them on the node", ("export TMPDIR=/local/$USER",)),),
    )


PLUGIN = Plugin(checks=(Check(scratch_disk),), collectors=(Collector(collect),))
