"""What the renderings have in common: reports, and a browser."""

from collections.abc import Iterator

import msgspec
import pytest

from dl_doctor.model import Report
from dl_doctor.settings import Settings
from tests.browser import Browser, started
from tests.recorded import examine_recorded, read


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of a container with too little shared memory."""
    machine, _ = read("docker-v1")
    settings = Settings(num_workers=8, batch_bytes=24 << 20)
    report = examine_recorded(machine, tmp_path_factory.mktemp("machine"), settings)
    return steady(report)


def steady(report: Report) -> Report:
    """Without what differs from run to run."""
    results = tuple(msgspec.structs.replace(result, duration_s=0.001) for result in report.results)
    run = msgspec.structs.replace(report.run, duration_s=0.02, id="0123456789abcdef", collected_s={})
    return msgspec.structs.replace(report, results=results, run=run)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser
