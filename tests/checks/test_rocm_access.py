"""The error of open(2) decides, and whether this job wants AMD's GPUs at all."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.rocm_access import CHECK
from dl_doctor.facts import RocmAccess
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import ANSWERED, gpu_grant, rocm_access, torch_files

ROCM = torch_files(version="2.8.0+rocm6.4", cuda=None, hip="6.4.43482")
CUDA = torch_files()
NO_TORCH = Unavailable.absent("no torch")


def judge(access: Any, torch: Any = ROCM, promised: int | None = None) -> Verdict:
    return CHECK.judge(access, torch, gpu_grant(promised=promised, nodes=("kfd",)))


def test_all_opens() -> None:
    verdict = judge(rocm_access(render=(None, None)))

    assert (verdict.status, list(verdict.findings)) == ("pass", [])
    assert verdict.seen == "kfd opens, renderD128 opens, renderD129 opens"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("EACCES", "it is of group 109, and this process is in 1000"),
        ("EPERM", "the control group of the container"),
        ("EINVAL", "AMD's driver refuses"),  # also as root, with mode 666
        ("ENXIO", "the driver was reloaded"),
        ("EIO", "EIO"),
    ],
)
@pytest.mark.parametrize(
    ("torch", "promised", "level"),
    [
        (ROCM, None, "fail"),
        (NO_TORCH, 1, "fail"),
        (CUDA, None, "note"),  # the display of a laptop whose user computes on NVIDIA's GPU
        (NO_TORCH, None, "note"),
    ],
)
def test_kfd(error: str, words: str, torch: Any, promised: int | None, level: str) -> None:
    (finding,) = judge(rocm_access(kfd=error), torch, promised).findings

    assert (finding.level, finding.subject) == (level, "/dev/kfd")
    assert words in finding.summary
    assert finding.fix_for("docker").commands == ("docker run --device=/dev/kfd --device=/dev/dri --group-add 109 ...",)


@pytest.mark.parametrize(
    ("render", "levels"),
    [
        (("EACCES", "EACCES"), ["fail"]),
        (("EPERM", None), ["note"]),  # one of two GPUs was given
        ((), ["fail"]),  # --device=/dev/kfd alone
    ],
)
def test_render_nodes(render: tuple[str | None, ...], levels: list[str]) -> None:
    assert [finding.level for finding in judge(rocm_access(render=render)).findings] == levels


@pytest.mark.parametrize(("torch", "status"), [(ROCM, "fail"), (CUDA, "skip")])
def test_a_card_on_the_bus_without_kfd(torch: Any, status: str) -> None:
    access = RocmAccess(ended=ANSWERED, bus=("0000:01:00.0",))

    assert judge(access, torch).status == status


@pytest.mark.parametrize(
    ("ended", "status"),
    [(Ended(how="hung"), "error"), (Ended(how="stuck", pid=7, state="D"), "fail"), (Ended(how="killed"), "error")],
)
def test_what_trying_did(ended: Ended, status: str) -> None:
    assert judge(rocm_access(ended=ended)).status == status
