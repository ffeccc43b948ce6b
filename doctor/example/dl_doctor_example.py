"""A small image dataset for `--example`: PNG files, decoded and cropped as a training job would, with torch alone.

It is imported by file, as a user's is; its name cannot be that of a module of theirs.
"""

import struct
import zlib
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

FILES = sorted((Path(__file__).parent / "images").glob("*.png"))
"""Eight pictures of 128 x 128 made by sines, in RGB with rows that are not filtered, so that a few lines decode them."""

LENGTH = 512
SIDE = 112


class Images(Dataset):
    """Sample i: a random crop of picture i mod 8 and its number; float32 of 3 x 112 x 112 in -1 to 1, and int."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        number = index % len(FILES)
        picture = decoded(FILES[number].read_bytes())
        top, left = torch.randint(0, picture.shape[1] - SIDE + 1, (2,)).tolist()
        crop = picture[:, top : top + SIDE, left : left + SIDE]
        return crop.float() / 127.5 - 1, number


def decoded(png: bytes) -> torch.Tensor:
    """The pixels of a PNG without filters and interlacing: uint8 of 3 x height x width."""
    width, height = struct.unpack(">II", png[16:24])
    begin, compressed = 8, b""
    while begin < len(png):
        (length,) = struct.unpack(">I", png[begin : begin + 4])
        if png[begin + 4 : begin + 8] == b"IDAT":
            compressed += png[begin + 8 : begin + 8 + length]
        begin += 12 + length
    rows = torch.frombuffer(bytearray(zlib.decompress(compressed)), dtype=torch.uint8).view(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3).permute(2, 0, 1)


def make_loader() -> DataLoader:
    return DataLoader(Images(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
