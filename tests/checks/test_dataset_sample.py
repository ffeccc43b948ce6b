"""An exception and a death fail and name the index; what we refused ourselves, and a deadline, cannot be told."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_sample import CHECK
from dl_doctor.facts import DatasetSamples, Loader
from dl_doctor.facts.dataset_samples import Reading
from dl_doctor.model import Ended, Verdict
from dl_doctor.units import GIB
from tests.facts import ANSWERED, UNKNOWN, batches, loader, loader_arguments, trouble

ITERABLE = loader(kind="iterable", length=None)


def readings(*seconds: float, opened: tuple[int, ...] = ()) -> tuple[Reading, ...]:
    return tuple(
        Reading(index=str(number), took_s=took_s, opened=number in opened, bytes=100) for number, took_s in enumerate(seconds)
    )


def judged(batch: Any = UNKNOWN, made: Loader | None = None, **fields: Any) -> Verdict:
    known = {"ended": ANSWERED, "allowed_bytes": GIB, "readings": readings(0.01, 0.01), **fields}
    return CHECK.judge(DatasetSamples(**known), made or loader(), batch)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "pass"),
        ({"trouble": trouble("FileNotFoundError: /data/17.png")}, "fail"),
        ({"trouble": trouble("MemoryError: Unable to allocate 4 TiB")}, "error"),  # it was we who refused it
        ({"trouble": trouble("RuntimeError: DefaultCPUAllocator: can't allocate memory")}, "error"),
        ({"ended": Ended(how="killed", signal="SIGSEGV", step="read sample 17"), "readings": ()}, "fail"),
        ({"ended": Ended(how="exited", exit_code=3, step="read sample 17"), "readings": ()}, "fail"),
        ({"ended": Ended(how="raised", error="RuntimeError: no", step="become a worker"), "readings": ()}, "fail"),
        ({"ended": Ended(how="raised", error="MemoryError", step="become a worker"), "readings": ()}, "error"),
        ({"ended": Ended(how="hung", step="read sample 17", state="S"), "readings": ()}, "fail"),  # what no signal interrupts
        ({"ended": Ended(how="stuck", step="read sample 17", state="D"), "readings": ()}, "fail"),
        ({"ended": Ended(how="hung", step="read sample 17", state="R"), "readings": ()}, "error"),  # it computes, and is slow
        ({"ended": Ended(how="hung", step="read sample 17", state="S"), "readings": (), "like_the_job": False}, "skip"),
        ({"ended": Ended(how="killed", signal="SIGSEGV"), "readings": (), "like_the_job": False}, "skip"),
        ({"trouble": trouble("no answer", cpu_s=0.1)}, "fail"),
        ({"trouble": trouble("no answer", cpu_s=19.0)}, "error"),
        ({"trouble": trouble("no answer", cpu_s=0.1), "like_the_job": False}, "skip"),  # spawned workers have no dead thread
        ({"trouble": trouble("KeyError: 7"), "like_the_job": False}, "fail"),  # an exception is one in any process
        ({"readings": ()}, "error"),  # its sampler gives nothing
        ({"readings": (), "made": loader(length=0)}, "skip"),  # dataset-loads fails
        ({"readings": (), "made": ITERABLE}, "fail"),
        ({"batch": batches(trouble=trouble("OSError: truncated"))}, "fail"),  # met only where batches were made
        ({"batch": batches(trouble=trouble("RuntimeError: stack expects", "collate"))}, "pass"),
        ({"batch": batches(trouble=trouble("MemoryError"))}, "pass"),
        ({"batch": batches(trouble=trouble("no answer", cpu_s=0.1, last_s=19.9))}, "fail"),
        ({"batch": batches(trouble=trouble("no answer", cpu_s=0.1, last_s=1.0))}, "pass"),  # many slow ones
        ({"batch": batches(trouble=trouble("no answer", cpu_s=19.0, last_s=19.9))}, "pass"),
        ({"batch": batches(trouble=trouble("no answer", cpu_s=0.1, last_s=19.9), like_the_job=False)}, "pass"),
    ],
)
def test_status(fields: dict[str, Any], status: str) -> None:
    assert judged(**fields).status == status


def test_the_index_and_the_line_are_named() -> None:
    (finding,) = judged(trouble=trouble("FileNotFoundError: /data/17.png")).findings

    assert finding.subject == "dataset[17]"
    assert finding.summary == "Sample 17 cannot be read: FileNotFoundError: /data/17.png"
    assert "It was raised at /job/data.py:30." in finding.why


def test_an_item_of_an_iterator_has_a_place_and_no_index() -> None:
    (finding,) = judged(made=ITERABLE, trouble=trouble("ValueError: damaged", indices=("37",))).findings

    assert finding.summary == "The 38th item of the iterator cannot be read: ValueError: damaged"
    assert finding.fixes[0].commands == ("next(itertools.islice(dataset, 37, None))",)


def test_what_waits_is_told_with_its_line() -> None:
    (finding,) = judged(trouble=trouble("no answer", cpu_s=0.1)).findings

    assert finding.summary == "Sample 17 does not come: after 20 s reading it still waits at /job/data.py:30"


@pytest.mark.parametrize(
    ("ended", "summary", "why"),
    [
        (
            {"how": "raised", "error": "KeyError: 'RANK'", "step": "become a worker"},
            "worker_init_fn raises KeyError: 'RANK'",
            "It was raised at /job/data.py:30.",
        ),
        (
            {"how": "exited", "exit_code": 1, "step": "read sample 4"},
            "exited with 1",
            "It exits at /job/data.py:30.",
        ),
        ({"how": "killed", "signal": "SIGSEGV", "step": "read sample 4"}, "died by SIGSEGV", '"is killed by signal".'),
    ],
)
def test_how_the_process_ended_is_told(ended: dict[str, Any], summary: str, why: str) -> None:
    trace = '  File "/job/data.py", line 30, in seed\nno licence\n'
    made = loader(loader_arguments(worker_init_fn="train.seed"))
    (finding,) = judged(made=made, ended=Ended(**ended, output_tail=trace), readings=()).findings

    assert summary in finding.summary
    assert why in finding.why
    assert ("faulthandler" in str(finding.fixes)) is (ended["how"] == "killed")


@pytest.mark.parametrize(
    ("taken", "levels"),
    [
        (readings(*[0.01] * 20), []),
        (readings(*[0.01] * 18, 0.2, 0.2), ["note"]),
        (readings(*[0.0001] * 18, 0.002, 0.002), []),  # far apart, and too quick to matter
        (readings(*[0.01] * 18, 0.2, 0.2, opened=(18, 19)), []),  # each the first of a file
    ],
)
def test_spread(taken: tuple[Reading, ...], levels: list[str]) -> None:
    assert [finding.level for finding in judged(readings=taken).findings] == levels


def test_the_first_of_a_file_is_told_apart() -> None:
    assert (
        "the first of each of 1 files are not counted in that and took up to 2 s"
        in judged(readings=readings(2, 0.01, 0.01, opened=(0,))).seen
    )
