"""A Python that starts and has all its pieces, and a C library that torch was built for."""

from typing import Any

import pytest

from dl_doctor.checks.python.interpreter import CHECK
from dl_doctor.facts import InterpreterBuild
from dl_doctor.facts.interpreter_build import MissingModule
from dl_doctor.model import Ended, Unavailable
from tests.facts import interpreter_build, target, torch_files

NO_TORCH = Unavailable.absent("torch is not installed")


@pytest.mark.parametrize(
    ("fields", "torch", "status"),
    [
        ({}, {}, "pass"),
        ({}, NO_TORCH, "pass"),
        ({"version": "3.8.18", "kind": "conda"}, {}, "pass"),
        ({"libc": "musl", "libc_version": None}, {}, "fail"),
        ({"libc": "musl", "libc_version": None}, {"links_glibc": False}, "pass"),  # Alpine's own package, built for musl
        ({"libc": "musl", "libc_version": None}, NO_TORCH, "pass"),
        ({"libc_version": "2.17"}, {}, "warn"),
        ({"libc_version": "2.28"}, {}, "pass"),
        ({"libc_version": "2.100"}, {"glibc_wanted": "2.28"}, "pass"),  # no text is compared
        ({"libc_version": "2.17"}, {"glibc_wanted": None}, "pass"),  # a build from source has no tag
        ({"libc": None, "libc_version": None}, {}, "pass"),  # macOS
    ],
)
def test_c_libraries(fields: dict[str, Any], torch: Any, status: str) -> None:
    torch = torch if isinstance(torch, Unavailable) else torch_files(**torch)

    assert CHECK.judge(interpreter_build(**fields), target(), torch).status == status


@pytest.mark.parametrize(
    ("module", "level"),
    [("_ctypes", "fail"), ("_multiprocessing", "fail"), ("_posixshmem", "fail"), ("_lzma", "note"), ("_bz2", "note")],
)
def test_missing_pieces(module: str, level: str) -> None:
    build = interpreter_build(missing=(MissingModule(module, f"ImportError: {module}"),))
    (finding,) = CHECK.judge(build, target(), NO_TORCH).findings

    assert (finding.level, finding.subject) == (level, module)
    assert finding.fixes[-1].commands == ("uv venv --python 3.11.7",)


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        ({"how": "exited", "exit_code": 127, "output_tail": "libpython3.11.so.1.0: cannot open"}, "fail"),
        ({"how": "killed", "signal": "SIGSEGV"}, "fail"),
        ({"how": "unstartable", "error": "/venv/bin/python: No such file or directory"}, "fail"),
        ({"how": "stuck", "pid": 7, "state": "D", "wait_channel": "nfs_wait"}, "fail"),
        ({"how": "hung"}, "error"),  # a slow disk is no broken Python
        ({"how": "raised", "error": "SyntaxError"}, "error"),  # older than what our probes are written in
        ({"how": "exited", "exit_code": 1, "output_tail": "Traceback (most recent call last):\n..."}, "error"),  # Python 2.7
    ],
)
def test_one_that_does_not_answer(ended: dict[str, Any], status: str) -> None:
    verdict = CHECK.judge(InterpreterBuild(ended=Ended(**ended)), target(), NO_TORCH)

    assert verdict.status == status
    for finding in verdict.findings:
        assert finding.why
        assert ended.get("output_tail", "") in finding.why
        assert finding.fixes
