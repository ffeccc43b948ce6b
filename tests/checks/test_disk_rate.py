"""Storage is too slow where the step takes more than it gives, and it is what is waited for; else its rates are told."""

from typing import Any

import msgspec
import pytest

from dl_doctor.checks.storage.disk_rate import CHECK
from dl_doctor.facts import Disks
from dl_doctor.facts.bottleneck import Costs
from dl_doctor.model import Unavailable, Verdict
from dl_doctor.units import KIB
from tests.facts import data_path, data_paths, loader, loader_sweep, place

NOT_KNOWN = Unavailable.not_asked("a test")


def costs(**fields: Any) -> Costs:
    """64 KiB from a disk take 4 ms, and nothing to speak of from memory."""
    known = {"samples": 64, "read_s": 0.004, "read_cpu_s": 0.0002, "collate_s": 0.0, "again_s": 0.0002, "stored_bytes": 64 * KIB}
    return Costs(**{**known, **fields})


def judged(bottleneck: Any = "disk", demand: float | None = None, *, data: Any = NOT_KNOWN, disks: Any = NOT_KNOWN,
           conclusion: Any = "change", points: Any = None, kind: Any = "map", **fields: Any) -> Verdict:  # fmt: skip
    """Of a sweep whose best setting delivers 380 samples/s."""
    measured = {} if points is None else {"points": points}
    sweep = loader_sweep(
        conclusion, bottleneck=bottleneck, demand_samples_per_s=demand, evidence="waits", costs=costs(**fields), **measured
    )
    return CHECK.judge(loader(kind=kind), sweep, data, disks)


@pytest.mark.parametrize(
    ("bottleneck", "demand", "fields", "status", "levels"),
    [
        ("disk", 900, {}, "warn", ["warn"]),
        ("network", 900, {"stored_bytes": 0.0}, "warn", ["warn"]),  # what is remote is no disk of ours, and as slow
        ("disk", 900, {"stored_bytes": None}, "warn", ["warn"]),  # workers in state D say enough
        ("disk", 390, {}, "pass", []),  # 380 of 390 is what a fed step takes
        ("gpu", 300, {}, "pass", []),
        ("cpu", 900, {}, "pass", []),  # the need is not met, and not for want of a disk
        ("disk", None, {}, "pass", ["note"]),  # who knows what is fast enough
        ("cpu", None, {}, "pass", ["note"]),
        ("cpu", None, {"again_s": None}, "pass", ["note"]),  # an iterable dataset cannot be read again
        ("cpu", None, {"stored_bytes": 0.0}, "skip", []),  # all in the page cache: nothing was seen of the disk
        ("cpu", 900, {"stored_bytes": 0.0}, "skip", []),
        ("gpu", 300, {"stored_bytes": 1000.0}, "skip", []),  # less than 1 KiB for a sample is something else
        ("cpu", None, {"stored_bytes": None}, "skip", []),  # no /proc/PID/io
    ],
)
def test_by_the_need(bottleneck: str, demand: float | None, fields: dict[str, Any], status: str, levels: list[str]) -> None:
    verdict = judged(bottleneck, demand, **fields)

    assert (verdict.status, [finding.level for finding in verdict.findings]) == (status, levels)


@pytest.mark.parametrize(("rates", "status"), [((100, 200, 380), "pass"), ((100, 380, 385), "warn"), ((380,), "pass")])
def test_workers_that_wait_each_for_itself_are_not_at_its_limit(rates: tuple[float, ...], status: str) -> None:
    """While more of them still gain, nobody knows what the storage could give."""
    model = loader_sweep().points[0]
    points = tuple(
        msgspec.structs.replace(model, num_workers=workers, samples_per_s=rate) for workers, rate in enumerate(rates, start=1)
    )
    verdict = judged(demand=900, points=points)

    assert verdict.status == status
    assert ("more workers than were tried may get them" in verdict.findings[0].why) == (status == "pass")


def test_without_what_a_sample_costs_nobody_knows() -> None:
    verdict = CHECK.judge(loader(), loader_sweep("change", why="change", costs=None), NOT_KNOWN, NOT_KNOWN)

    assert verdict.status == "error"
    assert verdict.reason is not None
    assert "the loader was not measured: change" in verdict.reason.detail


@pytest.mark.parametrize(
    ("demand", "stored", "status", "says"),
    [
        (None, 64 * KIB, "pass", "Whether that is enough is not known: no number of workers was measured."),
        (900, 64 * KIB, "pass", "Whether that is enough is not known: no number of workers was measured."),
        (900, 0.0, "skip", None),
    ],
)
def test_what_one_process_read_is_told_where_no_workers_were_measured(
    demand: float | None, stored: float, status: str, says: str | None
) -> None:
    """Why they were not is the sweep's to say, once."""
    verdict = judged("unknown", demand, conclusion="nothing", points=(), stored_bytes=stored)

    assert (verdict.status, [finding.why for finding in verdict.findings]) == (status, [says] if says else [])


def test_a_loader_that_breaks_is_others_to_tell() -> None:
    assert CHECK.judge(loader(), loader_sweep("broke"), NOT_KNOWN, NOT_KNOWN).status == "skip"


def test_the_first_time_and_again_are_told() -> None:
    (note,) = judged().findings

    assert (
        judged().seen == "in one process a sample is read in 4 ms, with 64 KiB from a disk, and in 0.2 ms when it is read again"
    )
    assert note.summary == "One process reads 250 samples/s for the first time, and 5000 again"
    assert note.why == "It is in the way of more: waits. Whether that is enough, `dl-doctor sweep --step-time` tells."


def test_why_it_was_not_read_again_is_told() -> None:
    assert judged(kind="iterable", again_s=None).seen.endswith("64 KiB from a disk; an iterable dataset is not read again")


@pytest.mark.parametrize(
    ("data", "disks", "command"),
    [
        (NOT_KNOWN, NOT_KNOWN, None),
        (data_paths(data_path("data"), data_path("temporary", written=True)), Disks((place("/tmp"),)), "cp -r /data /tmp/"),
        (data_paths(data_path("temporary", written=True)), Disks((place("/tmp"),)), None),  # nobody named the data
        (data_paths(data_path("data"), data_path("temporary", written=True)), Disks((place("/tmp", "nfs4"),)), None),
    ],
)
def test_a_copy_is_advised_where_there_is_a_place_for_it(data: Any, disks: Any, command: str | None) -> None:
    (finding,) = judged(demand=900, data=data, disks=disks).findings
    commands = [command for fix in finding.fixes for command in fix.commands]

    assert finding.summary == "The disk gives 380 samples/s, and the step takes 900"
    assert commands[-1:] == ([command] if command else [])
    assert len(finding.fixes) == 3
