"""The error of open(2) decides, and the number that the driver has now."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_device_access import CHECK
from dl_doctor.facts.gpu_access import Node
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import gpu_access, gpu_grant, gpu_nodes, nvidia_driver, runtime, slurm

NO_SLURM = Unavailable.absent("no Slurm")
ALL = ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1")


def judge(
    access: Any = None, driver: Any = None, *, promised: int | None = None, where: str = "docker", job: Any = NO_SLURM
) -> Verdict:
    grant = gpu_grant(promised=promised)
    return CHECK.judge(access or gpu_access(), driver or nvidia_driver(), grant, runtime(where), job)


@pytest.mark.parametrize("where", ["docker", "bare"])
def test_all_nodes_open(where: str) -> None:
    verdict = judge(where=where)

    assert (verdict.status, list(verdict.findings)) == ("pass", [])
    assert "nvidia-uvm, nvidia0, nvidia1, nvidiactl: open" in verdict.seen


@pytest.mark.parametrize(
    ("error", "where", "words", "command"),
    [
        ("EPERM", "docker", "although the mode is 666: the control group forbids it", "docker restart ..."),  # daemon-reload
        ("EPERM", "kubernetes", "control group", "kubectl delete pod ..."),
        ("EACCES", "podman", "by user 0 (EACCES)", "podman run --group-add keep-groups ..."),
        ("ENXIO", "bare", "no device is behind it", "nvidia-modprobe -c 0 -u"),
        ("EIO", "bare", "cannot be opened: EIO", "nvidia-modprobe -c 0 -u"),
    ],
)
def test_the_error_decides(error: str, where: str, words: str, command: str) -> None:
    verdict = judge(gpu_access(errors=dict.fromkeys(ALL, error)), where=where)
    (finding,) = verdict.findings  # one cause, one finding

    assert finding.level == "fail"
    assert words in finding.summary
    assert command in finding.fix_for(where).commands


def test_a_single_node_is_named() -> None:
    (finding,) = judge(gpu_access(errors={"nvidia1": "EPERM"}), promised=2).findings

    assert finding.subject == "/dev/nvidia1"


@pytest.mark.parametrize(
    ("errors", "promised", "status"),
    [
        ({"nvidia1": "EPERM"}, 1, "pass"),  # a task of Slurm's, bound to one of the step's two
        ({"nvidia1": "EPERM"}, None, "pass"),  # docker run -v /dev:/dev --gpus device=0
        ({"nvidia1": "EPERM"}, 2, "fail"),
        ({"nvidia1": "EACCES"}, 1, "fail"),  # no control group says so
        ({"nvidia0": "EPERM", "nvidia1": "EPERM"}, None, "fail"),  # revoked
        ({"nvidia1": "EPERM", "nvidiactl": "EPERM"}, 1, "fail"),  # which belongs to all
    ],
)
def test_gpus_of_others(errors: dict[str, str], promised: int | None, status: str) -> None:
    assert judge(gpu_access(errors=errors), promised=promised).status == status


@pytest.mark.parametrize(
    ("uvm_major", "majors", "status"),
    [
        (510, {"nvidia": 195, "nvidia-uvm": 510}, "pass"),
        (510, {"nvidia": 195, "nvidia-uvm": 508}, "fail"),  # the driver was reloaded; somebody else may answer at 510
        (510, {"nvidia": 195}, "pass"),  # the module is loaded at first use
        (510, {}, "pass"),  # a sandbox with a /proc/devices of its own
        (510, {"nvidia": 195, "nvidiactl": 195, "nvidia-uvm": 510}, "pass"),
        (None, {"nvidia": 195, "nvidia-uvm": 510}, "pass"),
    ],
)
def test_a_node_older_than_the_driver(uvm_major: int | None, majors: dict[str, int], status: str) -> None:
    nodes = (
        Node(name="nvidiactl", error=None, major=195, mode=0o666),
        Node(name="nvidia-uvm", error=None, major=uvm_major, mode=0o666),
        Node(name="nvidia0", error=None, major=195, mode=0o666),
    )

    assert judge(gpu_access(nodes=nodes), nvidia_driver(majors=majors)).status == status


@pytest.mark.parametrize(
    ("missing", "where", "can_make_nodes", "level"),
    [
        ("nvidia-uvm", "docker", True, "fail"),
        ("nvidia-uvm", "bare", True, "note"),  # CUDA makes it when it is first used
        ("nvidia-uvm", "bare", False, "fail"),
        ("nvidiactl", "docker", False, "fail"),
        ("nvidiactl", "bare", True, "note"),
    ],
)
def test_a_node_that_is_not_there(missing: str, where: str, can_make_nodes: bool, level: str) -> None:
    left = tuple(name for name in gpu_nodes(2) if name != missing)
    access = gpu_access(can_make_nodes=can_make_nodes, nodes=())
    (finding,) = judge(access, nvidia_driver(nodes=left), where=where).findings

    assert (finding.level, finding.subject) == (level, f"/dev/{missing}")


def test_a_node_that_was_removed_while_we_looked() -> None:
    assert judge(gpu_access(errors={"nvidia1": "ENOENT"})).status == "pass"


def test_a_slurm_job_without_gpus_is_not_told_off() -> None:
    """Its control group forbids the GPUs, and rightly."""
    assert judge(gpu_access(errors=dict.fromkeys(ALL, "EPERM")), where="bare", job=slurm()).status == "skip"


def test_other_jobs_nodes_are_counted_and_left_alone() -> None:
    verdict = judge(gpu_access(1), nvidia_driver(4), where="bare", job=slurm(gpus=("0",)))

    assert verdict.status == "pass"
    assert "3 of other jobs not tried" in verdict.seen


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(how="hung", step="open /dev/nvidia0"), "error"),
        (Ended(how="killed", signal="SIGKILL"), "error"),
        (Ended(how="stuck", pid=7, state="D", step="open /dev/nvidia0"), "fail"),
    ],
)
def test_what_trying_did(ended: Ended, status: str) -> None:
    assert judge(gpu_access(ended=ended, nodes=())).status == status
