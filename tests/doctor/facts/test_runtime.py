"""Where a job runs is told by what runtimes leave behind, and a file alone proves nothing."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import cgroups, environment, host, mounts, runtime, slurm
from dl_doctor.facts.runtime import Runtime
from tests.recorded import RecordedSystem

HOST_ROOT = "1 0 8:1 / / rw - ext4 /dev/a rw\n"
OVERLAY = "1 0 0:40 / / rw - overlay overlay rw\n"
OWN_PIDS = {"/proc/self/ns/pid": {"link": "pid:[4026532100]"}}
HOST_PIDS = {"/proc/self/ns/pid": {"link": "pid:[4026531836]"}}


def bound(source: str) -> str:
    return f"5 1 8:1 {source} /etc/hosts rw - ext4 /dev/a rw\n"


def found(tmp_path: Path, files: dict[str, Any], variables: dict[str, str], table: str = HOST_ROOT) -> Runtime:
    known = {"/proc/self/mountinfo": table, "/proc/self/cgroup": "0::/\n", **HOST_PIDS, **files}
    system = RecordedSystem({"files": known, "environment": variables, "hostname": "box"}, tmp_path)
    table_, env = mounts.collect(system), environment.collect(system)
    groups = cgroups.collect(system, table_)
    return runtime.collect(system, host.collect(system), table_, env, groups, slurm.collect(env))


@pytest.mark.parametrize(
    ("files", "variables", "table", "name"),
    [
        ({}, {}, HOST_ROOT, "bare"),
        ({"/.dockerenv": "", **OWN_PIDS}, {}, OVERLAY, "docker"),
        ({"/.dockerenv": ""}, {}, OVERLAY, "docker"),  # --pid=host
        ({"/.dockerenv": ""}, {}, HOST_ROOT, "bare"),  # an image that became a machine
        ({}, {}, OVERLAY + bound("/var/lib/docker/containers/1/hosts"), "docker"),  # the marker was removed
        ({"/proc/self/cgroup": "0::/docker/1\n"}, {}, OVERLAY, "docker"),
        ({"/run/.containerenv": "", **OWN_PIDS}, {"container": "podman"}, OVERLAY, "podman"),
        (OWN_PIDS, {"container": "podman"}, OVERLAY, "podman"),
        ({"/.dockerenv": "", **OWN_PIDS}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, OVERLAY, "kubernetes"),
        ({"/run/secrets/kubernetes.io/token": "", **OWN_PIDS}, {}, OVERLAY, "kubernetes"),  # enableServiceLinks: false
        ({"/proc/self/cgroup": "0::/kubepods.slice/pod1/c\n", **OWN_PIDS}, {}, OVERLAY, "kubernetes"),
        ({}, {"APPTAINER_CONTAINER": "/i.sif"}, HOST_ROOT, "apptainer"),
        ({}, {"SINGULARITY_NAME": "i.sif"}, HOST_ROOT, "apptainer"),
        (OWN_PIDS, {"container": "lxc"}, HOST_ROOT, "lxc"),
        (OWN_PIDS, {"container": "systemd-nspawn"}, HOST_ROOT, "container"),
        (OWN_PIDS, {"container": "oci"}, OVERLAY, "container"),
        (OWN_PIDS, {}, HOST_ROOT, "container"),
        ({}, {}, OVERLAY, "container"),
    ],
)
def test_which_runtime(tmp_path: Path, files: dict[str, Any], variables: dict[str, str], table: str, name: str) -> None:
    told = found(tmp_path, files, variables, table)

    assert told.name == name
    assert bool(told.evidence) == (name != "bare")


@pytest.mark.parametrize(
    ("name", "scheduler", "platform", "fixes_for"),
    [
        ("docker", None, None, ("docker", "compose")),  # nothing tells a container of compose
        ("container", None, None, ("container", "docker", "kubernetes")),  # any may be right
        ("kubernetes", None, None, ("kubernetes",)),
        ("bare", None, None, ("bare",)),
        ("bare", "slurm", None, ("slurm",)),
        ("apptainer", "slurm", None, ("apptainer", "slurm")),
        ("docker", None, "colab", ("colab",)),  # its users have no docker to tell
    ],
)
def test_what_fixes_are_for(name: str, scheduler: Any, platform: str | None, fixes_for: tuple[str, ...]) -> None:
    told = Runtime(name=name, scheduler=scheduler, platform=platform, view="container", sandbox=None, evidence=())

    assert told.fixes_for == fixes_for


@pytest.mark.parametrize(
    ("files", "variables", "view", "sandbox"),
    [
        ({"/proc/cpuinfo": "flags\t: fpu hypervisor\n"}, {}, "virtual machine", None),
        ({"/proc/cpuinfo": "flags\t: fpu\n"}, {}, "host", None),
        ({"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}, {}, "host", "wsl"),
        ({"/proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n", **OWN_PIDS}, {}, "container", "gvisor"),
    ],
)
def test_whose_view_this_is(tmp_path: Path, files: dict[str, Any], variables: dict[str, str], view: str, sandbox: str) -> None:
    told = found(tmp_path, files, variables)

    assert (told.view, told.sandbox) == (view, sandbox)


def test_platform_and_scheduler_are_apart_from_the_container(tmp_path: Path) -> None:
    variables = {"APPTAINER_CONTAINER": "/i.sif", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n", "GITHUB_ACTIONS": "true"}

    told = found(tmp_path, {}, variables)

    assert (told.name, told.scheduler, told.platform) == ("apptainer", "slurm", "github-actions")
