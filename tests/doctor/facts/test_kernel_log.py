"""The kernel's log: NVIDIA's lines and no others, whose remedy came later, and what stands in the way of reading it."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import kernel_log
from dl_doctor.facts.kernel_log import KernelLog, parse_lines
from dl_doctor.model import Unavailable
from dl_doctor.probes import kernel_log as probe
from tests import facts
from tests.collected import collected

LOGS = Path(__file__).parent / "kernel_logs"


def kept(name: str) -> list[Any]:
    lines: list[Any] = probe.kept(probe.of_a_text((LOGS / name).read_text()))["lines"]
    return lines


def xids(name: str) -> list[tuple[str, int, int, bool]]:
    return [(xid.pci, xid.code, xid.count, xid.over is not None) for xid in parse_lines(kept(name))]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fallen-off-the-bus.log", [("0000:65:00", 79, 2, False), ("0000:65:00", 154, 1, False)]),
        (
            "mended.log",
            [
                ("0000:1a:00", 119, 2, True),  # the driver was loaded again
                ("0000:1a:00", 109, 1, True),  # and of this one it says itself that it is over
                ("0000:1a:00", 154, 2, True),
                ("0000:3b:00", 62, 1, False),  # another GPU's
            ],
        ),
        (
            "programs.log",
            [
                ("0000:07:00", 13, 1, False),
                ("0000:07:00", 43, 1, False),
                ("0000:0f:00", 31, 1, False),  # of an instance
                ("0000:03:00", 31, 1, False),  # an old driver's form
            ],
        ),
    ],
)
def test_recorded_logs(name: str, told: list[tuple[str, int, int, bool]]) -> None:
    assert xids(name) == told


def test_times_and_texts_are_the_last_ones() -> None:
    lost = parse_lines(kept("fallen-off-the-bus.log"))[0]

    assert (lost.last_s, lost.text) == (8138.001002, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")


def test_nothing_else_of_the_log_leaves_the_probe() -> None:
    text = str([kept(file.name) for file in LOGS.glob("*.log")])

    assert "Xid" in text
    for other in ("Command line", "hunter2", "audit", "Serial", "taints", "GPU-5d1c0ab4"):
        assert other not in text


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ("3,339,8123440193,-;NVRM: Xid (PCI:0000:65:00): 79\n SUBSYSTEM=pci\n", [8123.440193, "NVRM: Xid (PCI:0000:65:00): 79"]),
        ("6,1,0,-,caller=T1;first", [0.0, "first"]),
        ("nonsense", [None, ""]),
    ],
)
def test_records_of_the_device(record: str, line: list[Any]) -> None:
    assert probe.of_a_record(record) == line


def test_a_line_without_a_time() -> None:
    (told,) = parse_lines([(None, "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.")])

    assert (told.code, told.last_s) == (79, None)


def test_the_newest_lines_are_kept() -> None:
    many = [[float(second), "NVRM: Xid (PCI:0000:65:00): 31, x"] for second in range(probe.MOST_LINES + 5)]
    found = probe.kept(many)

    assert (len(found["lines"]), found["lines"][0][0], found["since_s"]) == (probe.MOST_LINES, 5.0, 0.0)


@pytest.mark.parametrize(
    ("refusals", "kind", "words"),
    [
        ({"/dev/kmsg": "EPERM", "syslog(2)": "EPERM"}, "denied", "dmesg | grep Xid"),  # kernel.dmesg_restrict, a container
        ({"/dev/kmsg": "ENOENT", "syslog(2)": "EPERM"}, "denied", "/dev/kmsg: ENOENT, syslog(2): EPERM"),
        ({"/dev/kmsg": "ENOENT", "syslog(2)": "ENOSYS"}, "absent", "on the node itself"),
    ],
)
def test_a_log_that_is_not_to_be_had(refusals: dict[str, str], kind: str, words: str) -> None:
    told = kernel_log.refused(refusals)

    assert told.kind == kind
    assert words in told.detail


def asked(**given: Any) -> KernelLog | Unavailable:
    known = {"driver": facts.nvidia_driver(), "grant": facts.gpu_grant(), "runtime": facts.runtime("bare"), **given}
    told: KernelLog | Unavailable = collected(kernel_log.collect, *known.values())
    return told


def test_this_kernels_log() -> None:
    """Whoever may not read it is told so; whoever may finds no Xid, as there is no such driver here."""
    told = asked()

    if isinstance(told, Unavailable):
        assert told.kind in ("denied", "absent")
    else:
        assert (told.ended.how, told.source in ("/dev/kmsg", "syslog(2)")) == ("answered", True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"driver": facts.nvidia_driver(0)}, "no GPU"),
        ({"driver": facts.nvidia_driver(0, platform="wsl", nodes=("dxg",))}, "Windows'"),
        ({"runtime": facts.runtime(sandbox="gvisor")}, "gVisor"),
    ],
)
def test_where_no_such_driver_writes_it(given: dict[str, Any], words: str) -> None:
    told = asked(**given)

    assert isinstance(told, Unavailable)
    assert (told.kind, words in told.detail) == ("absent", True)
