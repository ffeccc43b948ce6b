"""CUDA's driver library, called directly: whether CUDA begins, and what its devices are. No context is made. For probes."""

import ctypes
import time

from .mapped import mapped_files

INTEGRATED, COMPUTE_MODE, MAJOR, MINOR = 18, 20, 75, 76
"""CU_DEVICE_ATTRIBUTE_INTEGRATED, _COMPUTE_MODE and _COMPUTE_CAPABILITY_* of cuda.h."""


def begun(step):
    """The library, and what it answers; None and nothing where it does not load."""
    step("load libcuda.so.1")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, {}
    version = ctypes.c_int()
    step("cuDriverGetVersion")
    known = cuda.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value
    step("cuInit")
    begin = time.monotonic()
    code = cuda.cuInit(0)
    return cuda, {
        "init_code": code,
        "init_s": time.monotonic() - begin,
        "driver_cuda": "%d.%d" % (known // 1000, known % 1000 // 10) if known else None,
        "libcuda": mapped_files("libcuda.so"),
    }


def devices(cuda, step):
    """What each device is that CUDA shows to this process, in its own order, which is torch's."""
    count = ctypes.c_int()
    step("cuDeviceGetCount")
    if cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    step("ask the devices what they are")
    return [device(cuda, index) for index in range(count.value)]


def device(cuda, index):
    handle = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(handle), index)

    def text(function):
        value = ctypes.create_string_buffer(256)
        failed = getattr(cuda, function)(value, len(value), handle)
        return None if failed else value.value.decode("utf-8", "replace")

    def number(attribute):
        value = ctypes.c_int()
        return None if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle) else value.value

    major, minor, pci = number(MAJOR), number(MINOR), text("cuDeviceGetPCIBusId")
    return {
        "name": text("cuDeviceGetName"),
        "pci": pci and pci.lower()[-12:],
        "capability": None if major is None or minor is None else (major, minor),
        "integrated": bool(number(INTEGRATED)),
        "compute_mode": number(COMPUTE_MODE),
    }
