"""What these machines are made of has to be there."""

import os
import shutil

import pytest

pytest.register_assert_rewrite("tests.lab.broken", "tests.lab.doctor")


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("runc") is None:
        pytest.skip("needs runc")
