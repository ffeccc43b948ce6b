"""A real loader with real workers, well and broken, by each start method."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.checks.workers.smoke_load import CHECK
from dl_doctor.facts import SmokeLoad
from dl_doctor.facts.smoke_load import load_of
from dl_doctor.model import Verdict
from dl_doctor.units import GIB
from tests.facts import UNKNOWN, loader
from tests.loaders import probed_each, written

WORKERS = {"fork": 2, "spawn": 1, "forkserver": 1}
"""Each that is not forked imports torch, for two seconds; two by spawn are loaded with in tests/lab/test_lost_batches.py."""

RAISES = """
class Bad(Data):
    def __getitem__(self, index):
        if index == 9:
            raise ValueError(f"picture {index} is damaged")
        return super().__getitem__(index)
def make(): return DataLoader(Bad(), batch_size=4)
"""
DIES = """
class Bad(Data):
    def __getitem__(self, index):
        {how}
def make(): return DataLoader(Bad(), batch_size=4)
"""
LOSES = """
def bad(samples): return lambda: samples
def make(): return DataLoader(Data(), batch_size=4, collate_fn=bad)
"""
SAMPLER = """
class Mine(Sampler):
    def __init__(self): self.order = lambda: iter(range(64))
    def __iter__(self): return self.order()
    def __len__(self): return 64
def make(): return DataLoader(Data(), batch_size=4, sampler=Mine())
"""
STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(4)
def make(): return DataLoader(Stream(), batch_size=4)
"""

INFINITE = """
class Again:
    def __init__(self, sampler): self.sampler = sampler
    def __iter__(self):
        while True: yield from self.sampler
class Infinite(DataLoader):
    # as YOLOv5's InfiniteDataLoader
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
        self.iterator = super().__iter__()
    def __len__(self): return len(self.batch_sampler.sampler)
    def __iter__(self):
        for _ in range(len(self)): yield next(self.iterator)
def make(): return Infinite(Data(), batch_size=4, num_workers=2, shuffle=True)
"""
RUNNING = """
def make():
    loader = DataLoader(Data(), batch_size=4, num_workers=2, persistent_workers=True)
    next(iter(loader))
    return loader
"""


def tried(python: str, folder: Path, source: str, **changes: Any) -> tuple[SmokeLoad, Verdict]:
    return tried_by(python, folder, source, ["fork"], **changes)[0]


def tried_by(python: str, folder: Path, source: str, methods: Sequence[str], **changes: Any) -> list[tuple[SmokeLoad, Verdict]]:
    """What is told by each method, in forks of the process that made the loader."""
    plain = {"prefetch_factor": 2, "batch_size": None, "batches": 4, "patience_s": 30, "allowed_bytes": 4 * GIB}
    each = [{**plain, "workers": WORKERS[method], "method": method, **changes} for method in methods]
    answers = probed_each(python, written(folder, source), "smoke_load", each)
    facts = [load_of({**one, "wanted": one["batches"]}, answer) for one, answer in zip(each, answers, strict=True)]
    return [(fact, CHECK.judge(fact, loader(), UNKNOWN, UNKNOWN)) for fact in facts]


PLAIN = "def make(): return DataLoader(Data(), batch_size=4)"
PERSISTENT = "def make(): return DataLoader(Data(), batch_size=4, persistent_workers=True, num_workers=1)"
SEGFAULTS = DIES.format(how="os.kill(os.getpid(), signal.SIGSEGV)")
EXITS = DIES.format(how="os._exit(3)")


@pytest.mark.parametrize(
    ("source", "status", "said", "methods"),
    [
        (PLAIN, "pass", "", "fork spawn forkserver"),
        (PERSISTENT, "pass", "", "fork"),
        (SAMPLER, "pass", "", "fork spawn"),  # it never travels, so that it need not be picklable
        (STREAM, "pass", "", "fork"),
        (INFINITE, "pass", "", "fork spawn"),  # its workers are started in its constructor, and are none of the probe's
        (RUNNING, "pass", "", "fork spawn"),
        (RAISES, "fail", "Loading raised ValueError: picture 9 is damaged", "fork spawn forkserver"),
        (SEGFAULTS, "fail", "A worker died by SIGSEGV", "fork forkserver"),
        (EXITS, "fail", "A worker exited with 3", "fork"),
        (LOSES, "fail", "the loader waits for ever: ", "fork spawn forkserver"),
    ],
)
def test_by_each_method(torch_python: str, tmp_path: Path, source: str, status: str, said: str, methods: str) -> None:
    for fact, verdict in tried_by(torch_python, tmp_path, source, methods.split()):
        assert verdict.status == status, fact
        assert said in "".join(finding.summary for finding in verdict.findings), fact


def test_a_batch_that_is_lost_is_named_at_once(torch_python: str, tmp_path: Path) -> None:
    """The feeder thread prints its traceback and drops the batch; nobody waits for the patience to end."""
    fact, verdict = tried(torch_python, tmp_path, LOSES)

    assert (fact.late, fact.came_s) == ("feeder", ())
    assert "bad.<locals>.<lambda>" in (fact.feeder_error or "")
    assert verdict.findings[0].fixes[0].title.startswith("Return from collate_fn only what can be pickled")


def test_the_line_that_raised_is_told(torch_python: str, tmp_path: Path) -> None:
    _, verdict = tried(torch_python, tmp_path, RAISES)

    assert f"It was raised at {tmp_path}/job.py:" in verdict.findings[0].why


def test_a_hang_is_an_error_and_says_what_the_workers_do(torch_python: str, tmp_path: Path) -> None:
    fact, verdict = tried(torch_python, tmp_path, DIES.format(how="time.sleep(60)"), patience_s=2)

    assert (fact.late, verdict.status) == ("time", "error")
    assert verdict.reason is not None
    assert "is in state S" in verdict.reason.detail


def test_slow_workers_are_told_from_a_hang(torch_python: str, tmp_path: Path) -> None:
    """They have used as much of the CPU as there was."""
    _, verdict = tried(torch_python, tmp_path, DIES.format(how="while True: pass"), patience_s=2, workers=1)

    assert verdict.reason is not None
    assert "is in state R" in verdict.reason.detail


def test_what_our_own_limit_stopped_is_no_fault_of_the_dataset(torch_python: str, tmp_path: Path) -> None:
    _, verdict = tried(torch_python, tmp_path, DIES.format(how="return torch.ones(1 << 28)"), allowed_bytes=1 << 28)

    assert [finding.level for finding in verdict.findings] == ["warn"]
    assert verdict.status == "error"


def test_without_workers(torch_python: str, tmp_path: Path) -> None:
    fact, verdict = tried(torch_python, tmp_path, RAISES, workers=0)

    assert (verdict.status, len(fact.came_s)) == ("fail", 2)
