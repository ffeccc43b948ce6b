"""Where the job runs: container runtime, scheduler, hosted platform, and whose view of the machine this is."""

from typing import Literal

import msgspec

from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.host import Host
from dl_doctor.facts.mounts import Mounts
from dl_doctor.facts.shared_memory import INITIAL_PID_NAMESPACE
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.system import System

MARKERS = (
    ("kubernetes", "/run/secrets/kubernetes.io"),
    ("kubernetes", "/var/run/secrets/kubernetes.io"),
    ("podman", "/run/.containerenv"),
    ("apptainer", "/.singularity.d"),
    ("docker", "/.dockerenv"),
)
"""Files that a runtime leaves in its containers. Kubernetes comes first: its pods can carry docker's marker too.

A file alone proves nothing: an image that was unpacked to become a virtual machine keeps its /.dockerenv.
"""

VARIABLES = (
    ("kubernetes", ("KUBERNETES_SERVICE_HOST",)),
    ("apptainer", ("APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME")),
    ("enroot", ("ENROOT_ROOTFS",)),
    ("charliecloud", ("CH_RUNNING",)),
)
"""Variables that a runtime sets in its containers."""

BOUND_FROM = (
    ("kubernetes", "/kubelet/pods/"),
    ("docker", "/docker/containers/"),
    ("podman", "/containers/storage/overlay-containers/"),
    ("nerdctl", "/nerdctl/"),
    ("enroot", "/enroot/"),
)
"""Parts of the host's path from which a runtime binds /etc/hosts or /etc/hostname, seen in the mount table."""

GROUPS = (("kubernetes", "kubepods"), ("docker", "/docker"), ("podman", "libpod"), ("lxc", "/lxc"))
"""Parts of the name of a container's control group, where its namespace does not hide it."""

TOLD = ("docker", "podman", "lxc", "enroot", "apptainer")
"""Values of the variable `container` that name a runtime which fixes are written for."""

PLATFORMS = (
    ("colab", "COLAB_RELEASE_TAG"),
    ("kaggle", "KAGGLE_KERNEL_RUN_TYPE"),
    ("sagemaker", "SM_TRAINING_ENV"),
    ("vertex", "CLOUD_ML_PROJECT_ID"),
    ("azureml", "AZUREML_RUN_ID"),
    ("databricks", "DATABRICKS_RUNTIME_VERSION"),
    ("runpod", "RUNPOD_POD_ID"),
    ("vast", "VAST_CONTAINERLABEL"),
    ("modal", "MODAL_TASK_ID"),
    ("codespaces", "CODESPACES"),
    ("github-actions", "GITHUB_ACTIONS"),
    ("ecs", "ECS_CONTAINER_METADATA_URI_V4"),
)
"""Hosted platforms by a variable that they document; they give the user their own knobs, or none."""

GVISOR_BANNER = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"
"""What /proc/version says in gVisor (pkg/sentry/kernel, in every release), whatever kernel the host has."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """Source: marker files, variables, the mount table, control groups and namespaces; all hints, hence the evidence."""

    name: str
    """docker, podman, kubernetes, apptainer, enroot, ...; `container` for an unknown kind; `bare` outside."""

    scheduler: Literal["slurm"] | None
    platform: str | None
    view: Literal["host", "virtual machine", "container", "mounted root"]
    sandbox: Literal["gvisor", "wsl"] | None
    """A kernel that is not the host's own Linux: its /proc and /sys are made up in part."""

    evidence: tuple[str, ...]

    @property
    def fixes_for(self) -> tuple[str, ...]:
        """Names of what fixes can be applied to. A container of compose looks like any other of docker's, and of a container
        whose maker is not known any may be right.
        """
        if self.platform:
            return (self.platform,)
        alike = {"docker": ("docker", "compose"), "nerdctl": ("docker",), "container": ("container", "docker", "kubernetes")}
        container = alike.get(self.name, (self.name,))
        if self.scheduler is None:
            return container
        return (self.scheduler,) if self.name == "bare" else (*container, self.scheduler)


def collect(
    system: System,
    host: Host | Unavailable,
    mounts: Mounts,
    environment: Environment | Unavailable,
    cgroups: Cgroups | Unavailable,
    slurm: Slurm | Unavailable,
) -> Runtime:
    variables = environment if isinstance(environment, Environment) else Environment({})
    groups = cgroups if isinstance(cgroups, Cgroups) else None
    proofs = [*from_mounts(mounts), *from_groups(groups), *from_namespaces(system, mounts)]
    hints = [*from_variables(variables), *(from_markers(system) if proofs else []), *proofs]
    name = hints[0][0] if hints and not system.mounted else "bare"
    platform = next(((name, f"{name_of} is set") for name, name_of in PLATFORMS if variables.get(name_of)), None)
    sandbox, banner = sandbox_of(system, host)
    evidence = [text for hinted, text in hints if hinted == name]
    evidence += [platform[1]] if platform else []
    evidence += [f"Slurm job {slurm.job_id}"] if isinstance(slurm, Slurm) else []
    evidence += [banner] if banner else []
    return Runtime(
        name=name,
        scheduler="slurm" if isinstance(slurm, Slurm) else None,
        platform=platform[0] if platform else None,
        view=view_of(system, host, name),
        sandbox=sandbox,
        evidence=tuple(evidence),
    )


def from_variables(environment: Environment) -> list[tuple[str, str]]:
    hints = [(name, f"{variable} is set") for name, known in VARIABLES for variable in known if environment.get(variable)]
    if told := environment.get("container"):  # systemd's convention, kept by podman, lxc and nspawn
        hints.append((told if told in TOLD else "container", f"container={told}"))
    return hints


def from_markers(system: System) -> list[tuple[str, str]]:
    return [(name, f"{path} exists") for name, path in MARKERS if there(system, path)]


def there(system: System, path: str) -> bool:
    try:
        return system.exists(path)
    except OSError:
        return False


def from_mounts(mounts: Mounts) -> list[tuple[str, str]]:
    bound = [mount for mount in mounts.entries if mount.mount_point in ("/etc/hosts", "/etc/hostname")]
    return [
        (name, f"{mount.mount_point} is bound from {mount.root}")
        for name, part in BOUND_FROM
        for mount in bound
        if part in mount.root
    ]


def from_groups(cgroups: Cgroups | None) -> list[tuple[str, str]]:
    paths = sorted({group.path for group in cgroups.groups.values()}) if cgroups else []
    return [(name, f"control group {path}") for name, part in GROUPS for path in paths if part in path]


def from_namespaces(system: System, mounts: Mounts) -> list[tuple[str, str]]:
    """What any container has, whoever made it."""
    hints = []
    try:
        if system.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE and not system.mounted:
            hints.append(("container", "a PID namespace of its own"))
    except OSError:
        pass
    root = mounts.containing("/")
    if root is not None and root.filesystem in ("overlay", "fuse-overlayfs", "aufs"):
        hints.append(("container", f"the root filesystem is {root.filesystem}"))
    return hints


def sandbox_of(system: System, host: Host | Unavailable) -> tuple[Literal["gvisor", "wsl"] | None, str]:
    try:
        banner = system.read_text("/proc/version").strip()
    except OSError:
        banner = ""
    if banner.startswith(GVISOR_BANNER):
        return "gvisor", f"/proc/version says {banner}"
    if isinstance(host, Host) and "microsoft" in (host.kernel or "").lower():
        return "wsl", f"the kernel is {host.kernel}"
    return None, ""


def view_of(
    system: System, host: Host | Unavailable, name: str
) -> Literal["host", "virtual machine", "container", "mounted root"]:
    if system.mounted:
        return "mounted root"
    if name != "bare":
        return "container"
    return "virtual machine" if isinstance(host, Host) and host.hypervisor else "host"
