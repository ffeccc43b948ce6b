"""Made or not is what decides; a name that leads to nothing is the user's to correct, and no fault of the machine."""

from typing import Any

import pytest

from dl_doctor.checks.dataset.dataset_loads import CHECK
from dl_doctor.facts import Loader
from dl_doctor.model import Ended, Verdict
from dl_doctor.units import GIB


def judged(how: Any = "answered", ended: dict[str, Any] | None = None, **fields: Any) -> Verdict:
    made = {"kind": "map", "type": "train.Images", "length": 100, "make_s": 0.25} if how == "answered" else {}
    end = Ended(how=how, **(ended or {}))
    return CHECK.judge(Loader(spec="train.py:make", ended=end, allowed_bytes=GIB, **{**made, **fields}))


@pytest.mark.parametrize(
    ("how", "ended", "fields", "status"),
    [
        ("answered", {}, {}, "pass"),
        ("answered", {}, {"length": None}, "pass"),  # a stream does not say how long it is
        ("answered", {}, {"length": 0}, "fail"),
        ("answered", {}, {"kind": "other"}, "pass"),  # DALI: recognised, and not examined
        ("answered", {}, {"wrong": "there is no file train.py", "kind": None}, "error"),
        ("raised", {"error": "FileNotFoundError: /data"}, {}, "fail"),
        ("raised", {"error": "MemoryError: "}, {}, "error"),  # we refused it: nobody knows whether it would fit
        ("raised", {"error": "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory"}, {}, "error"),
        ("exited", {"exit_code": 0}, {}, "fail"),  # sys.exit(0) ends a job, too
        ("exited", {"exit_code": 2, "output_tail": "usage: train.py --data DIR"}, {}, "error"),  # the job has arguments
        ("exited", {"exit_code": 2, "output_tail": "no data"}, {}, "fail"),
        ("killed", {"signal": "SIGSEGV"}, {}, "fail"),
        ("hung", {}, {}, "error"),  # a slow disk, or for ever: not known
        ("stuck", {"pid": 7, "state": "D"}, {}, "fail"),
        ("unstartable", {"error": "python: No such file or directory"}, {}, "error"),
    ],
)
def test_by_how_it_ended(how: str, ended: dict[str, Any], fields: dict[str, Any], status: str) -> None:
    assert judged(how, ended, **fields).status == status


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ({}, "train.py:make: train.Images of 100 samples, made in 0.25 s"),
        ({"make_s": None}, "train.py:make: train.Images of 100 samples"),  # it was there already
        (
            {"choices": ("['train'] of 'train', 'val'",)},
            "train.py:make, ['train'] of 'train', 'val': train.Images of 100 samples",
        ),
        ({"length": None}, "train.py:make: train.Images of unknown length, made in 0.25 s"),
    ],
)
def test_what_was_found_is_told(fields: dict[str, Any], seen: str) -> None:
    assert judged(**fields).seen.startswith(seen)


def test_the_last_words_of_what_ended_without_an_exception_are_told() -> None:
    (finding,) = judged("exited", {"exit_code": 2, "output_tail": "no data in DIR\n"}).findings

    assert finding.why.endswith("The last that was printed: no data in DIR")


@pytest.mark.parametrize(
    ("step", "when"), [("import train.py", "when it is imported"), ("call train.py:make", "when it is called")]
)
def test_what_reads_a_command_line_is_told_what_to_change(step: str, when: str) -> None:
    (finding,) = judged("exited", {"exit_code": 2, "step": step, "output_tail": "usage: train.py --data DIR\n"}).findings

    assert when in finding.summary
    assert "below the main guard" in finding.fixes[0].title


def test_a_kill_may_be_for_memory() -> None:
    (finding,) = judged("killed", {"signal": "SIGKILL"}).findings

    assert "SIGKILL is what the kernel sends where memory runs out" in finding.why
