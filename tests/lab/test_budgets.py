"""Budgets against reality: what the doctor says of shared memory and descriptors, and the peaks of real loaders of torch."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import Allowance, Batches, Loader, LoaderPlan, Target, batches, loader
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from tests.collected import collected
from tests.facts import allowance, loader_plan, readable, target
from tests.lab.doctor import report_of, table

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount of its own"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]

LOADERS = Path(__file__).with_name("loaders.py")


def configuration(kind: str, workers: int, prefetch: int, method: str = "fork", ranks: int = 1) -> dict[str, Any]:
    made = {"kind": kind, "workers": workers, "prefetch": prefetch, "method": method, "ranks": ranks}
    return {**made, "batch_size": 8}


CONFIGURATIONS = [
    configuration("tensors", 1, 1),
    configuration("tensors", 1, 4),
    configuration("tensors", 2, 2),
    configuration("tensors", 4, 3),
    configuration("tensors", 8, 2),
    configuration("tensors", 2, 2, ranks=2),
    configuration("tensors", 2, 2, method="spawn"),
    configuration("many", 2, 2),
    configuration("many", 8, 4),
    configuration("many", 1, 2, method="spawn"),
    configuration("views", 2, 2),
    configuration("views", 4, 1),
    configuration("mixed", 2, 2),
    configuration("mixed", 3, 1, ranks=2),
    configuration("slices", 2, 2),
    configuration("slices", 2, 2, method="spawn"),
    configuration("arrays", 2, 2),  # nothing in shared memory but the locks
]


@pytest.fixture(scope="module")
def peaks(torch_python: str) -> list[dict[str, int]]:
    """Of all configurations, one after the other, in a tmpfs of their own that nobody else uses."""
    script = 'mount -t tmpfs -o size=2g shm /dev/shm; exec "$@"'
    command = [torch_python, "-W", "ignore", LOADERS, json.dumps(CONFIGURATIONS)]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, int]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def measured(torch_python: str) -> dict[str, Batches]:
    """What the collectors say of the batches of each kind."""
    python = target(path=torch_python)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for kind in dict.fromkeys(made["kind"] for made in CONFIGURATIONS):
            patch.setenv("LAB_CONFIGURATION", json.dumps(configuration(kind, 1, 2)))
            settings = Settings(loader=f"{LOADERS}:make_loader")
            found[kind] = collected(examined, settings, python, allowance(8 << 30))
    return found


async def examined(probes: Probes, settings: Settings, python: Target, allowed: Allowance) -> Batches:
    made = await loader.collect(probes, settings, python, allowed)
    assert isinstance(made, Loader), made
    found = await batches.collect(probes, settings, readable(made), made)
    assert isinstance(found, Batches), found
    return found


@pytest.mark.parametrize(
    "number", range(len(CONFIGURATIONS)), ids=lambda number: "-".join(map(str, CONFIGURATIONS[number].values()))
)
def test_predicted_against_peaks(number: int, measured: dict[str, Batches], peaks: list[dict[str, int]]) -> None:
    made, peak = CONFIGURATIONS[number], peaks[number]
    plan = predicted(made, measured[made["kind"]])
    two_batches = 2 * (plan.batch_bytes or 0)
    descriptors = peak["inherited"] + plan.descriptors_at_worst

    assert peak["polls"] > 200
    assert plan.shm_need_bytes is not None
    assert peak["shm_bytes"] <= plan.shm_need_bytes <= 1.1 * peak["shm_bytes"] + two_batches
    assert peak["descriptors"] <= descriptors <= 2 * peak["descriptors"] + 32


def predicted(made: dict[str, Any], found: Batches) -> LoaderPlan:
    return loader_plan(
        ranks=made["ranks"],
        batches=found,
        num_workers=made["workers"],
        prefetch_factor=made["prefetch"],
        start_method=made["method"],
        batch_size=made["batch_size"],
    )


def test_weighing_takes_no_shared_memory(torch_python: str, tmp_path: Path) -> None:
    """Batches of 96 MiB, with 1 MiB of /dev/shm: a worker would be refused it, or fill it."""
    loader_named = f"--loader={LOADERS.parents[1] / 'datasets.py'}:large"
    doctor = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-f", "json", "--python", torch_python, loader_named]
    script = 'mount -t tmpfs -o size=1m shm /dev/shm; exec "$@"'
    ended = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *doctor, "-s", "dataset-collate,shm-size"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    report = report_of(ended)

    assert table(report) == {"dataset-collate": "pass", "shm-size": "fail"}
    assert report.facts["batches"]["batch_bytes"] == 8 * 3 * 1024 * 1024 * 4
