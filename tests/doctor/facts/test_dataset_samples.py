"""Samples that are really read."""

from typing import Any

import pytest

from dl_doctor.facts import batches, dataset_samples, readable_dataset, trouble, worker_draws, worker_memory
from dl_doctor.model import Ended, Unavailable
from tests import facts
from tests.examined import examined


def test_samples_are_read_as_a_worker_reads_them(torch_python: str) -> None:
    _, found = examined(torch_python, "images", dataset_samples.collect)

    assert (found.ended.how, found.trouble, len(found.readings)) == ("answered", None, 64)
    assert 3 * 64 * 64 * 4 <= found.largest_bytes < 3 * 64 * 64 * 4 + 1024
    assert 0 < found.median_s <= found.p95_s <= found.slowest.took_s


@pytest.mark.parametrize(("name", "read"), [("subset", 32), ("all_of_few", 5), ("bucketed", 64), ("shared_out", 64)])
def test_only_what_the_loader_would_read_is_read(torch_python: str, name: str, read: int) -> None:
    _, found = examined(torch_python, name, dataset_samples.collect)

    assert (found.ended.how, found.trouble, len(found.readings)) == ("answered", None, read)


def test_an_exception_names_its_index(torch_python: str) -> None:
    _, found = examined(torch_python, "one_damaged", dataset_samples.collect)

    assert found.trouble.indices == ("17",)
    assert found.trouble.error == "FileNotFoundError: /data/17.png"
    assert "in damaged" in found.trouble.trace


def test_a_crash_names_its_index(torch_python: str) -> None:
    _, found = examined(torch_python, "crash", dataset_samples.collect)

    assert (found.ended.how, found.ended.signal, found.ended.step) == ("killed", "SIGSEGV", "read sample 17")


@pytest.mark.parametrize(("name", "refused"), [("greedy", True), ("init_fails", False)])
def test_what_is_refused_is_told_apart(torch_python: str, name: str, refused: bool) -> None:
    _, found = examined(torch_python, name, dataset_samples.collect)

    assert found.out_of_memory is refused


def test_what_does_not_come_tells_where_it_waits(torch_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the job's code catches every Exception and tries again."""
    monkeypatch.setattr(dataset_samples, "PATIENCE_S", 0.5)
    monkeypatch.setattr(trouble, "PATIENCE_S", 0.5)
    _, found = examined(torch_python, "waits", dataset_samples.collect)

    assert (found.ended.how, found.waits, found.obstacle) == ("answered", True, "a sample does not come")
    assert 'datasets.py", line' in found.trouble.trace


def test_what_computes_for_long_does_not_wait(torch_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_samples, "PATIENCE_S", 0.5)
    monkeypatch.setattr(trouble, "PATIENCE_S", 0.5)
    _, found = examined(torch_python, "computes", dataset_samples.collect)

    assert (found.late, found.waits) == (True, False)


@pytest.mark.parametrize(
    ("name", "read", "idle"),
    [("no_items", 0, True), ("items_of_the_last", 3, True), ("all_of_few", 5, False)],
)
def test_an_iterable_dataset_that_gives_the_first_worker_nothing(torch_python: str, name: str, read: int, idle: bool) -> None:
    _, found = examined(torch_python, name, dataset_samples.collect, num_workers=2)

    assert (len(found.readings), found.first_worker_idle) == (read, idle)


@pytest.mark.parametrize(
    ("fields", "obstacle"),
    [
        ({}, None),
        ({"trouble": facts.trouble()}, None),  # one sample
        ({"trouble": facts.trouble("MemoryError")}, "a sample takes more memory than an examination may"),
        ({"ended": Ended(how="killed", signal="SIGSEGV")}, "the process that reads samples died by SIGSEGV"),
        ({"ended": Ended(how="hung", state="S")}, "a sample does not come"),
        ({"readings": ()}, "the dataset gives no sample"),
    ],
)
def test_what_keeps_others_from_reading(fields: dict[str, Any], obstacle: str | None) -> None:
    given: Any = readable_dataset.collect(facts.examination(), facts.dataset_samples(**fields))

    assert given == (Unavailable.absent(f"{obstacle}: see dataset-sample") if obstacle else facts.readable())


@pytest.mark.parametrize(
    ("fields", "settings", "like_the_job"),
    [
        ({}, {}, True),
        ({}, {"start_method": "spawn"}, True),
        ({"threads": ("pool",)}, {"num_workers": 2}, True),  # the job's forked workers lack it too
        ({"threads": ("pool",)}, {"start_method": "spawn"}, False),
        ({"opened": ("/data/a.h5",)}, {"start_method": "spawn"}, False),
        ({"unsafe_at_fork": ("opencv",)}, {"num_workers": 0}, False),  # nothing is forked
    ],
)
def test_whether_the_job_would_hang_too(fields: dict[str, Any], settings: dict[str, Any], like_the_job: bool) -> None:
    assert facts.examination(facts.loader(**fields), **settings).like_the_job is like_the_job


@pytest.mark.parametrize("name", ["no_length", "no_length_by_sampler"])
@pytest.mark.parametrize("collect", [dataset_samples.collect, batches.collect, worker_memory.collect, worker_draws.collect])
def test_who_reads_samples_asks_for_those_of_the_sampler(torch_python: str, name: str, collect: Any) -> None:
    """The dataset's length is nobody's business where there is a sampler of its own."""
    _, found = examined(torch_python, name, collect)

    assert all(ended.how == "answered" for ended in ends_of(found)), found
    assert getattr(found, "trouble", None) is None


def ends_of(fact: Any) -> list[Ended]:
    return [fact.ended] if hasattr(fact, "ended") else [worker.ended for worker in fact.workers]
