"""What the job's Python tells of shared memory, workers, temporary files and its user; really done, and nothing of it left."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import Target, shared_memory_use, temp_space, user_identity, worker_roundtrip
from dl_doctor.probes.loaded import Loaded
from tests.collected import collected

Ask = Callable[..., Any]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What a collector gives, with these variables set; None unsets one."""

    def asked(collect: Any, **variables: str | None) -> Any:
        for name, value in variables.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        return collected(collect, Target(path=sys.executable, why="a test", has_torch=False))

    return asked


def test_shared_memory_works_here_and_nothing_of_it_is_left(ask: Ask) -> None:
    use = ask(shared_memory_use.collect)

    assert (use.ended.how, use.segment, use.lock) == ("answered", None, None)
    assert [name for name in os.listdir("/dev/shm") if name.startswith("dl-doctor")] == []


def test_a_worker_answers_by_each_method_and_leaves_nothing(ask: Ask, tmp_path: Path) -> None:
    roundtrip = ask(worker_roundtrip.collect, TMPDIR=str(tmp_path))

    assert {trip.method: trip.ended.how for trip in roundtrip.trips} == dict.fromkeys(("fork", "spawn", "forkserver"), "answered")
    assert all(trip.duration_s < worker_roundtrip.PATIENCE_S for trip in roundtrip.trips)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("breaking", "how", "detail"),
    [
        ("os._exit(3)", "exited", 3),
        ("os.kill(os.getpid(), 11)", "killed", "SIGSEGV"),
        ("raise SystemExit('no')", "exited", 1),
    ],
)
def test_what_breaks_children_that_start_anew_spares_forked_ones(
    ask: Ask, tmp_path: Path, breaking: str, how: str, detail: Any
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys\nif '--multiprocessing-fork' in sys.orig_argv:\n    {breaking}\n")
    roundtrip = ask(worker_roundtrip.collect, PYTHONPATH=str(tmp_path))
    trips = {trip.method: trip.ended for trip in roundtrip.trips}

    assert trips["fork"].how == "answered"
    assert (trips["spawn"].how, trips["spawn"].exit_code or trips["spawn"].signal) == (how, detail)


def test_a_worker_that_hangs_is_told_and_ended(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_roundtrip, "PATIENCE_S", 1)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif '--multiprocessing-fork' in sys.orig_argv:\n    time.sleep(60)\n"
    )
    trips = {trip.method: trip.ended.how for trip in ask(worker_roundtrip.collect, PYTHONPATH=str(tmp_path)).trips}

    assert trips == {"fork": "answered", "spawn": "hung", "forkserver": "answered"}


@pytest.mark.parametrize(("length", "fits"), [(75, True), (76, False)])
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="newer Pythons go to /tmp where the path is too long")
def test_the_longest_folder_for_sockets(ask: Ask, length: int, fits: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="long-") as outer:
        folder = Path(outer) / ("x" * (length - len(outer) - 1))
        folder.mkdir()
        temp = ask(temp_space.collect, TMPDIR=str(folder))

        assert (temp.path, temp.path_bytes) == (str(folder), length)
        assert (temp.refusal is None) is fits
        assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_is_passed_over(ask: Ask, tmp_path: Path) -> None:
    temp = ask(temp_space.collect, TMPDIR=str(tmp_path / "gone"), TEMP=str(tmp_path))

    assert temp.path == str(tmp_path)
    assert [(refusal.step, refusal.code) for refusal in temp.passed_over] == [(f"{tmp_path / 'gone'} (TMPDIR)", "ENOENT")]


def test_who_this_is(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("from typing import Optional\n__version__ = '2.6.0+cu124'\n")
    user = ask(user_identity.collect, PYTHONPATH=str(tmp_path), HOME=str(tmp_path))

    assert (user.uid, user.in_passwd, user.name_error, user.home) == (os.getuid(), True, None, str(tmp_path))
    assert (user.home_said, user.torch_version) == (True, "2.6.0+cu124")


def test_a_segment_that_torch_was_refused_is_removed_and_no_others() -> None:
    """Torch leaves it where it could be made and not be given its size."""
    loaded = Loaded([], None, "a test")  # type: ignore[no-untyped-call]
    ours, others = (Path(f"/dev/shm/torch_{pid}_4711_0") for pid in (os.getpid(), os.getppid()))
    try:
        for file in (ours, others):
            file.touch()
        loaded.end_workers(None, f"unable to write to file </{ours.name}>: No space left; not </{others.name}>")

        assert (ours.exists(), others.exists()) == (False, True)
    finally:
        for file in (ours, others):
            file.unlink(missing_ok=True)
