"""The examined Python itself: what it is, and what was left out when it was built."""

from typing import Literal

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Ended
from dl_doctor.probing import QUICK_S, Probes


class MissingModule(msgspec.Struct, frozen=True):
    module: str
    error: str
    """What importing it raised."""


class InterpreterBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Source: sys, os.confstr, /proc/self/maps and imports, in a process of that Python. All None where it did not answer."""

    ended: Ended
    version: str | None = None
    implementation: str | None = None
    """cpython, pypy, ..."""

    prefix: str | None = None
    kind: Literal["venv", "conda", "system", "installation"] | None = None
    """The environment's: one of venv or virtualenv, of conda, the operating system's own, or a Python in a folder of its own."""

    libc: str | None = None
    """`glibc` or `musl`, by what is mapped; None where it is neither."""

    libc_version: str | None = None
    missing: tuple[MissingModule, ...] = ()
    """Of the modules that a build without the right headers, or without a usable /dev/shm, leaves out."""

    start_methods: tuple[str, ...] = ()
    """Of multiprocessing; the first is the default."""

    chosen_start_method: str | None = None
    """What something that starts with the interpreter has set already."""


async def collect(probes: Probes, target: Target) -> InterpreterBuild:
    probed = await probes.run("interpreter", python=target.path, deadline_s=QUICK_S)
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, InterpreterBuild)
