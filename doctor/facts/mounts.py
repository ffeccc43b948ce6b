"""The mount table: which filesystem is seen at a path."""

import re

import msgspec

from dl_doctor.facts.filesystems import Kind, kind_of
from dl_doctor.system import System
from dl_doctor.text import Malformed, integer

ESCAPE = re.compile(r"\\([0-7]{3})")
"""How the kernel writes space, tab, newline and backslash in a path."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of /proc/self/mountinfo, see proc_pid_mountinfo(5)."""

    id: int
    parent_id: int
    root: str
    """The folder of the filesystem that is mounted; for a cgroup, the group."""

    mount_point: str
    filesystem: str
    source: str
    options: str
    """Of this mount, comma-separated."""

    super_options: str
    """Of the filesystem, comma-separated; a cgroup v1 hierarchy names its controllers here."""

    device: str | None = None
    """MAJOR:MINOR; a major number of 0 is no block device. None in reports of version 0.1."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.filesystem)


class Mounts(msgspec.Struct, frozen=True):
    """All mounts that this process sees, in the kernel's order. Source: /proc/self/mountinfo."""

    entries: tuple[Mount, ...]

    def containing(self, path: str) -> Mount | None:
        """The mount that is seen at `path` (an absolute, normal path); None in a table without a root.

        A mount hides what was below its mount point before, so the table is walked from the root: at each part of the path
        the mounts whose parent is the one reached so far are taken, one on top of the other.
        """
        known = {mount.id for mount in self.entries}
        here = next((m for m in reversed(self.entries) if m.mount_point == "/" and m.parent_id not in known), None)
        if here is None:
            return None
        passed = {here.id}
        for prefix in prefixes(path):
            while (on_top := self._mounted_on(here, prefix)) and on_top.id not in passed:
                here = on_top
                passed.add(here.id)
        return here

    def _mounted_on(self, parent: Mount, mount_point: str) -> Mount | None:
        for mount in reversed(self.entries):
            if mount.parent_id == parent.id and mount.mount_point == mount_point:
                return mount
        return None


def collect(system: System) -> Mounts:
    return Mounts(parse_mountinfo(system.read_text(f"{system.process}/mountinfo")))


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The lines of a mount table, in their order; Malformed for a line of another form."""
    return tuple(parse_line(line) for line in text.split("\n") if line)


def parse_line(line: str) -> Mount:
    place, separator, kind = line.partition(" - ")
    fields, details = place.split(" "), kind.split(" ")
    if not separator or len(fields) < 6 or len(details) < 3:
        raise Malformed("not a line of mountinfo", line)
    return Mount(
        id=integer(fields[0]),
        parent_id=integer(fields[1]),
        root=unescape(fields[3]),
        mount_point=unescape(fields[4]),
        options=fields[5],
        filesystem=details[0],
        source=unescape(details[1]),
        super_options=details[2],
        device=fields[2],
    )


def unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def prefixes(path: str) -> list[str]:
    """`/`, `/dev`, `/dev/shm` of `/dev/shm`."""
    parts = [part for part in path.split("/") if part]
    return ["/", *("/" + "/".join(parts[:end]) for end in range(1, len(parts) + 1))]
