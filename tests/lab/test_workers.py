"""Budgets of workers against reality: what one worker that read at most 2,000 samples tells of all of them after an epoch."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dl_doctor.facts import WorkerMemory
from dl_doctor.facts.worker_memory import PATIENCE_S, READING_S, SAMPLES
from dl_doctor.probing import HERE
from dl_doctor.units import GIB
from tests.loaders import probed, written

pytestmark = pytest.mark.lab

HANDING_OVER_S = 0.05
"""What collating a batch and handing it over takes at most: the one worker that tells does neither. It is much of a forked start
of 0.1 s, and nothing of one that imports torch.
"""

OF = """
def make(**options):
    return DataLoader({data}, batch_size={batch_size}, shuffle={shuffle}, **options)
"""
HOLDS = """
class Holds(Data):
    def __init__(self, held): self.held = held
    def __len__(self): return len(self.held)
    def __getitem__(self, index): return len(str(self.held[index]))
"""
STRINGS = HOLDS + "def held(): return ['/data/train/class/%012d.jpg' % n for n in range(150_000)]" + OF
SHUFFLED = """
def held():
    import random
    names = ['/data/%012d.jpg' % n for n in range(200_000)]
    random.Random(1).shuffle(names)
    return names
"""
MIXED = HOLDS + SHUFFLED + OF
RECORDS = HOLDS + "def held(): return [{'path': '/data/%012d' % n, 'box': [n, n + 1.5]} for n in range(60_000)]" + OF
ARRAY = HOLDS.replace("len(str(self.held[index]))", "self.held[index] + 1") + "def held(): return torch.arange(150_000)" + OF
CACHE = """
class Keeps(Data):
    def __init__(self): self.kept = {{}}
    def __len__(self): return 20_000
    def __getitem__(self, index):
        return self.kept.setdefault(index, torch.zeros(1024))
""".replace("{{", "{").replace("}}", "}")
DECODES = """
class Decodes(Data):
    def __len__(self): return 6_000
    def __getitem__(self, index):
        return torch.randint(0, 255, (3, 96, 96), dtype=torch.uint8).float() / 255
"""


def measured(python: str, folder: Path, source: str, method: str, batch_size: int, length: int) -> WorkerMemory:
    arguments = {"method": method, "batch_size": batch_size, "samples": SAMPLES, "reading_s": READING_S}
    arguments |= {"patience_s": PATIENCE_S, "allowed_bytes": 4 * GIB}
    answer = probed(python, written(folder, source), "worker_memory", arguments)
    assert answer.answer, answer
    known = {"method": method, "allowed_bytes": 4 * GIB, "length": length, "batch_size": batch_size, "ended": answer.ended}
    return msgspec.convert({**known, **answer.answer}, WorkerMemory)


def epoch(python: str, folder: Path, method: str, workers: int) -> Any:
    command = [python, str(Path(__file__).with_name("epoch.py")), str(HERE / "probes" / "worker_memory.py"), str(folder)]
    done = subprocess.run([*command, str(workers), method], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("source", "data", "length", "method", "workers", "shuffle"),
    [
        (STRINGS, "Holds(held())", 150_000, "fork", 1, True),
        (STRINGS, "Holds(held())", 150_000, "fork", 4, True),
        (STRINGS, "Holds(held())", 150_000, "fork", 2, False),
        (MIXED, "Holds(held())", 200_000, "fork", 4, True),  # neighbours in the list are none in memory
        (RECORDS, "Holds(held())", 60_000, "fork", 2, True),
        (RECORDS, "Holds(held())", 60_000, "fork", 4, False),
        (ARRAY, "Holds(held())", 150_000, "fork", 2, True),  # nothing is copied
        (CACHE + OF, "Keeps()", 20_000, "fork", 2, True),  # each keeps what it has read
        (DECODES + OF, "Decodes()", 6_000, "fork", 2, True),
        (STRINGS, "Holds(held())", 150_000, "spawn", 2, True),
        (CACHE + OF, "Keeps()", 20_000, "spawn", 1, False),
        (RECORDS, "Holds(held())", 60_000, "forkserver", 2, True),
    ],
)
def test_memory_after_an_epoch(
    torch_python: str, tmp_path: Path, source: str, data: str, length: int, method: str, workers: int, shuffle: bool
) -> None:
    batch_size = 64
    text = source.replace("{data}", data).replace("{batch_size}", str(batch_size)).replace("{shuffle}", str(shuffle))
    one = measured(torch_python, tmp_path, text, method, batch_size, length)
    real = epoch(torch_python, tmp_path, method, workers)
    predicted, largest = one.bytes_after_epoch(workers), max(real["private_bytes"])

    assert one.samples <= SAMPLES
    assert largest <= predicted <= 1.5 * largest


@pytest.fixture
def _one_quiet_cpu() -> Iterator[None]:
    """All that is started here has one CPU, ahead of whatever else runs on the machine, and shares it in turns.

    On several CPUs the kernel does not spread such processes evenly, and others would take half of the time and more.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, allowed)


@pytest.mark.alone
@pytest.mark.usefixtures("_one_quiet_cpu")
@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("fork", 8), ("spawn", 3), ("forkserver", 2)])
def test_start_up(torch_python: str, tmp_path: Path, method: str, workers: int) -> None:
    """What one worker's start tells of the start of several. Of short ones the better of two: the kernel takes such processes off
    the CPU for 50 ms of each second.
    """
    text = DECODES.replace("6_000", "600") + OF.format(data="Decodes()", batch_size=64, shuffle=True)
    tries = range(2 if method == "fork" else 1)
    ones = [measured(torch_python, tmp_path, text, method, 64, 600) for _ in tries]
    predicted_s = min(one.seconds_to_first_batch(workers, cpus=1) or 0 for one in ones)
    real_s = min(epoch(torch_python, tmp_path, method, workers)["first_s"] for _ in tries)

    assert (real_s - HANDING_OVER_S) / 1.5 <= predicted_s <= 1.5 * real_s
