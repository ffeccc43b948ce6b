"""A torch of our own, with as much of it as the doctor asks. What it knows of GPUs it has from libcuda.so.1, as the real one."""

import ctypes
import os
import time
import warnings
from typing import Any

from torch import version

__version__ = version.__version__
uint8 = "uint8"
pinned: list[int] = []


def empty(size: int, *, dtype: Any = None, device: Any = None, pin_memory: bool = False) -> "Tensor":
    """Pinned ones are given blocks of powers of two, of FAKE_PINNED_BYTES in all."""
    if pin_memory:
        pinned.append(1 << (size - 1).bit_length())
        if sum(pinned) > int(os.environ.get("FAKE_PINNED_BYTES", "1000000000000")):
            raise RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.")
    return Tensor()


def ones(_size: int, *, dtype: Any = None) -> "Tensor":
    return Tensor()


class Tensor:
    def to(self, _device: str, *, non_blocking: bool) -> None:
        """Copy to the GPU: fast where it is pinned, which is how one may ask for a copy that does not block."""
        if "FAKE_NO_COPIES" in os.environ:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        time.sleep(0.001 if non_blocking else 0.004)


class cuda:  # noqa: N801 (the module's name)
    @staticmethod
    def is_available() -> bool:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return False
        known = ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(known))
        code = library.cuInit(0)
        if version.cuda and known.value // 1000 < int(version.cuda.partition(".")[0]):
            told = f"The NVIDIA driver on your system is too old (found version {known.value})."
        elif code:
            told = f"cudaGetDeviceCount() gave {code}."
        else:
            return bool(version.cuda)
        warnings.warn(f"CUDA initialization: {told} (Triggered internally at CUDAFunctions.cpp:109.)", stacklevel=2)
        return False

    @staticmethod
    def init() -> None:
        pass

    @staticmethod
    def synchronize() -> None:
        pass

    @staticmethod
    def device_count() -> int:
        count = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count))
        return count.value
