"""Samples that are really read."""

import pytest

from dl_doctor.facts import dataset_samples
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
