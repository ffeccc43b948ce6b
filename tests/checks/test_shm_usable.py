"""What is refused fails by its number; a mount that works passes, whatever its options."""

from typing import Any

import pytest

from dl_doctor.checks.shm.shm_usable import CHECK
from dl_doctor.facts.refusal import Refusal
from dl_doctor.model import Ended, Unavailable
from tests.facts import loader_plan, shared_memory, shared_memory_use


def refusal(code: str, step: str = "create a segment") -> Refusal:
    return Refusal(step=step, code=code, error="said no")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "pass"),
        ({"segment": refusal("ENOSPC", "reserve 4194304 bytes")}, "fail"),
        ({"lock": refusal("ENOSYS", "make a lock of multiprocessing")}, "fail"),  # a kernel or a libc without semaphores
        ({"segment": refusal("EACCES"), "lock": refusal("ENOENT")}, "fail"),  # glibc says ENOENT of a folder it may not enter
        ({"segment": refusal("ENOWAY")}, "fail"),  # a number that nobody has words for is a refusal all the same
        ({"segment": refusal("ModuleNotFoundError", "import _posixshmem")}, "error"),  # the machine was not even asked
        ({"ended": Ended(how="killed", signal="SIGBUS", step="map and write it")}, "fail"),
        ({"ended": Ended(how="stuck", pid=7, state="D", step="create a segment")}, "fail"),
        ({"ended": Ended(how="hung", step="map and write it")}, "error"),
        ({"ended": Ended(how="unstartable", error="no such file")}, "error"),
        ({"ended": Ended(how="exited", exit_code=1)}, "error"),  # an interpreter that does not come up tried nothing
    ],
)
def test_by_what_happened(fields: dict[str, Any], status: str) -> None:
    assert CHECK.judge(shared_memory_use(**fields), shared_memory(), loader_plan(num_workers=4)).status == status


@pytest.mark.parametrize(
    ("plan", "level"),
    [({"num_workers": 0}, "note"), ({"num_workers": 0, "ranks": 2}, "fail"), ({}, "fail"), ({"num_workers": 1}, "fail")],
)
def test_without_workers_nothing_needs_it(plan: dict[str, int], level: str) -> None:
    (finding,) = CHECK.judge(shared_memory_use(lock=refusal("ENOENT")), shared_memory(), loader_plan(**plan)).findings

    assert finding.level == level


@pytest.mark.parametrize(
    ("code", "cause", "explained_by"),
    [
        ("ENOSPC", "is full", "shm-size"),
        ("ENOENT", "There is no /dev/shm", "shm-size"),
        ("EACCES", "mode 1777", None),
        ("EROFS", "read-only", "shm-size"),
        ("EMFILE", "limit on descriptors, not the memory", "fd-limit"),  # the phrase often names shared memory
    ],
)
def test_the_number_decides_the_words(code: str, cause: str, explained_by: str | None) -> None:
    (finding,) = CHECK.judge(shared_memory_use(segment=refusal(code)), shared_memory(), loader_plan()).findings

    assert cause in finding.why
    assert finding.explained_by == explained_by


@pytest.mark.parametrize(
    ("shm", "levels"),
    [
        (shared_memory(filesystem="ext4"), ["warn"]),
        (shared_memory(filesystem="overlay"), ["warn"]),
        (shared_memory(filesystem="unknown"), []),
        (Unavailable.absent("/proc/self/mountinfo does not exist"), []),  # macOS has shared memory and no /dev/shm
    ],
)
def test_where_it_works_and_lies_on_a_disk(shm: Any, levels: list[str]) -> None:
    assert [finding.level for finding in CHECK.judge(shared_memory_use(), shm, loader_plan()).findings] == levels
