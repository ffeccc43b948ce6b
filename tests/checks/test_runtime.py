"""The runtime check takes a note and never judges."""

from typing import Any

import pytest

from dl_doctor.checks.container.runtime import CHECK
from dl_doctor.model import Unavailable
from tests.facts import runtime


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"name": "docker"}, "In a container (docker)"),
        ({"name": "bare"}, "On the machine itself"),
        ({"name": "bare", "view": "virtual machine"}, "On a virtual machine"),
        ({"name": "bare", "scheduler": "slurm"}, "On the machine itself, under slurm"),
        ({"name": "apptainer", "scheduler": "slurm"}, "In a container (apptainer), under slurm"),
        (
            {"name": "kubernetes", "platform": "vertex", "sandbox": "gvisor"},
            "In a container (kubernetes), under vertex and gvisor",
        ),
        ({"name": "bare", "view": "mounted root"}, "Another machine's files, seen from outside"),
    ],
)
def test_where_this_is_in_words(fields: dict[str, Any], summary: str) -> None:
    verdict = CHECK.judge(runtime(**fields), Unavailable.absent("no cgroups"))

    assert verdict.status == "pass"
    assert [(finding.level, finding.summary) for finding in verdict.findings] == [("note", summary)]


def test_evidence_is_what_was_seen() -> None:
    verdict = CHECK.judge(runtime(evidence=("/.dockerenv exists", "control group /docker/4f")), Unavailable.absent(""))

    assert verdict.seen == "/.dockerenv exists; control group /docker/4f"
