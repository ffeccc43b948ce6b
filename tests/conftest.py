"""Where everything is installed (.ci/run), a test that is skipped has failed: a skip is not a pass."""

import os
from collections.abc import Generator

import pytest

NO_SKIPS = os.environ.get("DL_DOCTOR_NO_SKIPS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if NO_SKIPS and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and DL_DOCTOR_NO_SKIPS is set: {report.longrepr}"
    return report
