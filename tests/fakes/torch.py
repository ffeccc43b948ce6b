"""A torch of our own, with as much of it as the doctor asks. What it knows of GPUs it has from libcuda.so.1, as the real one."""

import ctypes
import warnings

from torch import version

__version__ = version.__version__


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
    def device_count() -> int:
        count = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count))
        return count.value
