"""What these machines are made of has to be there."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.lab.broken", "tests.lab.doctor")


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if shutil.which("runc") is None:
        pytest.skip("needs runc")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder in which a socket has its name: that has 107 characters at most, and tmp_path is long where pytest-xdist runs."""
    with tempfile.TemporaryDirectory(prefix="lab-", dir="/tmp") as folder:
        yield Path(folder)
