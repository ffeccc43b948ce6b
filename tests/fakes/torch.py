"""A torch of our own, with as much of it as the doctor asks. What it knows of GPUs it has from libcuda.so.1, as the real one."""

import ctypes
import os
import time
import warnings
from types import SimpleNamespace
from typing import Any

from torch import version

__version__ = version.__version__
uint8 = "uint8"

ERRORS = {
    2: "out of memory",
    46: "CUDA-capable device(s) is/are busy or unavailable",
    209: "no kernel image is available for execution on the device",
    719: "unspecified launch failure",
    999: "unknown error",
}
"""As cudaGetErrorString says them."""
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


def arange(_count: int) -> "Tensor":
    return Tensor()


class AcceleratorError(RuntimeError):
    """From release 2.8 on it has the code; FAKE_NO_CODES makes us an older one."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error: {ERRORS[code]}\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.")
        if "FAKE_NO_CODES" not in os.environ:
            self.error_code = code


class Tensor:
    """It holds no values, and knows where it lies and whether it is as it would be on a CPU."""

    def __init__(self, device: str = "cpu", *, wrong: bool = False) -> None:
        self.device = device
        self.wrong = wrong

    def to(self, device: str, *, non_blocking: bool | None = None) -> "Tensor":
        """Copy to the GPU: fast where it is pinned, which is how one may ask for a copy that does not block."""
        if "FAKE_NO_COPIES" in os.environ:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        if non_blocking is not None:
            time.sleep(0.001 if non_blocking else 0.004)
        return Tensor(device, wrong=computed("copy", device))

    def cpu(self) -> "Tensor":
        return Tensor(wrong=self.wrong)

    def __matmul__(self, _other: "Tensor") -> "Tensor":
        return Tensor(self.device, wrong=computed("product", self.device))

    def __add__(self, _number: int) -> "Tensor":
        return self

    def __rmul__(self, _number: float) -> "Tensor":
        return self

    def __sub__(self, other: "Tensor") -> "Tensor":
        return Tensor(wrong=self.wrong or other.wrong)

    def __le__(self, _other: "Tensor") -> "Tensor":
        return self

    def __float__(self) -> float:
        return 0.75 if self.wrong else 1.0

    def same(self, *_shape: int) -> "Tensor":
        return self

    remainder = sub = float = reshape = abs = max = mean = same


def computed(what: str, device: str) -> bool:
    """Whether the result is wrong, as libcuda's file tells; raises what it tells."""
    if not device.startswith("cuda:"):
        return False
    wrong = ctypes.c_int()
    code = ctypes.CDLL("libcuda.so.1").fakeCompute(what.encode(), int(device[5:]), ctypes.byref(wrong))
    if code:
        raise AcceleratorError(code)
    return bool(wrong.value)


class backends:  # noqa: N801 (the module's name)
    class cudnn:  # noqa: N801
        @staticmethod
        def version() -> int:
            if "FAKE_OTHER_CUDNN" in os.environ:
                raise RuntimeError("cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2), found (9, 1, 0)")
            return 91002


class nn:  # noqa: N801 (the module's name)
    class functional:  # noqa: N801
        @staticmethod
        def conv2d(images: Tensor, _kernel: Tensor, *, padding: int) -> Tensor:  # noqa: ARG004
            return Tensor(images.device, wrong=computed("convolution", images.device))


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
        if version.hip:
            return not code
        if version.cuda and known.value // 1000 < int(version.cuda.partition(".")[0]):
            told = f"The NVIDIA driver on your system is too old (found version {known.value})."
        elif code:
            told = f"cudaGetDeviceCount() gave {code}."
        else:
            return bool(version.cuda)
        warnings.warn(f"CUDA initialization: {told} (Triggered internally at CUDAFunctions.cpp:109.)", stacklevel=2)
        return False

    @staticmethod
    def get_arch_list() -> list[str]:
        return ["gfx90a", "gfx942"] if version.hip else ["sm_80", "sm_90", "compute_90"]

    @staticmethod
    def get_device_properties(_index: int) -> SimpleNamespace:
        return SimpleNamespace(name="AMD Instinct MI300X", gcnArchName="gfx942:sramecc+:xnack-", is_integrated=0)

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
