"""Control groups: where the limits of this process are written, from its own group up to the root.

The own group is named by /proc/self/cgroup; the folder in which it can be read depends on how the hierarchy is mounted.
Both can be namespaced, independently, so that a group's name may lead nowhere. What cannot be seen is said, because a limit
out of sight is still in force.
"""

import posixpath
from typing import Literal

import msgspec

from dl_doctor.facts.mounts import Mount, Mounts
from dl_doctor.system import System
from dl_doctor.text import Malformed

CONTROLLERS = ("cpu", "cpuset", "memory", "pids")

INITIAL_NAMESPACE = "cgroup:[4026531835]"
"""/proc/self/ns/cgroup outside every cgroup namespace (PROC_CGROUP_INIT_INO in the kernel's include/linux/proc_ns.h)."""


class ControlGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The group of this process for one controller."""

    version: Literal["v1", "v2"]
    path: str
    """As /proc/self/cgroup names it."""

    folders: tuple[str, ...]
    """Folders to read its limits from: its own first, then its ancestors' as far up as they can be seen."""

    own_visible: bool
    """Whether the group's own folder is among them; if not, its own limit is unknown."""

    top_visible: bool
    """Whether they reach the root; if not, ancestors out of sight may set a tighter limit."""


class Cgroups(msgspec.Struct, frozen=True, kw_only=True):
    """Source: /proc/self/cgroup, /proc/self/mountinfo and the cgroup filesystem. See cgroups(7), cgroup_namespaces(7)."""

    version: Literal["v1", "v2", "hybrid"] | None
    """`hybrid`: both kinds of hierarchy are mounted. None: this process is in no control group."""

    namespaced: bool | None
    """Whether names begin at a container's own group; None where the kernel does not say."""

    groups: dict[str, ControlGroup]
    """By controller (cpu, cpuset, memory, pids). One that is missing here is not in use: it sets no limit."""


def collect(system: System, mounts: Mounts) -> Cgroups:
    if system.mounted:
        system.environment()  # raises: a group belongs to a process
    try:
        membership = parse_membership(system.read_text("/proc/self/cgroup"))
    except FileNotFoundError:  # a kernel without control groups
        membership = {}
    try:
        namespaced = system.readlink("/proc/self/ns/cgroup") != INITIAL_NAMESPACE
    except FileNotFoundError:  # a kernel before 4.6, which has no such namespaces
        namespaced = False
    except OSError:
        namespaced = None
    groups = {
        controller: locate(system, mounts, controller, membership, namespaced=namespaced)
        for controller in CONTROLLERS
        if controller in membership or "" in membership
    }
    return Cgroups(version=version_of(mounts, membership), namespaced=namespaced, groups=groups)


def parse_membership(text: str) -> dict[str, str]:
    """Lines of /proc/self/cgroup: the group by controller; the one of the unified hierarchy (v2) under ""."""
    membership = {}
    for line in filter(None, text.split("\n")):
        fields = line.split(":", 2)
        if len(fields) != 3:
            raise Malformed("not a line of /proc/self/cgroup", line)
        number, controllers, path = fields
        for controller in controllers.split(","):
            if controller or number == "0":
                membership[controller] = path
    return membership


def version_of(mounts: Mounts, membership: dict[str, str]) -> Literal["v1", "v2", "hybrid"] | None:
    named = {"v1" for controller in membership if controller in CONTROLLERS}
    mounted = {"v2" if mount.filesystem == "cgroup2" else "v1" for mount in mounts.entries if is_hierarchy(mount)}
    if named and "v2" in mounted:
        return "hybrid"
    if named:
        return "v1"
    return "v2" if "" in membership else None


def is_hierarchy(mount: Mount) -> bool:
    return mount.filesystem == "cgroup2" or (mount.filesystem == "cgroup" and not mount.super_options.partition("name=")[2])


def locate(
    system: System, mounts: Mounts, controller: str, membership: dict[str, str], *, namespaced: bool | None
) -> ControlGroup:
    """Find the folders of one controller's group."""
    version: Literal["v1", "v2"] = "v1" if controller in membership else "v2"
    path = membership[controller if version == "v1" else ""]
    folders: tuple[str, ...] = ()
    own_visible = top_visible = False
    mount = hierarchy(mounts, controller, version)
    if mount is not None:
        below = path_below(mount.root, path)
        if below is not None:
            folders, own_visible = existing(system, mounts, mount, below)
            top_visible = mount.root == "/" and namespaced is False
    elif path == "/" and namespaced is False:
        own_visible = top_visible = True  # the root has no limit, whether it can be read or not
    return ControlGroup(version=version, path=path, folders=folders, own_visible=own_visible, top_visible=top_visible)


def hierarchy(mounts: Mounts, controller: str, version: str) -> Mount | None:
    """Where the controller's hierarchy is mounted and not covered by another mount."""
    for mount in reversed(mounts.entries):
        fits = (
            mount.filesystem == "cgroup2"
            if version == "v2"
            else mount.filesystem == "cgroup" and controller in mount.super_options.split(",")
        )
        if fits and mounts.containing(mount.mount_point) in (mount, None):
            return mount
    return None


def path_below(root: str, path: str) -> str | None:
    """`path` seen from a mount whose root is the group `root`; None when it lies elsewhere.

    A name that begins with `/..` is above the namespace that it is told in, and cannot be compared.
    """
    if root == path:
        return ""
    if root.startswith("/..") or path.startswith("/.."):
        return None
    below = posixpath.relpath(path, root)
    return None if below.startswith("..") else below.removeprefix(".")


def existing(system: System, mounts: Mounts, mount: Mount, below: str) -> tuple[tuple[str, ...], bool]:
    """The folders from `below` up to the mount point that exist and are not covered, and whether the first of them does."""
    parts = [part for part in below.split("/") if part]
    candidates = [posixpath.join(mount.mount_point, *parts[:end]) for end in range(len(parts), -1, -1)]
    found = tuple(folder for folder in candidates if mounts.containing(folder) in (mount, None) and is_there(system, folder))
    return found, candidates[0] in found


def is_there(system: System, folder: str) -> bool:
    try:
        system.listdir(folder)
    except OSError:
        return False
    return True
