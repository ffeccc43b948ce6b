"""A method that is not there fails; defaults that change are worth a note and no more; what is alive at a fork warns."""

from typing import Any

import pytest

from dl_doctor.checks.workers.start_method import CHECK
from dl_doctor.facts import EntryScript
from dl_doctor.facts.entry_script import Unguarded
from dl_doctor.model import Ended, Unavailable, Verdict
from tests.facts import loader, loader_plan, start_methods

IN_3_14 = {"python": (3, 14, 0), "available": ("forkserver", "spawn", "fork")}
NOT_ASKED = Unavailable.not_asked("needs --dataset or --loader")


def judged(methods: dict[str, Any], made: Any = NOT_ASKED, script: Any = NOT_ASKED, **plan: Any) -> Verdict:
    return CHECK.judge(start_methods(**methods), loader_plan(loader=made, **plan), made, script)


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
