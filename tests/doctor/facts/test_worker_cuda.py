"""CUDA in a sample is noticed without a GPU, and named by its line, also where the job's code catches the exception."""

from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import Target, WorkerCuda, loader, worker_cuda
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from tests.collected import collected
from tests.facts import UNKNOWN, allowance, examination

SOURCE = """
import torch


class Data:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        {body}


def make():
    return torch.utils.data.DataLoader(Data(), collate_fn=lambda samples: {collate})
"""


@pytest.mark.parametrize(
    ("body", "collate", "used_at", "error"),
    [
        ("return torch.ones(2)", "samples", None, None),
        ("return torch.ones(2).cuda()", "samples", ":10 in __getitem__", "NoCuda"),
        ("return torch.ones(2, device='cuda')", "samples", ":10 in __getitem__", "NoCuda"),
        ("return torch.ones(2).to('cuda' if torch.cuda.is_available() else 'cpu')", "samples", None, None),  # no GPU here
        ("return index", "torch.tensor(samples).cuda()", ":14 in <lambda>", "NoCuda"),
        ("raise KeyError(index)", "samples", None, "KeyError"),
    ],
)
def test_a_sample(body: str, collate: str, used_at: str | None, error: str | None, torch_python: str, tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(SOURCE.format(body=body, collate=collate))

    async def both(probes: Probes) -> Any:
        settings = Settings(loader=f"{tmp_path / 'data.py'}:make")
        made: Any = await loader.collect(probes, settings, Target(path=torch_python, why="a test", has_torch=True), allowance())
        return await worker_cuda.collect(probes, examination(made), UNKNOWN, UNKNOWN)

    use: WorkerCuda = collected(both)

    assert use.ended.how == "answered"
    assert use.used_at == (used_at and f"{tmp_path / 'data.py'}{used_at}")
    assert (use.error or "").partition(":")[0] == (error or "")
