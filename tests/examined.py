"""Datasets of tests/datasets.py, examined by the real collectors in a real environment with torch."""

import functools
from pathlib import Path
from typing import Any

from dl_doctor.contract import needs_of
from dl_doctor.facts import Allowance, Loader, Target, loader
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import GIB
from tests.collected import collected
from tests.facts import UNKNOWN, allowance, examination, readable, start_methods, target

DATASETS = Path(__file__).with_name("datasets.py")


@functools.cache  # each imports torch, and several tables ask for the same
def examined(torch_python: str, name: str, *collects: Any, headroom: int = 8 * GIB, **settings: Any) -> list[Any]:
    """The loader of this name, and what each of these collectors says of it."""

    async def all_of_them(probes: Probes, said: Settings, python: Target, allowed: Allowance) -> list[Any]:
        made = await loader.collect(probes, said, python, allowed)
        assert isinstance(made, Loader), made
        assert made.made, made
        known = (probes, said, made, readable(made, **settings), examination(made, **settings), start_methods(), UNKNOWN)
        return [made, *[await collect(**arguments(collect, known)) for collect in collects]]

    said = Settings(loader=f"{DATASETS}:{name}", **settings)
    return collected(all_of_them, said, target(path=torch_python), allowance(headroom))  # type: ignore[no-any-return]


def arguments(collect: Any, known: tuple[object, ...]) -> dict[str, object]:
    """Of a collector, by its annotations; what is not among these is unknown."""
    return {
        name: next(one for one in known if isinstance(one, need.fact | Unavailable)) for name, need in needs_of(collect).items()
    }
