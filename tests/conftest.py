"""Where everything is installed (.ci/run), a test that is skipped has failed: a skip is not a pass."""

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.fakes import Fakes

NO_SKIPS = os.environ.get("TESTS_NO_SKIPS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if NO_SKIPS and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and TESTS_NO_SKIPS is set: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def torch_python() -> str:
    """The interpreter of an environment with torch (CPU), which `make test` sets up; it is a job's, not ours."""
    path = Path(__file__).parent.parent / ".venv-torch" / "bin" / "python"
    if not path.exists():
        pytest.skip(f"{path} is not there; `make test` makes it")
    return str(path)


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Fakes:
    """NVIDIA's libraries as we wrote them, compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs cc, a C compiler")
    return Fakes(tmp_path_factory.mktemp("fakes"), compiler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh", action="store_true", help="write golden outputs anew; then read them in the diff")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """What an output should be: the text of a file beside the test, by its name and, for --refresh, the text of today."""

    def expected(name: str, text: str) -> str:
        path = Path(request.path).with_name(name)
        if request.config.getoption("--refresh"):
            path.write_text(text, encoding="utf-8")
        return path.read_text(encoding="utf-8")

    return expected
