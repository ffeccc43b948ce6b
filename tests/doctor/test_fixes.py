"""Fixes that several checks share say the most that fits, and find it without trying every number."""

import pytest

from dl_doctor.fixes import ask_for_less
from tests.facts import loader_plan


@pytest.mark.parametrize(
    ("num_workers", "prefetch_factor", "most", "options"),
    [
        (8, 2, 100, "num_workers=8, prefetch_factor=1"),
        (8, 1, 100, "num_workers=7, prefetch_factor=1"),  # as many as now are no less
        (8, 2, 3, "num_workers=3, prefetch_factor=1"),
        (8, 2, 0, "num_workers=0"),
        (8, 2, -1, None),
        (0, 2, 100, None),
        (1, 1, 0, "num_workers=0"),
        (10**9, 2, 12_345, "num_workers=12345, prefetch_factor=1"),
    ],
)
def test_the_most_that_fits(num_workers: int, prefetch_factor: int, most: int, options: str | None) -> None:
    tried = []

    def fits(workers: int, _: int) -> bool:
        tried.append(workers)
        return workers <= most

    fixes = ask_for_less(loader_plan(num_workers=num_workers, prefetch_factor=prefetch_factor), fits)

    assert [fix.commands for fix in fixes] == ([(f"DataLoader(..., {options})",)] if options else [])
    assert len(tried) <= 40
