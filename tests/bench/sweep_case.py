"""The loader of the case that the variable SWEEP_CASE holds (JSON, as in sweep_cases.toml). It runs in the job's Python."""

import io
import json
import multiprocessing
import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

CASE = json.loads(os.environ["SWEEP_CASE"])
LOCK = multiprocessing.get_context("fork").Lock()
LENGTH = 1_000_000
SMALL = torch.zeros(64)


def compute(milliseconds: float) -> None:
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        pass


class Synthetic(Dataset):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> object:
        info = get_worker_info()
        others = info.num_workers - 1 if info else 0
        wait = CASE.get("wait", 0) + CASE.get("each_worker", 0) * others**2
        if wait:
            time.sleep(wait / 1000)
        if "compute" in CASE:
            compute(CASE["compute"])
        if "lock" in CASE:
            with LOCK:
                time.sleep(CASE["lock"] / 1000)
        if "objects" in CASE:
            return [bytes(200) for _ in range(CASE["objects"])]
        return torch.zeros(CASE["kilobytes"] * 256) if "kilobytes" in CASE else SMALL


class Pictures(Dataset):
    """JPEG files of 500 x 400 on a disk, decoded with Pillow and cropped to 224 x 224."""

    def __init__(self) -> None:
        self.files = sorted(Path(os.environ["SWEEP_JPEGS"]).glob("*.jpg"))

    def __len__(self) -> int:
        return 100 * len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        from PIL import Image  # noqa: PLC0415 (only this case needs it)

        with Image.open(io.BytesIO(self.files[index % len(self.files)].read_bytes())) as picture:
            cropped = picture.convert("RGB").crop((100, 80, 324, 304))
        pixels = torch.frombuffer(bytearray(cropped.tobytes()), dtype=torch.uint8)
        return pixels.view(224, 224, 3).permute(2, 0, 1).float() / 255


def collate(samples: list) -> object:
    compute(CASE["collate"] * len(samples))
    return torch.stack(samples)


def make_loader() -> DataLoader:
    dataset = Pictures() if CASE.get("jpeg") else Synthetic()
    how = collate if "collate" in CASE else list if "objects" in CASE else None
    return DataLoader(
        dataset, batch_size=CASE.get("batch_size", 8), shuffle=True, num_workers=2, persistent_workers=True, collate_fn=how
    )
