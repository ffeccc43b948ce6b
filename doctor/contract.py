"""The contract of a check: a pure function from facts to a verdict, with its page as docstring."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from dl_doctor.model import Scope, Unavailable, Verdict

HEADINGS = (
    "What it checks",
    "Why it matters",
    "How it decides",
    "How to fix",
    "Known limits",
    "References",
)
"""The headings of every page, in this order."""


@dataclass(frozen=True)
class Need:
    """A fact that a function takes, and whether it can do without."""

    fact: type
    required: bool


@dataclass(frozen=True)
class Check:
    """A judgement about facts.

    `judge` takes facts by annotation and gives a Verdict; its name is the id, its folder the area, its docstring the page.
    The same facts give the same verdict: it reads no clock, no environment and no file.
    """

    judge: Callable[..., Verdict]
    essential: bool = False
    """If this one could not tell, the run could not tell."""

    scope: Scope = "job"
    origin: str = "dl-doctor"
    """The distribution that brings it."""

    prefix: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """kebab-case; names the examined thing, never the trouble."""
        return self.prefix + self.judge.__name__.replace("_", "-")

    @property
    def area(self) -> str:
        return self.origin if self.prefix else self.judge.__module__.split(".")[-2]

    @property
    def title(self) -> str:
        return self.page.partition("\n")[0].rstrip(".") or self.id

    @property
    def page(self) -> str:
        """Markdown: the title, then the HEADINGS; empty under `python -OO`."""
        return inspect.getdoc(self.judge) or ""

    @property
    def needs(self) -> dict[str, Need]:
        return needs_of(self.judge)


@functools.cache
def needs_of(function: Callable[..., object]) -> dict[str, Need]:
    """The parameters of a check or collector, by name. `Fact | Unavailable` is one that it can do without."""
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    for name in parameters:
        if name not in hints:
            raise TypeError(f"{function.__qualname__} does not say by an annotation which fact {name} is")
    return {name: need_of(hints[name]) for name in parameters}


def need_of(annotation: object) -> Need:
    alternatives = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    facts = [alternative for alternative in alternatives if alternative is not Unavailable]
    if len(facts) != 1 or not isinstance(facts[0], type):
        raise TypeError(f"a parameter must be annotated with one fact, or with `Fact | Unavailable`, not {annotation}")
    return Need(facts[0], required=Unavailable not in alternatives)
