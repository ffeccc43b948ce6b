"""What a batch takes of shared memory and of a pipe, weighed without taking any."""

from typing import Any

import pytest

from dl_doctor.facts import Loader, batches, examination
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.units import MIB
from tests.collected import collected
from tests.examined import examined
from tests.facts import loader, loader_arguments, readable, start_methods

PAGE = 4096


@pytest.mark.parametrize(
    ("name", "settings", "weight"),
    [
        ("images", {}, (8 * 3 * 64 * 64 * 4 + PAGE, 2, 8)),  # the numbers of 8 samples take a page
        ("images", {"batch_size": 4}, (4 * 3 * 64 * 64 * 4 + PAGE, 2, 4)),
        ("dataset", {"batch_size": 4}, (4 * PAGE, 1, 4)),
        ("views", {}, (8 * 4 * MIB, 8, 8)),  # all of what a view is cut from
        ("chunks", {}, (8 * 8 * MIB, 8, 8)),  # once, however many views show it
        ("shared", {}, (0, 1, 8)),  # the dataset's own: moved once
        ("arrays", {}, (0, 0, 8)),
        ("bucketed", {}, (16 * PAGE, 1, 16)),
        ("unbatched", {}, (4 * PAGE, 1, 1)),
        ("padded", {}, (8 * PAGE, 1, 8)),  # of 8 samples with up to 64 numbers
        ("all_in_each", {}, (PAGE, 1, 4)),
        ("rows_of_one", {}, (128 * 3 * PAGE + PAGE, 2, 128)),  # by the whole tensor it would be 73 GiB
    ],
)
def test_what_a_batch_takes(torch_python: str, name: str, settings: dict[str, Any], weight: tuple[int, int, int]) -> None:
    _, found = examined(torch_python, name, batches.collect, **settings)
    most = found.batch_bytes, found.tensors, found.samples

    assert (found.ended.how, found.trouble, found.made) == ("answered", None, 8)
    assert most == (PAGE, *weight[1:]) if name == "padded" else most == weight


def test_what_the_dataset_keeps_is_told_apart(torch_python: str) -> None:
    _, found = examined(torch_python, "shared", batches.collect)

    assert (found.batch_bytes, found.kept_bytes, found.held_bytes) == (0, 4 * MIB, 4 * MIB)


def test_what_goes_through_the_pipe(torch_python: str) -> None:
    _, found = examined(torch_python, "arrays", batches.collect)

    assert 8 * 256 * 1024 <= found.pipe_bytes <= 8 * 257 * 1024


@pytest.mark.parametrize(
    ("name", "spare"),
    [
        ("views", [("batch[0]", 8, 8 * 4 * MIB, 8 * 4096)]),
        ("chunks", []),  # together they show all of it
        ("shared", [("batch[0]", 1, 4 * MIB, 8 * 4)]),
    ],
)
def test_views_of_more(torch_python: str, name: str, spare: list[Any]) -> None:
    _, found = examined(torch_python, name, batches.collect)

    assert [(view.path, view.views, view.storage_bytes, view.tensor_bytes) for view in found.spare_views] == spare


@pytest.mark.parametrize(
    ("name", "stage", "misfit"),
    [
        ("sizes", "collate", ("sample['image']", ("0", "float32 (3, 32, 32)"), ("5", "float32 (3, 32, 31)"))),
        ("none", "collate", ("sample", ("0", "float32 (3,)"), ("3", "NoneType"))),
        ("keys", "collate", ("sample", ("0", "keys 'image', 'label'"), ("1", "keys 'image'"))),
        ("gradient", "hand over", None),
        ("one_damaged", "read", None),
    ],
)
def test_trouble(torch_python: str, name: str, stage: str, misfit: Any) -> None:
    _, found = examined(torch_python, name, batches.collect)
    told = found.trouble.misfit

    assert (found.ended.how, found.trouble.stage) == ("answered", stage)
    assert (told and (told.path, told.first, told.second)) == misfit


def test_what_does_not_fit_is_predicted_and_not_made(torch_python: str) -> None:
    """1,024 samples of 64 MiB."""
    _, found = examined(torch_python, "huge_batch", batches.collect)

    assert (found.made, found.size_bytes // MIB, found.ended.how) == (0, 64 * 1024, "answered")


def test_what_is_refused_is_not_the_datasets_fault(torch_python: str) -> None:
    _, found = examined(torch_python, "greedy", batches.collect)

    assert found.out_of_memory


def test_a_dataset_alone_needs_the_size_of_a_batch() -> None:
    found = collected(batches.collect, Settings(), loader(), readable())

    assert isinstance(found, Unavailable)
    assert found.kind == "not_asked"


@pytest.mark.parametrize("made", [loader(kind=None), loader(kind="other", arguments=loader_arguments())])
def test_what_was_not_made_is_not_examined(made: Loader) -> None:
    found: Any = examination.collect(Settings(), made, start_methods())

    assert found.kind == "absent"
