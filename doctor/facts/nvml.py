"""What NVIDIA's management library says of the GPUs that this process may see."""

import msgspec

from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.nvidia_driver import NvidiaDriver, nothing_to_ask
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes

DEADLINE_S = 20.0
"""Without persistence, its first call starts every GPU, which takes a second or two for each."""

HANDLE = "nvmlDeviceGetHandleByIndex"


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. What a call did not give is None, and why stands in `errors`."""

    index: int
    """NVML's own, in the order of the bus; CUDA may count in another."""

    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    """Its address on the bus, such as `0000:07:00.0`."""

    minor: int | None = None
    """The number of its node: 3 for /dev/nvidia3."""

    memory_bytes: int | None = None
    mig: bool | None = None
    """Whether it is divided into instances."""

    errors: dict[str, str] = {}
    """Names of error codes by the function that gave them, such as NOT_SUPPORTED or GPU_IS_LOST."""

    @property
    def usable(self) -> bool:
        return self.trouble is None and HANDLE not in self.errors

    @property
    def trouble(self) -> str | None:
        """What is wrong with it; not being allowed to look at it is not."""
        if "GPU_IS_LOST" in self.errors.values():
            return "GPU_IS_LOST"
        handle = self.errors.get(HANDLE)
        return handle if handle != "NO_PERMISSION" else None


class Nvml(msgspec.Struct, frozen=True, kw_only=True):
    """Source: nvidia-ml-py in a process of its own, by our own interpreter and the loader's path of the job."""

    ended: Ended
    error: str | None = None
    """Code of nvmlInit by name, such as DRIVER_NOT_LOADED or LIBRARY_NOT_FOUND; None where it began."""

    driver_version: str | None = None
    cuda_version: str | None = None
    """The newest CUDA that the driver knows, such as `12.4`."""

    count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    errors: dict[str, str] = {}
    """Of the functions that ask about no single GPU."""

    @property
    def usable(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.usable)

    @property
    def divided(self) -> bool:
        """Whether a GPU is divided into instances: then cards and what CUDA shows are different numbers."""
        return any(gpu.mig for gpu in self.gpus)


async def collect(probes: Probes, driver: NvidiaDriver, grant: GpuGrant | Unavailable) -> Nvml | Unavailable:
    if nothing := nothing_to_ask(driver, grant):
        return nothing
    if driver.platform == "jetson":
        return Unavailable.absent("on a Jetson NVML knows little of the GPU; a run on it tells")
    probed = await probes.run("nvml", deadline_s=DEADLINE_S)
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, Nvml)
