"""`dl_doctor.check` from Python: it examines what is at hand, wherever it is called, and leaves the caller as it was."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor import check
from tests.installed import Installed, installed_once, run

HEAD = """
import asyncio, atexit, faulthandler, io, json, multiprocessing, os, random, signal, sys, threading, time, warnings
import torch
from torch.utils.data import DataLoader, Dataset
import dl_doctor

class Mine(Dataset):
    def __init__(self, size=100): self.size = size
    def __len__(self):
        print("how many?")
        return self.size
    def __getitem__(self, index): return torch.zeros(3, 8, 8), index

class Module:
    def __init__(self, make): self.train_dataloader = make

def told(report):
    (result,) = [result for result in report.results if result.id == "dataset-loads"]
    return result.status, result.seen or result.reason.detail

def loads(*given, **options): return told(dl_doctor.check(*given, select="dataset-loads", **options))

def in_threads(count):
    said = []
    threads = [threading.Thread(target=lambda: said.append(loads(loader))) for _ in range(count)]
    for each in threads: each.start()
    for each in threads: each.join()
    return said

def say(value): print(json.dumps(value))

loader = DataLoader(Mine(), batch_size=4, num_workers=2)
"""

SEEN = "loader: __main__.Mine of 100 samples"

STATE = """
def state():
    return dict(
        descriptors=sorted(os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")[:-1]),
        handlers=[str(signal.getsignal(number)) for number in signal.valid_signals()],
        folder=os.getcwd(), variables=dict(os.environ), path=list(sys.path), arguments=list(sys.argv),
        method=multiprocessing.get_start_method(allow_none=True), filters=list(map(str, warnings.filters)),
        drawn=[str(random.getstate()), torch.get_rng_state().tolist()], threads=[each.name for each in threading.enumerate()],
        streams=[id(sys.stdin), id(sys.stdout), id(sys.stderr)], torch_threads=torch.get_num_threads(),
        children=open("/proc/thread-self/children").read(),
    )
before = state()
loads(loader)
loads(loader)
after = state()
say([name for name in before if before[name] != after[name]])
"""

ALIVE = """
threading.Thread(target=time.sleep, args=(60,), name="fsspecIO", daemon=True).start()
(result,) = dl_doctor.check(loader, select="start-method", start_method="fork").results
say([finding.subject for finding in result.findings])
"""

RUNNING = """
loader = DataLoader(torch.utils.data.TensorDataset(torch.zeros(100)), 4, num_workers=2, persistent_workers=True)
running = iter(loader)
next(running)
(result,) = dl_doctor.check(loader, select="smoke-load").results
say([result.status, len(list(running))])
running._shutdown_workers()
"""

HELPERS = """
from multiprocessing import forkserver, resource_tracker

def pids():
    forkserver.ensure_running()
    resource_tracker.ensure_running()
    return [forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid]

before = pids()
def make(): raise RuntimeError({own != callers for own, callers in zip(pids(), before)})
said = loads(Module(make))
say([pids() == before, *said])
forkserver._forkserver._stop()
resource_tracker._resource_tracker._stop()
"""
"""What is started below the guard ends with it: it is not to be started by a server of the caller's."""

SCRIPTS: dict[str, tuple[str, Any]] = {
    # the end of a script, and what it prints as JSON, without what the dataset prints
    "a loader": ("say(loads(loader))", ["pass", SEEN]),
    "a dataset": ("say(loads(dataset=Mine(7)))", ["pass", "dataset: __main__.Mine of 7 samples"]),
    "nothing": ("say(loads())", ["not_run", "needs --dataset or --loader"]),
    "twice in a row": ("say([loads(loader), loads(loader)])", [["pass", SEEN], ["pass", SEEN]]),
    "what it changes": (STATE, []),
    "in a loop that runs": ("async def main(): return loads(loader)\nsay(asyncio.run(main()))", ["pass", SEEN]),
    "in a thread": ("say(in_threads(1))", [["pass", SEEN]]),
    "in two threads at once": ("say(in_threads(2))", [["pass", SEEN], ["pass", SEEN]]),
    "with options": (
        "say(dl_doctor.check(loader, select='dataset-loads', num_workers=5, data='/tmp', timeout=20.5).run.settings)",
        {"loader": "loader", "num_workers": 5, "data": ["/tmp"], "timeout_s": 20.5, "select": ["dataset-loads"]},
    ),
    "the interpreter": (
        "python = dl_doctor.check(loader, select='dataset-loads').run.python\nsay([python.path == sys.executable, python.why])",
        [True, "that of dl_doctor.check"],
    ),
    "a module that raises": (
        "say(loads(Module(lambda: 1 / 0)))",
        ["fail", "loader raised ZeroDivisionError: division by zero at: call loader.train_dataloader()"],
    ),
    "a module that exits": (
        "atexit.register(os.write, 1, b'the end')\nsay(loads(Module(lambda: sys.exit(3))))\natexit.unregister(os.write)",
        ["fail", "loader exited with 3 at: call loader.train_dataloader()"],
    ),
    "a module that crashes": (
        "faulthandler.enable()\nsay(loads(Module(lambda: os.kill(os.getpid(), 11))))",
        ["fail", "loader died by SIGSEGV at: call loader.train_dataloader()"],
    ),
    "a signal that the caller handles": (
        "signal.signal(15, lambda *_: os.write(1, b'mine'))\nsay(loads(Module(lambda: os.kill(os.getpid(), 15))))",
        ["fail", "loader died by SIGTERM at: call loader.train_dataloader()"],
    ),
    "without standard input": ("os.close(0)\nsay(loads(loader))", ["pass", SEEN]),
    "helpers of multiprocessing": (
        HELPERS,
        [True, "fail", "loader raised RuntimeError: {True} at: call loader.train_dataloader()"],
    ),
    "a generator": ("say(loads(number for number in range(3))[0])", "error"),
    "threads that a fork does not have": (ALIVE, ["fsspec"]),
    "workers that are running": (RUNNING, ["pass", 24]),
    "a stream of its own": (
        "kept, sys.stdout = sys.stdout, io.StringIO()\nloads(loader)\nsaid, sys.stdout = sys.stdout, kept\nsay(said.getvalue())",
        "",
    ),
}

RUN = """
import dl_doctor.calling
programs, head = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name, program in programs.items():
    sys.stdout.flush()
    if not os.fork():
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(1, 2)
        exec(head + program, {"__name__": "__main__"})
        break
    os.wait()
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed_once(tmp_path_factory)


def with_torch(python: str) -> dict[str, str]:
    """Variables by which another interpreter finds what this one has."""
    (packages,) = Path(python).parents[1].glob("lib/python3*/site-packages")
    return {"PYTHONPATH": str(packages)}


@pytest.fixture
def script(installed: Installed, torch_python: str, tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """A command that runs a script of this folder, and the variables by which it finds torch."""
    return [installed.python, str(tmp_path / "script.py")], with_torch(torch_python)


@pytest.fixture(scope="module")
def printed(installed: Installed, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each script prints, on both streams, in a fork of a process that has imported torch."""
    folder = tmp_path_factory.mktemp("scripts")
    programs = json.dumps({name: program for name, (program, _) in SCRIPTS.items()})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [installed.python, "-c", HEAD + RUN, programs, json.dumps(HEAD)],
        cwd=folder,
        env=environment | with_torch(torch_python),
        capture_output=True,
        text=True,
        timeout=300,  # 20 s where nothing else runs
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return {name: (folder / name).read_text() for name in SCRIPTS}


@pytest.mark.parametrize("name", SCRIPTS)
def test_from_a_script(printed: dict[str, str], name: str) -> None:
    assert [json.loads(line) for line in printed[name].splitlines()] == [SCRIPTS[name][1]]


def test_the_report_shows_itself(script: Any, tmp_path: Path) -> None:
    command, variables = script
    shows = "report = dl_doctor.check(loader, select='dataset-loads')\nprint(report)\nprint(repr(report._repr_html_()))"
    (tmp_path / "script.py").write_text(HEAD + shows)

    *lines, page = run(command, tmp_path, **variables).stdout.splitlines()

    assert lines[0].startswith("dl-doctor")
    assert "1 passed" in lines[-1]
    assert "<iframe sandbox " in page  # as a notebook shows it
    assert "&lt;h1 id=&quot;verdict&quot;&gt;" in page
    assert "<h1" not in page


def test_the_script_itself_is_read(script: Any, tmp_path: Path) -> None:
    """It is what a worker by spawn would run again."""
    command, variables = script
    code = HEAD + "(result,) = dl_doctor.check(loader, select='start-method', start_method='spawn').results\n"
    (tmp_path / "script.py").write_text(code + "print(result.findings[0].subject); sys.exit()\nfor batch in loader: pass\n")

    assert run(command, tmp_path, **variables).stdout.endswith(f"{tmp_path}/script.py:{len(code.splitlines()) + 2}\n")


def test_ctrl_c_ends_it(script: Any, tmp_path: Path) -> None:
    """What it started has ended before the exception is there."""
    command, variables = script
    (tmp_path / "script.py").write_text(
        HEAD
        + "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs, and all below, hear of none
        + "def wait():\n    open('begun', 'w').close()\n    time.sleep(600)\n"
        + "try: loads(Module(wait))\nexcept KeyboardInterrupt: print(open('/proc/thread-self/children').read() or 'none left')"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment | variables, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "begun").exists() and process.poll() is None:
        time.sleep(0.02)
    begin_s = time.monotonic()
    process.send_signal(signal.SIGINT)

    assert process.communicate(timeout=60)[0] == "none left\n"
    assert time.monotonic() - begin_s < 5


def test_a_program_without_a_main_guard_is_told_where_it_is_imported_again(script: Any, tmp_path: Path) -> None:
    command, variables = script
    (tmp_path / "script.py").write_text(
        HEAD + "if multiprocessing.current_process().name == 'MainProcess':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=print)\n    worker.start(); worker.join()\n"
        "else:\n    dl_doctor.check(loader)\n"
    )

    assert "put the call below `if __name__ == '__main__':`" in run(command, tmp_path, **variables).stderr


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"loader": [], "dataset": []}, TypeError, "a loader or a dataset, not both"),
        ({"loader": "train:make"}, TypeError, "a DataLoader or a dataset that is at hand, not 'train:make'"),
        ({"dataset": list}, TypeError, "not the class list"),
        ({"num_worker": 1}, TypeError, "no option 'num_worker': did you mean 'num_workers'?"),
        ({"python": "/usr/bin/python"}, TypeError, "no option 'python'"),
        ({"zzz": 1}, TypeError, "there are batch_bytes, batch_size, "),
        ({"num_workers": -1}, ValueError, "Invalid value for '--num-workers': -1 is not in the range"),
        ({"num_workers": 2.5}, ValueError, "'2.5' is not a valid integer"),
        ({"batch_bytes": "much"}, ValueError, "'--batch-bytes'"),
        ({"start_method": "thread"}, ValueError, "'thread' is not one of 'fork', 'spawn', 'forkserver'"),
        ({"timeout": 0}, ValueError, "'--timeout'"),
        ({"select": ["shm-sice"]}, ValueError, "Did you mean 'shm-size'?"),
    ],
)
def test_an_option_that_is_wrong_is_told_before_anything_runs(given: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error) as raised:
        check(**given)

    assert words in str(raised.value)
