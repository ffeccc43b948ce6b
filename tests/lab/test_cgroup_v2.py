"""The broken container, and a limit of a group above, under a kernel that has cgroup v2 only."""

import shlex
import sys
from dataclasses import replace

import pytest

from tests.lab import broken, guest
from tests.lab.broken import MIB
from tests.lab.container import CgroupNamespace
from tests.lab.doctor import command, report_of

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    if guest.KERNEL is None:
        pytest.skip("needs user-mode-linux")


@pytest.mark.parametrize("namespace", ["host", "private"])
def test_a_broken_container(namespace: CgroupNamespace) -> None:
    recipe = replace(broken.RECIPE, cgroup_namespace=namespace)
    contained = [sys.executable, "-m", "tests.lab.container", recipe.to_json(), *command(broken.PLAN)]
    report = report_of(guest.run(shlex.join(contained)))
    assert report.machine.cgroup == "v2"
    broken.assert_broken(report)


def test_the_limit_of_a_group_above_and_an_xid_in_the_log() -> None:
    """One guest, and one report, for both: booting takes longer than either."""
    script = f"""
        echo '<3>NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.' >/dev/kmsg
        echo '<3>what else the kernel says is nobody else'"'"'s business' >/dev/kmsg
        mknod /dev/nvidia0 c 195 0
        cd /sys/fs/cgroup
        echo +memory >cgroup.subtree_control
        mkdir -p job/step
        echo +memory >job/cgroup.subtree_control
        echo 512M >job/memory.max
        test "$(cat job/step/memory.max)" = max
        echo $$ >job/step/cgroup.procs
        {shlex.join(command(broken.PLAN))}
    """
    ended = guest.run(script)
    report = report_of(ended)
    broken.assert_short_of_memory(report, 512 * MIB)

    (xid,) = [finding.summary for result in report.results if result.id == "gpu-xid" for finding in result.findings]
    assert xid.startswith("Xid 79 of 0000:65:00: the GPU has fallen off the bus (")
    assert "nobody else" not in ended.stdout
