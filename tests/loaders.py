"""Datasets and loaders in files of their own, and probes that run on them as the doctor's collectors have it."""

import asyncio
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dl_doctor.probing import Probed, Probes
from dl_doctor.system import System

HEAD = """
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4,), float(index))

def collate(samples):
    return torch.stack(samples)
"""


def written(folder: Path, source: str) -> str:
    """A specification of the function `make` in this source, which follows HEAD."""
    (folder / "job.py").write_text(HEAD + textwrap.dedent(source))
    return f"{folder}/job.py:make"


def probed(python: str, spec: str, name: str, arguments: dict[str, Any], deadline_s: float = 60) -> Probed:
    """What a probe answers that runs where this was made."""
    return probed_each(python, spec, name, [arguments], deadline_s)[0]


def probed_each(python: str, spec: str, name: str, arguments: Sequence[dict[str, Any]], deadline_s: float = 60) -> list[Probed]:
    """What a probe answers to each of these arguments, one after the other, each in a fork of the process that made it once."""

    async def run() -> list[Probed]:
        system = System()
        probes = Probes(system, system.clock_s() + 120)
        try:
            loading = {"spec": spec, "allowed_bytes": None}
            made = await probes.run("loader", loading, python=python, deadline_s=60, place="loading")
            assert (made.answer or {}).get("wrong", "nothing was made") is None, made
            return [await probes.run(name, one, python=python, deadline_s=deadline_s, place="loaded") for one in arguments]
        finally:
            probes.close()

    return asyncio.run(run())
