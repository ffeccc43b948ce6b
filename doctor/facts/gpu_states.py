"""How each GPU is, as NVIDIA's management library tells without touching it: who uses it, its memory's errors, its modes, limits
and link.
"""

import msgspec

from dl_doctor.facts.nvml import Nvml
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.units import GIB

DEADLINE_S = 20.0
"""As for NVML's first look: without persistence, its first call starts every GPU again."""

APART_S = 1 / 3
"""Between samples of utilisation, each of which is NVML's mean over a sixth of a second to a second."""

NODES = ("/dev/nvidia", "/dev/dxg")
"""How the nodes begin that a process on a GPU has open; the second is WSL's."""

USED_BYTES = GIB
USED_SHARE = 0.03
"""Memory up to the larger of these may be in use on an idle GPU: a display, contexts of monitors, and with version 1 of NVML's
figure the driver's own part, which is some 600 MiB of an H100. Proposal."""

USED_TIME = 0.1
"""Up to here an idle GPU may say to be in use, in one of three samples at least. Proposal."""

MPS_SERVER = "nvidia-cuda-mps"
"""/proc/PID/comm of nvidia-cuda-mps-server, which has a context and computes only for its clients."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that NVML lists for a GPU. What stands in its command line is not asked for."""

    pid: int
    kind: str
    """`compute`, `graphics` or `mps`."""

    memory_bytes: int | None = None
    uid: int | None = None
    """This one, the name and the age are None where it is not in this PID namespace: the pid may be one of the host's. A process
    here that has it by chance is told by having no device node of NVIDIA's open."""

    name: str | None = None
    """/proc/PID/comm: at most 15 bytes."""

    age_s: float | None = None
    ours: bool = False
    """Of this user, for sure."""

    related: bool = False
    """Of the doctor's family: what it was called from, such as a notebook that has begun CUDA, what it has started, what is
    in its process group, and where it is a rank other ranks below the same torchrun or srun, which have sessions of their own."""

    @property
    def stranger(self) -> bool:
        """Whether it computes for somebody else."""
        return self._computes_for_itself and not self.ours

    @property
    def leftover(self) -> bool:
        """Whether it is one of this user's that has nothing to do with this run."""
        return self._computes_for_itself and self.ours

    @property
    def _computes_for_itself(self) -> bool:
        return self.kind != "graphics" and not self.related and self.name != MPS_SERVER


class MemoryErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Since the driver was loaded, or the GPU was last reset."""

    corrected: int | None = None
    uncorrected: int | None = None
    sram_uncorrected: int | None = None
    """Of them in the chip's own memories (caches, registers), which have no rows to remap."""

    sram_threshold_exceeded: bool | None = None
    """NVIDIA's sign, of all the GPU's life, that the chip is to be replaced."""


class RemappedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the memory that were replaced by spare ones, of all the GPU's life. From Ampere on."""

    corrected: int
    uncorrected: int
    """How many, because of which errors."""

    pending: bool
    """One more will be, at the next reset."""

    failed: bool
    """There was no spare one left."""


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """How the GPU stands in a fabric of NVSwitches. From Hopper on."""

    state: str
    """`not_supported`, `not_started`, `in_progress` or `completed`."""

    status: str
    """What the registration gave, by the name of the code; `SUCCESS` where it is fine, or not done yet."""

    health: int | None = None
    """0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity; None where the driver does not sum it up."""

    health_mask: int | None = None
    """Its bits: NVML_GPU_FABRIC_HEALTH_MASK_* of nvml.h."""


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. What a call did not give is None, and why stands in `errors`."""

    index: int
    """NVML's own, in the order of the bus."""

    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    """Its address on the bus, such as `0000:07:00.0`."""

    pci_device: str | None = None
    """Its kind, such as `2330`; lower case, hexadecimal."""

    pci_subsystem: str | None = None
    """Maker and kind of the board, such as `10de:16c1`."""

    capability: tuple[int, int] | None = None
    """CUDA compute capability."""

    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Without what the driver reserves for itself, in version 2."""

    memory_version: int | None = None
    """Of NVML's figure: 1 counts what is reserved as used; an old driver has no other."""

    utilisation: tuple[float, ...] = ()
    """Samples between 0 and 1, a third of a second apart; empty where NVML does not tell."""

    processes: tuple[GpuProcess, ...] = ()
    processes_known: bool = False
    """Whether NVML lists processes at all. An empty list proves nothing: others' are not in it, in a PID namespace."""

    ecc: bool | None = None
    memory_errors: MemoryErrors | None = None
    remapped_rows: RemappedRows | None = None
    retired_pages: int | None = None
    """Pages of the memory that are not used any more because of double bit errors. Up to Turing and Volta."""

    retired_pages_pending: bool | None = None
    recovery_action: int | None = None
    """What the driver wants done, by NVML_GPU_RECOVERY_ACTION_*: 0 nothing. From driver 570 on."""

    compute_mode: str | None = None
    """`default`, `exclusive_thread`, `prohibited` or `exclusive_process`."""

    mig: bool | None = None
    mig_instances: int = 0
    """That this process may see."""

    virtualization: str | None = None
    """`none`, `passthrough`, `vgpu`, `host_vgpu` or `host_vsga`."""

    licensed: bool | None = None
    """Of a vGPU: whether any of its features is; None where none needs a licence."""

    persistence: bool | None = None
    display_active: bool | None = None
    fabric: Fabric | None = None
    link_gen_max: int | None = None
    link_width_max: int | None = None
    """Of the card: the generation by NVML, the lanes by /sys/bus/pci/devices/*/max_link_width."""

    slot_gen_max: int | None = None
    slot_width_max: int | None = None
    """Of card and slot together: by NVML, and the lanes by the port's max_link_width where that is less. Many slots and most
    laptops have fewer lanes than the card, and NVML's figure was seen to be the card's there (from memory)."""

    power_limit_w: float | None = None
    """The one that is enforced."""

    power_limit_default_w: float | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    memory_bus_bits: int | None = None
    slowdown_c: int | None = None
    """From this temperature on its clocks are slowed."""

    errors: dict[str, str] = {}
    """Names of error codes by the function, or the field, that gave them, such as NOT_SUPPORTED or GPU_IS_LOST."""

    @property
    def label(self) -> str:
        return f"gpu:{self.index}"

    @property
    def lost(self) -> bool:
        return "GPU_IS_LOST" in self.errors.values()

    @property
    def divided(self) -> bool:
        """Whether its instances, and not the GPU, are what jobs use."""
        return bool(self.mig and self.mig_instances)

    @property
    def allowed_bytes(self) -> int:
        """What may be in use on an idle one."""
        return max(USED_BYTES, int(USED_SHARE * (self.memory_total_bytes or 0)))

    @property
    def related_bytes(self) -> int:
        """What the doctor's family has of its memory."""
        return sum(process.memory_bytes or 0 for process in self.processes if process.related)

    @property
    def filled(self) -> bool:
        """Whether more of its memory is taken than on an idle GPU."""
        return (self.memory_used_bytes or 0) - self.related_bytes > self.allowed_bytes

    @property
    def utilised(self) -> bool:
        """Whether something ran on it in every sample."""
        return bool(self.utilisation) and min(self.utilisation) > USED_TIME

    @property
    def in_use(self) -> bool:
        """Whether something works on it, so that what is measured there means nothing."""
        return self.utilised or self.taken

    @property
    def taken(self) -> bool:
        """The same, and it is not the doctor's own family."""
        theirs = self.utilised and not any(process.related for process in self.processes)
        return theirs or self.filled or any(process.stranger for process in self.processes)


class GpuStates(msgspec.Struct, frozen=True, kw_only=True):
    """Source: nvidia-ml-py in a process of its own, as `nvml`, and /proc and /sys there. No CUDA is begun."""

    ended: Ended
    error: str | None = None
    """Code of nvmlInit by name; None where it began."""

    gpus: tuple[GpuState, ...] = ()
    took_s: float | None = None
    """nvmlInit and the handles of all GPUs, which starts those that nothing keeps started."""

    confidential: bool | None = None
    """Whether confidential computing is on: what goes to the GPUs is then encrypted."""

    errors: dict[str, str] = {}
    """Of the functions that ask about no single GPU."""


async def collect(probes: Probes, nvml: Nvml) -> GpuStates | Unavailable:
    if not nvml.gpus:
        return Unavailable.absent("NVML lists no GPU")
    probed = await probes.run("gpu_states", {"nodes": NODES, "apart_s": APART_S}, deadline_s=DEADLINE_S)
    return msgspec.convert({**(probed.answer or {}), "ended": probed.ended}, GpuStates)
