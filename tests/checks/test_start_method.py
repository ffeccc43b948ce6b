"""A method that is not there fails; defaults that change are worth a note and no more; what is alive at a fork warns."""

from typing import Any

import pytest

from dl_doctor.checks.dataset import dataset_cuda
from dl_doctor.checks.workers.start_method import CHECK
from dl_doctor.facts import EntryScript
from dl_doctor.facts.entry_script import Unguarded
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import dataset_objects, loader, loader_plan, start_methods, worker_cuda

IN_3_14 = {"python": (3, 14, 0), "available": ("forkserver", "spawn", "fork")}
NOT_ASKED = Unavailable.not_asked("needs --dataset or --loader")


def judged(methods: dict[str, Any], made: Any = NOT_ASKED, script: Any = NOT_ASKED, **plan: Any) -> Verdict:
    return CHECK.judge(start_methods(**methods), loader_plan(loader=made, **plan), made, script, NOT_ASKED, NOT_ASKED)


@pytest.mark.parametrize(
    ("methods", "plan", "levels", "seen"),
    [
        ({}, {}, ["note"], "fork (this Python's default"),
        ({}, {"num_workers": 0}, [], "without workers"),
        ({}, {"start_method": "fork"}, [], "fork (--start-method)"),  # said, so no default decides
        ({}, {"start_method": "spawn"}, [], "spawn (--start-method)"),
        ({"chosen": "spawn"}, {}, [], "spawn (set where"),
        ({"chosen": "spawn"}, {"start_method": "fork"}, [], "fork (--start-method)"),
        (IN_3_14, {}, ["note"], "forkserver (this Python's default"),
        ({"available": ("spawn",)}, {}, [], "spawn"),  # Windows, where nothing changes
        ({"available": ("spawn", "fork", "forkserver")}, {}, [], "spawn"),  # macOS since 3.8
        ({"available": ("fork", "spawn")}, {}, [], "fork"),  # no forkserver without passing descriptors: it stays fork
        ({"available": ("spawn",)}, {"start_method": "fork"}, ["fail"], "fork (--start-method)"),
        ({"available": ("fork", "spawn")}, {"start_method": "forkserver", "num_workers": 4}, ["fail"], "forkserver"),
    ],
)
def test_the_method_in_force(methods: dict[str, Any], plan: dict[str, Any], levels: list[str], seen: str) -> None:
    verdict = judged(methods, **plan)

    assert [finding.level for finding in verdict.findings] == levels
    assert seen in verdict.seen


def test_what_the_program_sets_is_told_as_the_programs() -> None:
    verdict = judged({}, loader(default_method="spawn"))

    assert verdict.seen.startswith("spawn (set by the program)")
    assert verdict.findings == []


@pytest.mark.parametrize(
    ("method", "made", "levels"),
    [
        ("fork", {"threads": ("Thread-1 (monitor)",)}, []),  # ordinary threads
        ("fork", {"unsafe_at_fork": ("jax",)}, ["warn"]),
        ("fork", {"unsafe_at_fork": ("fsspec", "tokenizers")}, ["warn", "warn"]),
        ("spawn", {"unsafe_at_fork": ("fsspec", "tokenizers")}, []),
        ("spawn", {"daemonic": True}, ["fail"]),
        ("fork", {"daemonic": True}, ["fail"]),
    ],
)
def test_the_process_that_starts_workers(method: str, made: dict[str, Any], levels: list[str]) -> None:
    assert [finding.level for finding in judged({}, loader(**made), start_method=method).findings] == levels


@pytest.mark.parametrize(("method", "level"), [("fork", "note"), ("spawn", "fail"), ("forkserver", "fail")])
def test_a_script_without_a_main_guard(method: str, level: str) -> None:
    """It matters also where the dataset could not be made: importing such a script may be what ended it."""
    script = EntryScript(ended=Ended(how="answered"), path="/code/train.py", unguarded=(Unguarded(88, "main()"),))
    (finding,) = judged({}, NOT_ASKED, script, start_method=method).findings

    assert (finding.level, finding.subject) == (level, "/code/train.py:88")


LINE = "/code/train.py:40 in __getitem__"


@pytest.mark.parametrize(
    ("method", "begun", "used_at", "held", "told"),
    [
        ("fork", True, None, (), []),  # the main process may
        ("fork", True, LINE, (), ["start-method fail"]),
        ("fork", False, LINE, (), ["dataset-cuda fail"]),  # and the main process will, before it trains
        ("fork", True, LINE, ("dataset.mean",), ["dataset-cuda fail", "dataset-cuda fail"]),
        ("spawn", True, LINE, (), ["dataset-cuda warn"]),
    ],
)
def test_cuda_in_workers_is_told_once(
    method: str, begun: bool, used_at: str | None, held: tuple[str, ...], told: list[str]
) -> None:
    made, objects, use = loader(cuda_used=begun), dataset_objects(on_gpu=held), worker_cuda(used_at=used_at)
    plan = loader_plan(loader=made, start_method=method, num_workers=2)
    of_method = CHECK.judge(start_methods(), plan, made, NOT_ASKED, objects, use)
    of_dataset = dataset_cuda.CHECK.judge(made, objects, use, start_methods(), plan, NOT_ASKED)

    assert [f"start-method {finding.level}" for finding in of_method.findings] + [
        f"dataset-cuda {finding.level}" for finding in of_dataset.findings
    ] == told
