"""Libraries that are alive in the process that forks, told from those that are imported only. Their parts are stood for."""

import os
import subprocess
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[3] / "doctor" / "probes" / "at_fork.py"

BEFORE = f"""
import runpy, sys, threading, types
probe = runpy.run_path({str(PROBE)!r}, run_name="probe")
def module(name, **held):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(held)
def thread(name):
    threading.Thread(target=threading.Event().wait, name=name, daemon=True).start()
"""


def told(python: str, code: str, expression: str, **variables: str) -> str:
    command = [python, "-c", f"{BEFORE}\n{code}\nprint({expression})"]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("code", "variables", "alive"),
    [
        ("", {}, []),
        ("module('jax._src.xla_bridge', _backends={})", {}, []),  # imported only
        ("module('jax._src.xla_bridge', _backends={'cpu': 1})", {}, ["jax"]),
        ("module('tensorflow.python.eager.context', _context=None)", {}, []),
        ("module('tensorflow.python.eager.context', _context=types.SimpleNamespace(_initialized=True))", {}, ["tensorflow"]),
        ("module('grpc')", {}, []),
        ("thread('fsspecIO')", {}, ["fsspec"]),
        ("thread('Thread-7'); thread('tqdm_monitor')", {}, []),
        ("module('tokenizers')", {}, []),  # unset: the library switches its threads off by itself
        ("module('tokenizers')", {"TOKENIZERS_PARALLELISM": "false"}, []),
        ("module('tokenizers')", {"TOKENIZERS_PARALLELISM": "True"}, ["tokenizers"]),
        ("", {"TOKENIZERS_PARALLELISM": "true"}, []),  # and no tokenizers
        ("module('cv2')", {}, []),
    ],
)
def test_what_is_alive(code: str, variables: dict[str, str], alive: list[str], torch_python: str) -> None:
    assert told(torch_python, code, "probe['unsafe_at_fork']()", **variables) == str(alive)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="on one CPU OpenMP starts no threads")
def test_threads_are_known_by_the_library_that_they_wait_in(torch_python: str) -> None:
    """OpenMP's, which torch brings: as OpenCV's would be."""
    code = (
        "import torch, time; torch.set_num_threads(3); torch.zeros(1 << 22); end = time.monotonic() + 20\n"
        "while probe['threads_waiting_in']('libgomp') < 2 and time.monotonic() < end: time.sleep(0.1)"  # they spin at first
    )

    assert told(torch_python, code, "probe['threads_waiting_in']('libgomp'), probe['threads_waiting_in']('/cv2/')") == "2 0"
