"""CUDA in workers fails under fork and warns otherwise; that the main process uses it is nothing."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_cuda import CHECK
from dl_doctor.model import Ended, Unavailable
from tests.facts import UNKNOWN, dataset_objects, loader, loader_plan, start_methods, worker_cuda

LINE = "/code/train.py:40 in __getitem__"


@pytest.mark.parametrize(
    ("on_gpu", "use", "method", "status"),
    [
        ((), {}, "fork", "pass"),
        (("dataset.mean",), {}, "fork", "fail"),
        (("dataset.mean",), {}, "spawn", "warn"),
        ((), {"used_at": LINE, "error": "NoCuda: ..."}, "fork", "fail"),
        ((), {"used_at": LINE, "error": "NoCuda: ..."}, "forkserver", "warn"),
        ((), {"error": "KeyError: 0"}, "fork", "pass"),  # another check's
        ((), {"ended": Ended(how="hung")}, "fork", "error"),
        (("dataset.mean",), {"ended": Ended(how="hung")}, "fork", "fail"),  # enough is known
    ],
)
def test_by_method(on_gpu: tuple[str, ...], use: dict[str, Any], method: str, status: str) -> None:
    plan = loader_plan(start_method=method, num_workers=2)

    assert (
        CHECK.judge(loader(), dataset_objects(on_gpu=on_gpu), worker_cuda(**use), start_methods(), plan, UNKNOWN).status == status
    )


def test_the_line_is_named() -> None:
    verdict = CHECK.judge(
        loader(), dataset_objects(), worker_cuda(used_at=LINE), start_methods(), loader_plan(num_workers=2), UNKNOWN
    )

    assert [finding.subject for finding in verdict.findings] == [LINE]


def test_without_workers_samples_may_use_cuda() -> None:
    verdict = CHECK.judge(
        loader(), dataset_objects(), worker_cuda(used_at=LINE), start_methods(), loader_plan(num_workers=0), UNKNOWN
    )

    assert verdict.status == "pass"


def test_what_samples_do_may_be_unknown() -> None:
    verdict = CHECK.judge(
        loader(), dataset_objects(), Unavailable.timeout("late"), start_methods(), loader_plan(num_workers=2), UNKNOWN
    )

    assert verdict.status == "error"
