"""Every format for six machines, as whole outputs: read them in the diff after `pytest tests/reports --refresh`."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.reports import FORMATS, renderer
from dl_doctor.reports.look import Look
from dl_doctor.settings import Settings
from tests.html import without_style
from tests.recorded import examine_recorded, read
from tests.reports.conftest import steady

MACHINES = {
    "docker-v1": Settings(num_workers=8, batch_bytes=24 << 20),
    "gpu-eight-h100": Settings(expect_gpus=8),
    "gpu-eight-h100-throttled": Settings(num_workers=8, batch_bytes=24 << 20),
    "gpu-without-fabric-manager": Settings(expect_gpus=8),
    "kubernetes-limited-pod": Settings(num_workers=64, batch_bytes=64 << 20),
    "slurm-step": Settings(num_workers=13, batch_bytes=24 << 20),
}

ENDINGS = {"github": "-github.txt", "junit": "-junit.xml"}
"""Of files whose format has none of its own, or shares it."""


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_report(machine: str, format_: str, golden: Any, tmp_path: Path) -> None:
    report = steady(examine_recorded(read(machine)[0], tmp_path, MACHINES[machine]))
    text = without_style(renderer(format_)(report, Look()))

    assert text == golden(machine + ENDINGS.get(format_, str(FORMATS[format_])), text)
