"""Each way in which importing torch fails is told with its cause, and what imports is not blamed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.checks.python.torch_imports import CAUSES, CHECK, known_cause
from dl_doctor.cli import run
from dl_doctor.facts import Environment
from dl_doctor.model import Verdict
from tests.facts import not_imported, target, torch_files, torch_import

NOTHING_SET = Environment({})

AREAS = [f"--select={name}" for name in ("python", "gpu", "storage", "affinity-kept")]

NVJITLINK = "/e/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"

OF_ANOTHER_VERSION = "not defined in file {} with link time reference"


def judged(environment: dict[str, str] | None = None, **ended: Any) -> Verdict:
    return CHECK.judge(not_imported(**ended), torch_files(), target(), Environment(environment or {}))


TOLD = [
    # what was printed in public reports, and words of the cause that it means
    (
        f"ImportError: {NVJITLINK}",
        "libnvJitLink of another CUDA",
    ),
    (
        f"ImportError: /e/x.so: symbol __nvJitLinkComplete_12_4, version x {OF_ANOTHER_VERSION.format('libnvJitLink.so.12')}",
        "libnvJitLink of another CUDA",
    ),
    ("ImportError: /e/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent", "MKL"),
    ("ImportError: /e/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister", "it lacks ncclCommRegister"),
    (
        f"OSError: /e/x.so: symbol cublasLtHSHMatmulAlgoInit, version x {OF_ANOTHER_VERSION.format('libcublasLt.so.11')}",
        "libcublasLt.so.11 is of another version",
    ),
    ("ImportError: /e/_x.so: undefined symbol: _ZN3c105ErrorC2E", "/e/_x.so lacks the symbol _ZN3c105ErrorC2E"),
    (
        "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /e/torch/lib/libtorch_python.so)",
        "libstdc++ is too old: it lacks GLIBCXX_3.4.30",
    ),
    (
        "ImportError: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by /e/libcurand.so.10)",
        "glibc is too old: it lacks GLIBC_2.27",
    ),
    ("OSError: Error relocating /e/torch/lib/libgomp.so.1: pthread_attr_setaffinity_np: symbol not found", "musl"),
    ("ImportError: /e/libgomp-d22c30c5.so.1: cannot allocate memory in static TLS block", "thread-local"),
    (
        "ImportError: libtorch_cpu.so: cannot enable executable stack as shared object requires: Invalid argument",
        "libtorch_cpu.so asks for an executable stack",
    ),
    ('  File "/usr/lib/python3.11/ctypes/__init__.py", line 8\nMemoryError', "written and executed"),
    ("ImportError: /e/_C.so: failed to map segment from shared object: Operation not permitted", "noexec"),
    ("ImportError: /e/_C.so: failed to map segment from shared object: Cannot allocate memory", "not enough memory"),
    ("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory", "libcudnn.so.9 is missing"),
    ("OSError: /e/torch/lib/libtorch_cpu.so: file too short", "libtorch_cpu.so is damaged"),
    ("OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.", "Two OpenMP"),
    ("libgomp: Thread creation failed: Resource temporarily unavailable", "No thread"),
    ("FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']", "no folder for temporary files"),
    ("KeyError: 'getpwuid(): uid not found: 4242'", "no name"),
    ("ImportError: Failed to load PyTorch C extensions:\n    It appears that", "source"),
    ("ModuleNotFoundError: No module named 'torch._C'", "source"),
    ("AttributeError: partially initialized module 'random' has no attribute 'x'", "random is imported while"),
    ("ModuleNotFoundError: No module named 'typing_extensions'", "needs typing_extensions"),
]


@pytest.mark.parametrize(("text", "words"), TOLD)
def test_known_causes(text: str, words: str) -> None:
    verdict = judged(how="raised", error=text.splitlines()[-1], output_tail=f"Traceback (most recent call last):\n{text}\n")
    (finding,) = verdict.findings

    assert (finding.level, words in finding.summary) == ("fail", True), finding.summary
    assert text.splitlines()[-1][:200] in finding.why
    assert finding.fixes
    assert not any(name in str(finding.fixes) for name in ("PYTHON", "INSTALL", "TORCH"))


def test_an_unknown_cause_is_told_in_its_own_words() -> None:
    error = "ValueError: no such thing\nand much more"
    (finding,) = judged(how="raised", error=error, output_tail=error).findings

    assert finding.summary == "import torch raised ValueError: no such thing"
    assert finding.why == f"It said: {error}"


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        ("SIGILL", "instruction that this CPU does not have"),
        ("SIGKILL", "memory runs out"),
        ("SIGBUS", "shorter"),
        ("SIGSEGV", "crashes"),
        ("SIGABRT", "crashes"),
        ("SIGTERM", "died by SIGTERM"),  # no cause is known
    ],
)
def test_signals(signal: str, words: str) -> None:
    (finding,) = judged(how="killed", signal=signal).findings

    assert (finding.level, words in finding.summary) == ("fail", True), finding.summary


def test_every_cause_has_its_case_and_its_source() -> None:
    tried = [known_cause(text)[0] for text, _ in TOLD]
    tried += [known_cause(f"died by {signal}")[0] for signal in ("SIGILL", "SIGKILL", "SIGBUS", "SIGSEGV")]

    assert [cause.pattern for cause in CAUSES if cause not in tried] == []
    assert all(cause.source for cause in CAUSES)


@pytest.mark.parametrize(
    ("text", "variables", "named"),
    [
        ("undefined symbol: __nvJitLinkComplete_12_4", {"LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64"}, True),
        ("undefined symbol: __nvJitLinkComplete_12_4", {"LD_PRELOAD": "/opt/x.so"}, True),
        ("undefined symbol: __nvJitLinkComplete_12_4", {}, False),
        ("No module named 'sympy'", {"LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64"}, False),  # it has nothing to do with it
    ],
)
def test_variables_that_bring_other_libraries(text: str, variables: dict[str, str], named: bool) -> None:
    (finding,) = judged(variables, how="raised", error=text, output_tail=text).findings

    for name, value in variables.items():
        assert (f"{name} is {value}" in finding.why) is named
        assert (finding.fixes[0].commands == (f"env -u {name} /venv/bin/python -c 'import torch'",)) is named


@pytest.mark.parametrize(
    ("fields", "commands"),
    [
        (
            {},
            (
                "/venv/bin/python -m pip install --force-reinstall torch==2.6.0 --index-url https://download.pytorch.org/whl/cu124",
            ),
        ),
        ({"version": "2.6.0"}, ("/venv/bin/python -m pip install --force-reinstall torch==2.6.0",)),
        ({"version": "2.6.0a0+ecf3bae40a.nv25.01"}, ()),  # no index has it
        ({"conda": ("pytorch-2.6.0-py3.11_cuda12.4_0",)}, ()),  # pip would lay another one over it
    ],
)
def test_the_same_build_is_installed_again(fields: dict[str, Any], commands: tuple[str, ...]) -> None:
    torch = not_imported(how="raised", error="x", output_tail=NVJITLINK)
    (finding,) = CHECK.judge(torch, torch_files(**fields), target(), NOTHING_SET).findings

    assert finding.fixes[0].commands == commands


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        ({"how": "hung"}, "error"),
        ({"how": "stuck", "pid": 7, "state": "D", "wait_channel": "nfs_wait_bit_killable"}, "fail"),
        ({"how": "exited", "exit_code": 3}, "fail"),
        ({"how": "raised", "error": "ValueError: x"}, "fail"),
        ({"how": "killed", "signal": "SIGSEGV", "step": "import numpy"}, "fail"),
        ({"how": "raised", "error": "ValueError: x", "step": "ask torch what it is"}, "error"),  # our own look at it
        ({"how": "raised", "error": "ValueError: x", "step": None}, "error"),
    ],
)
def test_how_it_ended(ended: dict[str, Any], status: str) -> None:
    verdict = judged(**ended)
    told = verdict.reason.detail if verdict.reason else verdict.seen

    assert verdict.status == status
    assert ended.get("step", "import torch") is None or ended.get("step", "import torch") in told
    assert ended.get("wait_channel", "") in told


@pytest.mark.parametrize(
    ("imported", "files", "status"),
    [
        ({}, {}, "pass"),
        ({"numpy_error": "RuntimeError: Numpy is not available"}, {}, "fail"),
        ({"version": None}, {"version": None, "origin": "/home/me/torch.py"}, "fail"),
    ],
)
def test_what_came_back(imported: dict[str, Any], files: dict[str, Any], status: str) -> None:
    assert CHECK.judge(torch_import(**imported), torch_files(**files), target(), NOTHING_SET).status == status


def checked(capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    """All that this part of the doctor says, from the command line."""
    code = run(["check", "--no-plugins", *AREAS, "-f", "json", *options])
    return code, json.loads(capfd.readouterr().out)


def test_the_real_one_is_found_healthy(torch_python: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, report = checked(capfd, "--python", torch_python)
    ours = ("affinity-kept", "import-latency", "interpreter", "packages-consistent", "torch-build", "torch-imports")

    assert code == 0
    assert {result["id"]: result["status"] for result in report["results"] if result["id"] in ours} == dict.fromkeys(ours, "pass")
    assert report["machine"]["torch"] == report["facts"]["torch_files"]["version"]
    assert report["summary"]["error"] == 0


def test_without_torch_nothing_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    code, report = checked(capfd, "--python", sys.executable)
    statuses = {result["id"]: result["status"] for result in report["results"]}

    assert (code, report["machine"]["torch"]) == (0, None)
    assert (statuses["torch-imports"], statuses["interpreter"]) == ("skip", "pass")


def test_a_broken_one_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import ctypes\nctypes.CDLL('libcudnn.so.77')\n")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.6.0+cu124'\ncuda = '12.4'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, report = checked(capfd, "--python", sys.executable)
    (result,) = [result for result in report["results"] if result["id"] == "torch-imports"]

    assert (code, result["status"]) == (1, "fail")
    assert result["findings"][0]["summary"] == "libcudnn.so.77 is missing"
    assert {r["status"] for r in report["results"] if r["id"] in ("affinity-kept", "import-latency", "torch-build")} == {"skip"}
