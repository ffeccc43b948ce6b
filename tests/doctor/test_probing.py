"""What a probe does is an answer, whatever it is; and nothing of it is left."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dl_doctor import fork_server, guards, probing
from dl_doctor.model import Ended
from dl_doctor.probes import socket_folder
from dl_doctor.probing import Probed, Probes
from dl_doctor.system import Missing, System

DAEMON = """
import os, time
def probe(arguments, step):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 1024)
            os.environ["MARK"] = "daemon"
            os.execv("/bin/sleep", ["sleep", arguments["mark"]])
        os._exit(0)
    time.sleep(0.2)
    return {}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a probe of this text; gives what became of it."""
    (tmp_path / "probes").mkdir()
    monkeypatch.setattr(probing, "HERE", tmp_path)

    def probed(text: str, arguments: dict[str, Any] | None = None, *, deadline_s: float = 20, **options: Any) -> Probed:
        (tmp_path / "probes" / "it.py").write_text(text)
        left_s = options.pop("left_s", 60)
        return with_probes(lambda probes: probes.run("it", arguments, deadline_s=deadline_s, **options), left_s)

    return probed


def with_probes(use: Callable[[Probes], Awaitable[Any]], left_s: float = 60) -> Any:
    async def used() -> Any:
        system = System()
        probes = Probes(system, system.clock_s() + left_s)
        try:
            return await use(probes)
        finally:
            probes.close()
            probes.see_off()

    return asyncio.run(used())


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        ("return {}", {"how": "answered"}),
        ("step('jump'); raise ValueError('high')", {"how": "raised", "error": "ValueError: high", "step": "jump"}),
        ("raise SystemExit(3)", {"how": "exited", "exit_code": 3}),
        ("import os; os._exit(0)", {"how": "exited", "exit_code": 0}),
        ("return 'no dict'", {"how": "exited", "exit_code": 0}),
        ("import os; os.kill(os.getpid(), 11)", {"how": "killed", "signal": "SIGSEGV"}),
        ("import os; os.kill(os.getpid(), 40)", {"how": "killed", "signal": "signal 40"}),
        ("1/0", {"how": "raised", "error": "ZeroDivisionError: division by zero"}),
        ("raise ValueError('\\udcff')", {"how": "raised", "error": "ValueError: \\udcff"}),
    ],
)
def test_what_it_does_is_told(run: Any, body: str, ended: dict[str, Any]) -> None:
    told = run(f"def probe(arguments, step):\n    {body}\n").ended

    assert {name: getattr(told, name) for name in ended} == ended
    assert told.in_words


def test_what_it_prints_is_kept_from_the_end_and_never_ours(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    body = "import os; print('x' * 10**7, flush=True); os.system('echo last words >&2'); os._exit(1)"
    tail = run(f"def probe(arguments, step):\n    {body}\n").ended.output_tail

    assert tail.endswith("last words\n")
    assert len(tail) <= fork_server.TAIL_BYTES
    assert capfd.readouterr() == ("", "")


def test_arguments_go_in_and_an_answer_comes_out(run: Any) -> None:
    text = "def probe(arguments, step):\n    return {'twice': arguments['text'] * 2}\n"

    assert run(text, {"text": "é\udcff" * 1000}).answer == {"twice": "é\\udcff" * 2000}


@pytest.mark.parametrize("place", ["forked", "apart"])
def test_a_hung_probe_is_ended_at_its_deadline(run: Any, place: str) -> None:
    begin = time.monotonic()
    ended = run(
        "import time\ndef probe(arguments, step):\n    step('sleep')\n    time.sleep(60)\n", deadline_s=0.5, place=place
    ).ended

    assert (ended.how, ended.step, ended.state) == ("hung", "sleep", "S")
    assert time.monotonic() - begin < 5


def test_the_time_of_the_run_goes_before_the_probes_own(run: Any) -> None:
    text = "import time\ndef probe(arguments, step):\n    step('sleep')\n    time.sleep(60)\n"
    for left_s, words in ((0.1, "did not fit"), (2, "was cut short by the time of the run (--timeout) at: sleep")):
        with pytest.raises(Missing) as caught:
            run(text, left_s=left_s)
        assert (caught.value.reason.kind, words in caught.value.reason.detail) == ("timeout", True)


def test_a_program_that_is_none(run: Any) -> None:
    ended = run("def probe(arguments, step):\n    return {}\n", python="/nonexistent/python").ended

    assert (ended.how, ended.error) == ("unstartable", "/nonexistent/python: No such file or directory")


@pytest.mark.parametrize("place", ["forked", "apart"])
@pytest.mark.parametrize("deadline_s", [20, 0.1])
def test_no_daemon_outlives_it(run: Any, deadline_s: float, place: str) -> None:
    """Forked twice, in a session of its own, with all descriptors closed: whether the probe ended or was ended."""
    mark = f"61.{os.getpid()}{int(deadline_s * 10)}{len(place)}"
    run(DAEMON, {"mark": mark}, deadline_s=deadline_s, place=place)
    time.sleep(0.1)

    assert mark not in commands()


def commands() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_it_sees_the_jobs_environment_and_path(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The working directory first, as `python -m` has it, and never the doctor's own folders."""
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    monkeypatch.chdir(tmp_path)
    text = "import os, sys\ndef probe(arguments, step):\n"
    text += "    return {'path': sys.path, 'cwd': os.getcwd(), 'env': dict(os.environ)}\n"
    answer = run(text, python=sys.executable).answer

    assert answer["path"][:2] == ["", "/somewhere/else"]
    assert answer["cwd"] == str(tmp_path)
    assert not any(path.endswith(("/doctor", "/probes")) for path in answer["path"])
    assert answer["env"]["PYTHONPATH"] == "/somewhere/else"


def test_it_is_the_first_to_go_when_memory_runs_out(run: Any) -> None:
    text = "def probe(arguments, step):\n    return {'score': open('/proc/self/oom_score_adj').read()}\n"

    assert run(text).answer == {"score": "1000\n"}


def test_on_a_mounted_host_none_is_run(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    with pytest.raises(Missing) as caught:
        asyncio.run(Probes(system, system.clock_s() + 60).run("find_python", {"candidates": []}, deadline_s=1))

    assert caught.value.reason.kind == "not_asked"


@pytest.mark.parametrize("how", ["stuck", "hung", "killed"])
def test_an_end_in_words(how: Any) -> None:
    ended = Ended(how=how, signal="SIGBUS", step="open /data", pid=7, state="D", wait_channel="nfs_wait")

    assert ended.in_words.endswith(" at: open /data")
    assert ("nfs_wait" in ended.in_words) is (how != "killed")


def test_the_interpreter_is_ours_where_nothing_else_is_said() -> None:
    probed = with_probes(lambda probes: probes.run("find_python", {"candidates": []}, deadline_s=20))

    assert probed.answer == {"found": [], "own": sys.executable}


def test_several_run_at_the_same_time(run: Any, tmp_path: Path) -> None:
    text = "import time\ndef probe(arguments, step):\n    time.sleep(arguments['s'])\n    return arguments\n"
    (tmp_path / "probes" / "it.py").write_text(text)
    begin = time.monotonic()
    probed = with_probes(lambda probes: probes.run_each("it", [{"s": 30}, {"s": 0}, {"s": 1}], deadline_s=3))

    assert [one.answer for one in probed] == [None, {"s": 0}, {"s": 1}]
    assert probed[0].ended.how == "hung"
    assert time.monotonic() - begin < 8


TRACES = """
import mmap, os, time
from multiprocessing.connection import Listener
def probe(arguments, step):
    listener = Listener(family="AF_UNIX")
    step(os.path.dirname(listener.address))
    for name in ("/dev/shm/torch_%d_1_0" % os.getpid(), arguments["other"]):
        with open(name, "w+b") as file:
            file.write(bytes(4096))
            file.flush()
            globals()[name] = mmap.mmap(file.fileno(), 4096)
    step(os.path.dirname(listener.address))
    time.sleep(60)
"""


@pytest.mark.parametrize("place", ["forked", "apart"])
def test_what_a_killed_one_cannot_remove_is_removed(run: Any, place: str, tmp_path: Path) -> None:
    """A segment of torch's by its maker's number, a folder that is listened in; never a file by another name."""
    other = Path(f"/dev/shm/torch_1_{os.getpid()}_0")
    try:
        ended = run(TRACES, {"other": str(other)}, deadline_s=1, place=place).ended

        assert ended.how == "hung"
        assert ended.step is not None
        assert Path(ended.step).name.startswith("pymp-")
        assert not Path(ended.step).exists()
        assert not list(Path("/dev/shm").glob(f"torch_{ended.pid}_*"))
        assert other.exists()
    finally:
        other.unlink(missing_ok=True)


UNFINISHED = """
import multiprocessing, os, tempfile, time
from multiprocessing.connection import Listener
from .socket_folder import own_folder, socket_folder
def probe(arguments, step):
    do = arguments["do"]
    if do == "a semaphore":
        held = multiprocessing.get_context("spawn").Lock()
        step("/dev/shm" + held._semlock.name)
    elif do == "a file of ours":
        held = open(arguments["file"], "x")
        step(arguments["file"])
    else:
        held = socket_folder()
        if do == "a folder that is being made":
            os.mkdir = interrupted(os.mkdir, step)
        held.__enter__()
        if do == "a folder where nobody listens any more":
            listener = Listener(family="AF_UNIX")
            listener._listener._socket.close()
        step(own_folder())
    time.sleep(60)
def interrupted(mkdir, step):
    def made(path, mode):
        mkdir(path, mode)
        step(path)
        time.sleep(60)
    return made
"""


@pytest.mark.parametrize(
    "do", ["a folder that is being made", "a folder where nobody listens any more", "a semaphore", "a file of ours"]
)
def test_what_it_was_about_to_remove_is_removed(run: Any, tmp_path: Path, do: str) -> None:
    """Whatever instant it is killed at."""
    shutil.copy(socket_folder.__file__, tmp_path / "probes")
    ended = run(UNFINISHED, {"do": do, "file": str(tmp_path / ".dl-doctor-probe-x")}, deadline_s=1).ended

    assert ended.how == "hung"
    assert ended.step is not None
    assert Path(ended.step).is_absolute()
    assert not Path(ended.step).exists()


HELD = """
import multiprocessing, os, signal
from multiprocessing import resource_tracker
def probe(arguments, step):
    held = multiprocessing.get_context("spawn").Lock()
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGSTOP)  # as on a machine where it gets no CPU in time
    return {"name": held._semlock.name}, held
"""


def test_what_a_dataset_holds_is_removed(run: Any) -> None:
    """When the process that has made it is done with."""
    name = run(HELD, place="loading").answer["name"]

    assert not Path(f"/dev/shm/sem.{name.lstrip('/')}").exists()


OFFSETS = """
def probe(arguments, step, *made):
    if made:
        return {"read": len(made[0].held.read())}
    return {}, Made(open(arguments["file"]))
class Made:
    def __init__(self, held):
        self.held = held
    def put_back(self):
        self.held.seek(3)
"""


def test_what_a_probe_changes_is_put_back_before_the_next(run: Any, tmp_path: Path) -> None:
    """The process that has made a dataset shares the offsets of its files with all that are forked from it."""
    (tmp_path / "file").write_text("x" * 100)

    async def used(probes: Probes) -> list[Probed]:
        given = {"file": str(tmp_path / "file")}
        places: list[probing.Place] = ["loading", "loaded", "loaded"]
        return [await probes.run("it", given, deadline_s=20, place=place) for place in places]

    (tmp_path / "probes" / "it.py").write_text(OFFSETS)
    answers = [probed.answer for probed in with_probes(used)]

    assert answers == [{}, {"read": 100}, {"read": 97}]


SIEVE = """
import os, time
def probe(arguments, step):
    step("begin " + arguments["do"])
    if arguments["do"] == "crash":
        os.kill(os.getpid(), 11)
    if arguments["do"] == "kill the server":
        os.kill(os.getppid(), 9)
        time.sleep(30)
    return {"pid": os.getpid(), "text": "é" * 100_000}
"""


def test_one_that_crashes_harms_no_other(run: Any, tmp_path: Path) -> None:
    """Long answers of several processes come through the same pipe, whole."""
    (tmp_path / "probes" / "it.py").write_text(SIEVE)
    given = [{"do": do} for do in ("answer", "crash", "answer", "answer")]
    probed = with_probes(lambda probes: probes.run_each("it", given, deadline_s=20))

    assert [one.ended.how for one in probed] == ["answered", "killed", "answered", "answered"]
    answers = [one.answer for one in probed if one.answer]
    assert {answer["text"] for answer in answers} == {"é" * 100_000}
    assert len({answer["pid"] for answer in answers}) == 3


def test_a_server_that_died_is_told_and_replaced(run: Any, tmp_path: Path) -> None:
    (tmp_path / "probes" / "it.py").write_text(SIEVE)

    async def twice(probes: Probes) -> tuple[Probed, Probed]:
        first = await probes.run("it", {"do": "kill the server"}, deadline_s=20)
        return first, await probes.run("it", {"do": "answer"}, deadline_s=20)

    first, second = with_probes(twice)

    assert (first.ended.how, first.ended.signal, first.ended.step) == ("killed", "SIGKILL", "begin kill the server")
    assert second.ended.how == "answered"


def test_an_interpreter_that_does_not_come_to_start_is_ended_with_all_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nsleep 61\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(probing, "START_S", 0.5)

    async def several(probes: Probes) -> list[Probed]:
        return await asyncio.gather(*(probes.run(name, {}, python=str(tmp_path / "python"), deadline_s=s) for name, s in
                                      (("interpreter", 0.2), ("user_identity", 0.4))))  # fmt: skip

    begin = time.monotonic()

    assert [one.ended.how for one in with_probes(several)] == ["hung", "hung"]
    assert time.monotonic() - begin < 5


VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(VALUES)
def test_the_guards_own_json_is_json(value: Any) -> None:
    """What it cannot write, characters beyond the first plane and halves of pairs, it leaves out."""
    spec = spec_from_file_location("guard", guards.GUARD)
    assert spec is not None
    assert spec.loader is not None
    guard = module_from_spec(spec)
    spec.loader.exec_module(guard)

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {plain(name): plain(inner) for name, inner in item.items()}
        if isinstance(item, list):
            return [plain(inner) for inner in item]
        return "".join(c for c in item if c < "\ud800" or "\udfff" < c <= "\uffff") if isinstance(item, str) else item

    assert json.loads(guard.as_json(value).encode("ascii")) == plain(value)


BESIDE = """
import sys
from .shared import KEPT
def probe(arguments, step, *given):
    KEPT.append(len(KEPT))
    seen = [name for name in sys.modules if name.startswith("_dl_doctor") or "shared" in name]
    return {"kept": KEPT, "seen": seen}
"""


def test_a_file_beside_a_probe_is_seen_by_probes_alone(run: Any, tmp_path: Path) -> None:
    """And nothing is written beside it."""
    (tmp_path / "probes" / "shared.py").write_text("KEPT = []")

    assert run(BESIDE, python=sys.executable).answer == {"kept": [0], "seen": []}
    assert sorted(file.name for file in (tmp_path / "probes").iterdir()) == ["it.py", "shared.py"]


def test_probes_of_one_process_share_what_they_import(run: Any, tmp_path: Path) -> None:
    (tmp_path / "probes" / "shared.py").write_text("KEPT = []")
    (tmp_path / "probes" / "loads.py").write_text(BESIDE.replace('return {"kept": KEPT, "seen": seen}', "return {}, None"))

    async def after_loading(probes: Probes) -> Probed:
        (tmp_path / "probes" / "it.py").write_text(BESIDE)
        await probes.run("loads", python=sys.executable, deadline_s=20, place="loading")
        return await probes.run("it", deadline_s=20, place="loaded")

    assert with_probes(after_loading).answer == {"kept": [0, 1], "seen": []}


WATCHED = """
import os, time
def probe(arguments, step):
    end_s = time.monotonic() + 20
    while arguments["hangs"] or not os.path.exists(arguments["mark"]) and time.monotonic() < end_s:
        time.sleep(0.01)
    time.sleep(0.1)
    return {"ended_s": time.monotonic()}
"""

WATCHER = """
import os, select, time
def probe(arguments, step):
    begun_s = time.monotonic()
    try:
        handle = os.pidfd_open(arguments["pid"])
        open(arguments["mark"], "w").close()
        ended = select.select([handle], [], [], arguments["most_s"])[0]
    except ProcessLookupError:  # on a slow machine
        ended = True
    return {"begun_s": begun_s, "ended_s": time.monotonic(), "saw_it_end": bool(ended)}
"""


def run_watched(run: Any, watched: str, watcher: str, *, python: str = sys.executable, hangs: bool = False) -> Any:
    run("def probe(arguments, step):\n    return {}\n")  # the fixture has laid the folder
    for name, text in (("watched", watched), ("watcher", watcher)):
        (probing.HERE / "probes" / f"{name}.py").write_text(text)
    mark = {"mark": str(probing.HERE / "begun")}
    how = {"watcher": "watcher", "watching": mark, "python": python, "deadline_s": 1.0 if hangs else 25.0}
    return with_probes(lambda probes: probes.run_watched("watched", {"hangs": hangs, **mark}, **how))


def test_a_watcher_lives_as_long_as_what_it_watches(run: Any) -> None:
    watched, watcher = run_watched(run, WATCHED, WATCHER)

    assert watcher.answer["begun_s"] < watched.answer["ended_s"] <= watcher.answer["ended_s"]
    assert watcher.answer["saw_it_end"]


def test_a_watcher_sees_that_what_it_watches_is_killed(run: Any) -> None:
    watched, watcher = run_watched(run, WATCHED, WATCHER, hangs=True)

    assert (watched.ended.how, watcher.answer["saw_it_end"]) == ("hung", True)


def test_what_is_watched_does_not_depend_on_the_watcher(run: Any) -> None:
    crashes = "import ctypes\ndef probe(arguments, step):\n    open(arguments['mark'], 'w').close()\n    ctypes.string_at(0)\n"
    watched, watcher = run_watched(run, WATCHED, crashes)

    assert (watched.ended.how, watcher.ended.how) == ("answered", "killed")


def test_a_watcher_that_hangs_keeps_nobody_waiting(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML may not answer while CUDA computes."""
    monkeypatch.setattr(probing, "LAST_LOOK_S", 0.5)
    begin = time.monotonic()
    hangs = "import time\ndef probe(arguments, step):\n    step('look')\n    open(arguments['mark'], 'w')\n    time.sleep(60)\n"
    watched, watcher = run_watched(run, WATCHED, hangs)

    assert (watched.ended.how, watcher.ended.how, watcher.ended.step) == ("answered", "hung", "look")
    assert time.monotonic() - begin < 10


def test_what_does_not_start_is_not_watched(run: Any) -> None:
    watched, watcher = run_watched(run, WATCHED, WATCHER, python="/nonexistent/python")

    assert (watched.ended.how, watcher) == ("unstartable", None)
