"""How the target's Python starts worker processes."""

import re

import msgspec

from dl_doctor.facts.interpreter_build import InterpreterBuild
from dl_doctor.model import Unavailable


class StartMethods(msgspec.Struct, frozen=True, kw_only=True):
    """Source: multiprocessing of the target's Python, which is asked without fixing the method."""

    python: tuple[int, int]
    """Its version, such as (3, 14)."""

    available: tuple[str, ...]
    """The first is the default."""

    chosen: str | None
    """What something that starts with the interpreter (sitecustomize) has set already."""

    @property
    def unless_said(self) -> str:
        """The method that workers are started by where the job does not say one."""
        return self.chosen or self.available[0]

    def in_force(self, said: str | None) -> str:
        """The method that this job's workers are started by, where the options or the loader say this one, or none."""
        return said or self.unless_said


def collect(interpreter: InterpreterBuild) -> StartMethods | Unavailable:
    version = re.match(r"(\d+)\.(\d+)", interpreter.version or "", re.ASCII)
    if version is None:
        return Unavailable.failed(f"asking the job's Python for its start methods: it {interpreter.ended.in_words}")
    if not interpreter.start_methods:
        return Unavailable.failed("the job's Python has no multiprocessing that could be imported")
    return StartMethods(
        python=(int(version[1]), int(version[2])),
        available=interpreter.start_methods,
        chosen=interpreter.chosen_start_method,
    )
