"""Whatever the module of a dataset does when it is imported: a whole report, the right exit code, and nothing is left."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

MARK = "TEST_MARK"
"""A variable that everything which is started here inherits."""

GOOD = {
    # what a module does before it makes a dataset, as its job could: all is well
    "prints": "print('it' * 10, flush=True)",
    "prints megabytes": "import sys\nprint('x' * 5_000_000)\nsys.stderr.write('y' * 5_000_000)",
    "writes without Python": "import os, subprocess\nos.write(1, b'x' * 200_000)\nsubprocess.run(['echo', 'hello'])",
    "prints no text": "import os\nos.write(1, bytes(range(256)))\nos.write(2, b'\\xff\\xfe')",
    "closes Python's streams": "import sys\nsys.stdout.close()\nsys.stderr.close()",
    "has no streams": "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
    "closes 0 to 2": "import os\nfor number in range(3): os.close(number)",
    "closes all descriptors": "import os\nos.closerange(0, 4096)",
    "closes all and opens its own": "import os\nos.closerange(0, 4096)\nheld = [open(__file__) for _ in range(40)]",
    "forks, and the child returns": "import os\nos.fork()",
    "forks, and the child raises": "import os\nif not os.fork(): raise RuntimeError",
    "forks, and the child exits": "import os, sys\nif not os.fork(): sys.exit(7)",
    "starts a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "starts a daemon": """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        os.closerange(0, 4096)
        time.sleep(600)
    os._exit(0)
""",
    "changes the folder": "import os\nos.chdir('/')",
    "deletes its folder": "import os, shutil\nshutil.rmtree(os.path.dirname(os.path.abspath(__file__)))",
    "handles signals": """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGPIPE):
    signal.signal(number, lambda *_: print('signal'))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
""",
    "ignores its children": "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "blocks signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "sets a start method": "import multiprocessing\nmultiprocessing.set_start_method('spawn')",
    "limits its descriptors": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
    "limits its files": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "patches modules": """
import json, os, select, signal, struct, time
for module in (json, time):
    for name in ('dumps', 'loads', 'time', 'monotonic', 'sleep'):
        if hasattr(module, name): setattr(module, name, None)
os.fork = os.write = os.read = os.waitpid = select.select = None
""",
    "warns as errors": "import warnings\nwarnings.simplefilter('error')",
    "leaves for later": "import atexit, os, time\natexit.register(time.sleep, 600)\nos.register_at_fork(before=lambda: None)",
    "traces": "import sys\nsys.settrace(lambda *_: None)\nsys.setprofile(lambda *_: None)",
}

BROKEN = {
    # what it does, its status, the exit code and some words
    "raises": ("raise RuntimeError('no /data here')", "fail", 1, "raised RuntimeError: no /data here at: import mine.py"),
    "raises no text": ("raise RuntimeError('\\udcff')", "fail", 1, "raised RuntimeError"),
    "raises of its own": ("class Own(BaseException): pass\nraise Own('it')", "fail", 1, "raised Own: it"),
    "raises when its error is told": (
        "class Own(Exception):\n    def __str__(self): return 1/0\nraise Own",
        "fail",
        1,
        "raised Own",
    ),
    "lacks a package": ("import nonexistent_package", "fail", 1, "No module named 'nonexistent_package'"),
    "is no Python": ("def", "fail", 1, "SyntaxError"),
    "recurses": ("def it(): it()\nit()", "fail", 1, "RecursionError"),
    "exits well": ("import sys\nsys.exit(0)", "fail", 1, "exited with 0 at: import mine.py"),
    "exits where": ("import sys\nsys.exit(3)", "fail", 1, "It exits at "),
    "exits with words": ("raise SystemExit('give me --data')", "fail", 1, "give me --data"),
    "reads a command line": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\nparser.parse_args()",
        "error",
        3,
        "reads the command line when it is imported",
    ),
    "is interrupted": ("raise KeyboardInterrupt", "fail", 1, "raised KeyboardInterrupt"),
    "exits at once": ("import os\nos._exit(3)", "fail", 1, "exited with 3"),
    "becomes another program": ("import os\nos.execv('/bin/true', ['true'])", "fail", 1, "exited with 0"),
    "goes into the background": ("import os\nif os.fork(): os._exit(0)", "fail", 1, "exited with 0"),
    "crashes": ("import os\nos.kill(os.getpid(), 11)", "fail", 1, "died by SIGSEGV"),
    "aborts": ("import os\nos.abort()", "fail", 1, "died by SIGABRT"),
    "is killed": ("import os\nos.kill(os.getpid(), 9)", "fail", 1, "SIGKILL is what the kernel sends where memory runs out"),
    "hangs": ("import time\ntime.sleep(600)", "error", 3, "was cut short by the time of the run (--timeout)"),
    "hangs in a fork": ("import os\nif not os.fork(): os.kill(os.getppid(), 19)\nelse: os.wait()", "error", 3, "--timeout"),
    "takes all memory": ("held = bytearray(1 << 50)", "error", 3, "takes more than"),
    "asks": ("input('which split? ')", "fail", 1, "EOFError"),
    "has none": ("it = []", "fail", 1, "mine.py:it has no samples"),
    "names nothing": ("del it", "error", 3, "mine.py has no `it`"),
    "gives nothing": ("def it(): pass", "error", 3, "does it `return` what it makes?"),
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job's interpreter; without torch, so that each case takes half a second."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python")


def doctor(python: str, folder: Path, code: str) -> tuple[int, dict[str, Any]]:
    """Examine a dataset in mine.py; gives the exit code and what dataset-loads says."""
    (folder / "mine.py").write_text(code)
    options = ("-f", "json", "--no-plugins", "-s", "dataset-loads", "--timeout", "6", "--python", python)
    done = subprocess.run(
        [sys.executable, "-m", "dl_doctor", "check", *options, "--dataset", "mine.py:it"],
        cwd=folder,
        env={**os.environ, MARK: str(folder)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b""
    (result,) = json.loads(done.stdout)["results"]
    return done.returncode, result


def alive(mark: str) -> list[str]:
    """Processes that inherited this mark and are there one second from now; those of a guard take some ms to die."""
    end_s = time.monotonic() + 1
    while (found := marked(mark)) and time.monotonic() < end_s:
        time.sleep(0.02)
    return found


def marked(mark: str) -> list[str]:
    """Command lines of the processes that inherited this mark."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in environment.read_bytes():
                found.append((environment.parent / "cmdline").read_text())
        except OSError:  # it is gone, or another user's
            continue
    return found


@pytest.mark.parametrize("code", GOOD.values(), ids=GOOD)
def test_what_a_job_could_do_too_is_no_fault(python: str, tmp_path: Path, code: str) -> None:
    told, result = doctor(python, tmp_path, f"{code}\nit = [1, 2, 3]")

    assert (told, result["status"], result["findings"]) == (0, "pass", []), result
    assert alive(str(tmp_path)) == []


@pytest.mark.parametrize(("code", "status", "exit_code", "words"), BROKEN.values(), ids=BROKEN)
def test_what_would_end_the_job_is_told(python: str, tmp_path: Path, code: str, status: str, exit_code: int, words: str) -> None:
    told, result = doctor(python, tmp_path, f"it = [1, 2, 3]\n{code}")

    assert (result["status"], told) == (status, exit_code), result
    assert words in json.dumps(result), result
    assert alive(str(tmp_path)) == []
