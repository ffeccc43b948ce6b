"""Libraries of ours that stand in for NVIDIA's, so that the real nvidia-ml-py and the real loader have something to ask."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

SOURCES = {"libnvidia-ml": "nvml.c", "libcuda": "cuda.c"}


def lay_torch(folder: Path, cuda: str | None = "12.8", hip: str | None = None) -> Path:
    """Lay our torch into a folder, for PYTHONPATH, as one that was built for this CUDA or ROCm."""
    (folder / "torch").mkdir(parents=True)
    shutil.copy(HERE / "torch.py", folder / "torch" / "__init__.py")
    (folder / "torch" / "version.py").write_text(f"__version__ = '2.8.0'\ncuda = {cuda!r}\nhip = {hip!r}\n")
    return folder


class Fakes:
    """The compiled libraries, and machines with them: each is a folder with links as a driver's package lays them."""

    def __init__(self, folder: Path, compiler: str) -> None:
        self._folder = folder
        self._compiler = compiler

    def install(self, folder: Path, version: str = "550.90.07", *, old: bool = False) -> Path:
        """Lay the libraries of a driver of this version into a folder, for LD_LIBRARY_PATH."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in SOURCES:
            shutil.copy(self._compiled(name, old=old), folder / f"{name}.so.{version}")
            (folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
        return folder

    def _compiled(self, name: str, *, old: bool) -> Path:
        library = self._folder / f"{name}{'-old' if old else ''}.so"
        if not library.exists():
            options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}.so.1"]
            source = str(HERE / SOURCES[name])
            subprocess.run([self._compiler, *options, *(["-DOLD_DRIVER"] if old else []), "-o", library, source], check=True)
        return library
