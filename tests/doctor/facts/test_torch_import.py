"""Whatever importing torch does to the process that does it, is told."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import Target, TorchImport, torch_import
from dl_doctor.fork_server import TAIL_BYTES
from dl_doctor.model import Unavailable
from tests.collected import collected
from tests.facts import memory_budget, torch_files


def imported(python: str = sys.executable) -> TorchImport:
    target = Target(path=python, why="a test", has_torch=True)
    told: TorchImport = collected(torch_import.collect, target, torch_files(), memory_budget())
    return told


def test_where_it_would_take_the_last_memory_it_is_not_imported() -> None:
    target = Target(path="/nonexistent", why="a test", has_torch=True)
    told = collected(torch_import.collect, target, torch_files(), memory_budget(headroom=100 << 20, limit=512 << 20))

    assert told == Unavailable.not_asked(
        "importing torch takes about 140 MiB and 100 MiB of memory are left: it could end the job"
    )


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lay a torch of this text onto the import path."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def lay(text: str) -> None:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text(text)

    return lay


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (
            "import os; raise OSError('libcudnn.so.9: cannot open')",
            {"how": "raised", "error": "OSError: libcudnn.so.9: cannot open"},
        ),
        ("import sys; sys.exit(3)", {"how": "exited", "exit_code": 3}),
        ("raise KeyboardInterrupt", {"how": "raised", "error": "KeyboardInterrupt: "}),
        ("import os; os._exit(0)", {"how": "exited", "exit_code": 0}),
        ("import os; os.kill(os.getpid(), 4)", {"how": "killed", "signal": "SIGILL"}),
        ("import ctypes; ctypes.string_at(0)", {"how": "killed", "signal": "SIGSEGV"}),
        ("import os; os.abort()", {"how": "killed", "signal": "SIGABRT"}),
    ],
)
def test_what_ends_the_process(torch: Any, text: str, ended: dict[str, Any]) -> None:
    torch(text)
    told = imported()

    assert {name: getattr(told.ended, name) for name in ended} == ended
    assert (told.ended.step, told.import_s) == ("import torch", None)


def test_a_hang_is_named_before_the_runs_time_is_over(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_import, "DEADLINE_S", 0.5)
    torch("import time; time.sleep(60)")
    begin = time.monotonic()

    assert (imported().ended.how, imported().ended.step) == ("hung", "import torch")
    assert time.monotonic() - begin < 10


def test_the_deadline_fits_into_the_time_that_a_run_has() -> None:
    from dl_doctor.collecting import DEFAULT_TIMEOUT_S  # noqa: PLC0415

    assert torch_import.DEADLINE_S <= DEFAULT_TIMEOUT_S - 10


def test_of_megabytes_of_output_the_end_is_kept(torch: Any) -> None:
    torch("print('x' * 5_000_000)\nimport os, sys\nsys.stdout.flush()\nos.write(2, b'the end')\nos._exit(1)")
    tail = imported().ended.output_tail

    assert tail.endswith("the end")
    assert len(tail) <= TAIL_BYTES


def test_output_does_not_keep_it_from_answering(torch: Any) -> None:
    torch("print('x' * 5_000_000)\n__version__ = '1.0'\n")

    assert imported().version == "1.0"


def test_a_mask_that_shrinks(torch: Any) -> None:
    torch("import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})")
    told = imported()

    assert told.affinity_before == tuple(sorted(os.sched_getaffinity(0)))
    assert told.affinity_after == (max(os.sched_getaffinity(0)),)


def test_something_that_is_no_pytorch_is_imported_all_the_same(torch: Any, tmp_path: Path) -> None:
    torch("")
    told = imported()

    assert [path.name for path in tmp_path.rglob("*")] == ["torch", "__init__.py"]  # no __pycache__
    assert (told.ended.how, told.version, told.cuda, told.parallel_backend) == ("answered", None, None, None)


def test_a_numpy_that_does_not_fit(torch: Any, tmp_path: Path) -> None:
    torch("def from_numpy(array):\n    raise RuntimeError('Numpy is not available')\n")
    (tmp_path / "numpy.py").write_text("def zeros(size):\n    return [0.0]\n")

    assert imported().numpy_error == "RuntimeError: Numpy is not available"


def test_the_real_one(torch_python: str) -> None:
    told = imported(torch_python)

    assert told.ended.how == "answered"
    assert told.import_s is not None
    assert 0.1 < told.import_s < torch_import.DEADLINE_S
    assert told.affinity_after == told.affinity_before == tuple(sorted(os.sched_getaffinity(0)))
    assert (told.parallel_backend, told.numpy_error, told.cuda) == ("OpenMP", None, None)
    assert any("gomp" in path for path in told.openmp)


def test_the_real_one_bound_by_a_variable(torch_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/pytorch#49971: libgomp binds the thread that loads it."""
    first = min(os.sched_getaffinity(0))
    monkeypatch.setenv("GOMP_CPU_AFFINITY", str(first))

    assert imported(torch_python).affinity_after == (first,)
