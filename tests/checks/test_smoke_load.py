"""What was not tried, and what a worker's end is told as; real workers are in tests/doctor/facts/test_smoke_load.py."""

from typing import Any

import pytest

from dl_doctor.checks.workers.smoke_load import CHECK
from dl_doctor.facts.smoke_load import too_much
from dl_doctor.model import Ended
from dl_doctor.units import GIB, MIB
from tests.facts import (
    UNKNOWN,
    batches,
    dataset_samples,
    loader,
    loader_arguments,
    loader_plan,
    shared_memory,
    smoke_load,
    trouble,
    worker_memory,
)

LOADER = loader()

FEEDER = """Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
          ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/site-packages/torch/multiprocessing/reductions.py", line 540, in reduce_storage
    fd, size = storage._share_fd_cpu_()
RuntimeError: unable to write to file </torch_7_1_0>: No space left on device (28)
"""


@pytest.mark.parametrize(
    ("printed", "error", "command"),
    [
        (FEEDER, "No space left on device (28)", "docker run --shm-size=8g ..."),
        (FEEDER.replace("No space left on device (28)", "Too many open files (24)"), "Too many open files", "ulimit -n 65536"),
    ],
)
def test_a_lost_batch_is_told_with_its_cause(printed: str, error: str, command: str) -> None:
    verdict = CHECK.judge(smoke_load(late="feeder", printed=printed), LOADER, UNKNOWN, UNKNOWN)
    (finding,) = verdict.findings

    assert verdict.status == "fail"
    assert error in finding.summary
    assert finding.fixes[0].commands == (command,)


@pytest.mark.parametrize(
    ("plan", "allowed", "free", "refused"),
    [
        ({"num_workers": 4}, GIB, GIB, False),
        ({"num_workers": 8, "batch_bytes": 24 * MIB}, 4 * GIB, 64 * MIB, True),  # never fill /dev/shm
        ({"num_workers": 8, "batch_bytes": 24 * MIB}, 4 * GIB, None, False),  # no limit of its own
        ({"num_workers": 8, "batch_bytes": 24 * MIB}, 256 * MIB, GIB, True),
        ({"num_workers": 8, "batch_bytes": 24 * MIB, "ranks": 8}, 700 * MIB, 448 * MIB, False),  # one rank's loader is tried
        ({"num_workers": 8, "start_method": "spawn"}, GIB, GIB, True),  # 8 x 145 MiB
        ({"num_workers": 8, "worker": worker_memory(200 * MIB)}, GIB, GIB, True),  # as one was measured
        ({"num_workers": 0}, GIB, 0, False),
    ],
)
def test_what_takes_too_much_is_not_tried(plan: dict[str, object], allowed: int, free: int | None, refused: bool) -> None:
    known = loader_plan(**plan)  # type: ignore[arg-type]
    told, _ = too_much(known, known.num_workers or 0, known.start_method or "fork", allowed, shared_memory(free_bytes=free))

    assert bool(told) is refused, told


def test_what_was_not_tried_is_no_pass() -> None:
    verdict = CHECK.judge(
        smoke_load(ended=None, refused="it would need 432 MiB", short_of_shared_memory=True), LOADER, UNKNOWN, UNKNOWN
    )

    assert (verdict.status, verdict.findings[0].explained_by) == ("warn", "shm-size")


@pytest.mark.parametrize("how", ["hung", "stuck", "raised", "unstartable"])
def test_a_probe_that_did_not_come_back_is_an_error(how: str) -> None:
    assert CHECK.judge(smoke_load(ended=Ended(how=how)), LOADER, UNKNOWN, UNKNOWN).status == "error"  # type: ignore[arg-type]


def test_the_main_process_died() -> None:
    assert CHECK.judge(smoke_load(ended=Ended(how="killed", signal="SIGBUS")), LOADER, UNKNOWN, UNKNOWN).status == "fail"


CAUGHT = """FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/site-packages/torch/utils/data/_utils/fetch.py", line 52, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
  File "/job/data.py", line 30, in __getitem__
FileNotFoundError: /data/9.png
"""


@pytest.mark.parametrize(
    ("sample", "batch", "status"),
    [
        (trouble(), None, "skip"),  # the same line raised the same exception for another sample
        (None, trouble(), "skip"),
        (None, trouble(stage="collate"), "skip"),
        (trouble("KeyError: 7"), None, "fail"),
        (trouble(trace='File "/job/data.py", line 31'), None, "fail"),
        (trouble("FileNotFoundError", cpu_s=0.1), None, "fail"),  # that one waits
        (None, None, "fail"),
    ],
)
def test_one_cause_is_told_once(sample: Any, batch: Any, status: str) -> None:
    load = smoke_load(raised=CAUGHT)

    assert CHECK.judge(load, LOADER, dataset_samples(trouble=sample), batches(trouble=batch)).status == status


@pytest.mark.parametrize(
    ("raised", "printed", "cause"),
    [
        ("OSError: [Errno 24] Too many open files", "", "fd-limit"),
        ("RuntimeError: received 0 items of ancdata", "", "fd-limit"),
        ("EOFError: ", "OSError: [Errno 24] Too many open files: '/dev/shm/a'", "fd-limit"),  # the worker's end of the pipe
        ("EOFError: ", "", None),
    ],
)
def test_a_lack_of_descriptors_is_named(raised: str, printed: str, cause: str | None) -> None:
    (finding,) = CHECK.judge(smoke_load(raised=raised, printed=printed), LOADER, UNKNOWN, UNKNOWN).findings

    assert finding.explained_by == cause
    assert ("ran out of file descriptors" in finding.summary) is bool(cause)


@pytest.mark.parametrize(
    ("timeout_s", "came_s", "fields", "status"),
    [
        (0.0, (20.0, 40.0), {}, "pass"),  # it waits for ever
        (60.0, (1.0, 2.0), {}, "pass"),
        (5.0, (8.0, 9.0), {}, "fail"),
        (5.0, (1.0, 2.0, 8.0), {}, "fail"),
        (5.0, (1.0, 5.5), {}, "warn"),
        (5.0, (), {"late": "batches"}, "fail"),  # none came in 30 s
        (60.0, (), {"late": "batches"}, "error"),
        (5.0, (8.0, 9.0), {"workers": 0}, "pass"),  # without workers nobody looks at a clock
    ],
)
def test_a_timeout_that_is_shorter_than_a_batch_takes(
    timeout_s: float, came_s: tuple[float, ...], fields: dict[str, Any], status: str
) -> None:
    with_timeout = loader(loader_arguments(timeout_s=timeout_s))

    assert CHECK.judge(smoke_load(*came_s, **fields), with_timeout, UNKNOWN, UNKNOWN).status == status


@pytest.mark.parametrize(
    ("torchs_words", "end"),
    [
        ("is killed by signal: Segmentation fault. ", "A worker died by SIGSEGV"),
        ("is killed by signal: Killed. It is possible that dataloader's workers are out of shared memory.", "died by SIGKILL"),
        ("is killed by signal: Bus error. ", "A worker died by SIGBUS"),
        ("exited unexpectedly with exit code 3. Details are lost due to multiprocessing.", "A worker exited with 3"),
    ],
)
def test_a_worker_that_dies_while_others_are_started_is_told_alike(torchs_words: str, end: str) -> None:
    """The exception is raised in the iterator's constructor then, so that nobody has the list of workers."""
    error = f"RuntimeError: DataLoader worker (pid 15012) {torchs_words}"
    verdict = CHECK.judge(smoke_load(raised=error, processes=()), LOADER, UNKNOWN, UNKNOWN)

    assert verdict.status == "fail"
    assert end in verdict.findings[0].summary
