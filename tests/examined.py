"""Datasets of tests/datasets.py, examined by the real collectors in a real environment with torch."""

from pathlib import Path
from typing import Any

from dl_doctor.facts import Loader, MemoryBudget, Target, loader
from dl_doctor.model import Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.units import GIB
from tests.collected import collected
from tests.facts import memory_budget, target

DATASETS = Path(__file__).with_name("datasets.py")


def examined(torch_python: str, name: str, *collects: Any, headroom: int = 8 * GIB, **settings: Any) -> list[Any]:
    """The loader of this name, and what each of these collectors says of it."""

    async def all_of_them(probes: Probes, said: Settings, python: Target, memory: MemoryBudget | Unavailable) -> list[Any]:
        made = await loader.collect(probes, said, python, memory)
        assert isinstance(made, Loader), made
        assert made.made, made
        return [made, *[await collect(probes, said, made) for collect in collects]]

    said = Settings(loader=f"{DATASETS}:{name}", **settings)
    return collected(all_of_them, said, target(path=torch_python), memory_budget(headroom))  # type: ignore[no-any-return]
