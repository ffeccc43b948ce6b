"""GPUs as torch has them, whoever made them, and the CPU in their place: memory, events, and what is known of each."""

import ctypes
import os
import time
import typing  # noqa: F401 (for comments)

from .shortening import beginning

INTEGRATED, L2_BYTES = 18, 38
"""CU_DEVICE_ATTRIBUTE_INTEGRATED and CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE of cuda.h."""

LARGEST_L2_BYTES = 128 << 20
"""Where nobody tells: RTX PRO 6000 Blackwell's, the largest of NVIDIA's (data sheet, from memory)."""

NOTHING_KNOWN = {
    "name": None,
    "capability": None,
    "multiprocessors": None,
    "memory_bytes": None,
    "integrated": False,
    "pci": None,
    "l2_bytes": None,
}

PCI = "/sys/bus/pci/devices"
NODES = "/sys/devices/system/node"


def kind_of(torch):
    """The type of torch.device that GPUs have here; None where torch sees none. AMD's are `cuda` to torch too."""
    if torch.cuda.is_available():
        return "cuda"
    accelerator = getattr(torch, "accelerator", None)  # from 2.6 on
    if accelerator is not None:
        return accelerator.current_accelerator().type if accelerator.is_available() else None
    xpu, mps = getattr(torch, "xpu", None), getattr(torch.backends, "mps", None)
    if xpu is not None and xpu.is_available():
        return "xpu"
    return "mps" if mps is not None and mps.is_available() else None


def count_of(torch, kind):
    return getattr(torch, kind).device_count() if kind in ("cuda", "xpu") else 1


class Instant:
    """An event of the CPU's, which has no queue: it has happened when it is recorded."""

    def record(self):
        self.at = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, later):
        """In milliseconds, as torch's."""
        return 1000 * (later.at - self.at)


class Device:
    """One GPU, or the CPU."""

    def __init__(self, torch, kind, index):
        self.torch, self.kind, self.index = torch, kind, index
        self.module = getattr(torch, kind, torch)
        self.place = torch.device(kind, index) if kind in ("cuda", "xpu") else torch.device(kind)
        self.backend = "hip" if kind == "cuda" and torch.version.hip else kind
        self.raised = {}  # what went wrong, by what was tried
        self.skipped = None
        self.budget = 0  # bytes that may be taken
        self.told = dict(NOTHING_KNOWN, integrated=kind == "mps")
        if kind in ("cuda", "xpu"):
            try:
                self.told.update(self.known())
            except Exception as error:  # noqa: BLE001 (such as of a GPU that is lost)
                self.raised["begin"] = words_of(error)

    def known(self):
        """What torch and the driver tell before anything is begun on it."""
        its = self.module.get_device_properties(self.index)
        found = {"name": its.name, "memory_bytes": its.total_memory}
        found["multiprocessors"] = getattr(its, "multi_processor_count", getattr(its, "gpu_eu_count", None))
        if self.kind == "cuda":
            found["integrated"] = bool(getattr(its, "is_integrated", False))
            found["l2_bytes"] = getattr(its, "L2_cache_size", None)
            if hasattr(its, "pci_bus_id"):  # from 2.8 on
                found["pci"] = "%04x:%02x:%02x.0" % (getattr(its, "pci_domain_id", 0), its.pci_bus_id, its.pci_device_id)
        if self.backend == "cuda":
            found["capability"] = [its.major, its.minor]
            found.update(told_by_driver(self.index))
        return found

    def use(self):
        """Make it the one that events and streams are of."""
        if self.kind in ("cuda", "xpu"):
            self.module.set_device(self.index)

    def begin(self):
        """Have its context made."""
        self.use()
        self.torch.zeros(1, device=self.place)
        self.wait()

    def mark(self):
        """A point in its queue."""
        if self.kind == "cpu":
            event = Instant()
        else:
            events = self.module.event if self.kind == "mps" else self.module
            event = events.Event(enable_timing=True)
        event.record()
        return event

    def wait(self):
        if self.kind in ("cuda", "xpu"):
            self.module.synchronize(self.index)
        elif self.kind == "mps":
            self.module.synchronize()

    def free_bytes(self):
        """Of its memory; where that is the CPU's, no more than the kernel has to give."""
        if self.kind == "cpu":
            return available_bytes()
        if self.kind == "mps":
            return self.module.recommended_max_memory() - self.module.driver_allocated_memory()
        if hasattr(self.module, "mem_get_info"):
            free = self.module.mem_get_info(self.index)[0]
        else:  # XPU before 2.7
            free = self.told["memory_bytes"] - self.module.memory_reserved(self.index)
        return min(free, available_bytes()) if self.told["integrated"] else free

    def let_go(self):
        """Give back what torch keeps of memory that is not used any more."""
        if self.kind != "cpu":
            self.module.empty_cache()

    @property
    def has_link(self):
        """Whether there is a way between its memory and the host's. The CPU stands for a GPU in tests."""
        return self.kind != "mps"

    @property
    def l2_bytes(self):
        if self.kind == "cpu":
            return 0
        return self.told["l2_bytes"] or LARGEST_L2_BYTES

    def supports(self, major, minor):
        """Whether it is one of NVIDIA's with at least this compute capability."""
        return self.told["capability"] is not None and self.told["capability"] >= [major, minor]


def words_of(error):
    """An exception in a line; CUDA's go on with advice."""
    text = str(error).strip()
    return "%s: %s" % (type(error).__name__, beginning(text.splitlines()[0], 300) if text else "")


def told_by_driver(index):
    """Of one of NVIDIA's GPUs, in the order that torch has: libcuda needs no context for this."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    device, number, address = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(32)
    cuda.cuInit(0)
    if cuda.cuDeviceGet(ctypes.byref(device), index):
        return {}
    found = {}  # type: dict[str, typing.Any]
    if not cuda.cuDeviceGetPCIBusId(address, len(address), device):
        domain, _, rest = address.value.decode("ascii", "replace").lower().partition(":")
        found["pci"] = "%s:%s" % (domain.lstrip("0").rjust(4, "0"), rest)
    if not cuda.cuDeviceGetAttribute(ctypes.byref(number), L2_BYTES, device) and number.value:
        found["l2_bytes"] = number.value
    if not cuda.cuDeviceGetAttribute(ctypes.byref(number), INTEGRATED, device):
        found["integrated"] = bool(number.value)
    return found


def available_bytes():
    """MemAvailable; nothing where there is no /proc."""
    for line in text_of("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return 0


def text_of(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def busy(pci):
    """The least of three looks at how busy the kernel says that a GPU is, as a share: AMD's by their address, and a Jetson's one.

    None where it does not say.
    """
    looks = []
    for _ in range(3):
        told = [(text_of(path).strip(), all_of_it) for path, all_of_it in busy_files(pci)]
        looks += [int(text) / all_of_it for text, all_of_it in told if text.isdigit()]
        if not looks:
            return None
        time.sleep(0.1)
    return min(looks)


def busy_files(pci):
    """Files, and what stands in them for all of the time: percent, and per mille (the second from memory)."""
    jetson = [(folder + "/gpu.0/load", 1000) for folder in ("/sys/devices", "/sys/devices/platform")]
    return [*([("%s/%s/gpu_busy_percent" % (PCI, pci), 100)] if pci else []), *jetson]


def cpus_near(pci):
    """CPUs next to the GPU at this address."""
    return cpu_list(text_of("%s/%s/local_cpulist" % (PCI, pci))) if pci else set()


def node_of(pci):
    """The NUMA node that it is nearest to; None where the kernel knows none, which it says with -1."""
    told = text_of("%s/%s/numa_node" % (PCI, pci)).strip() if pci else ""
    return int(told) if told.isdigit() else None


def nodes_of_mask():
    """NUMA nodes whose CPUs this thread may use."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    mask = os.sched_getaffinity(0)
    try:
        nodes = [int(name[4:]) for name in os.listdir(NODES) if name.startswith("node") and name[4:].isdigit()]
    except OSError:
        return []
    return sorted(node for node in nodes if mask & cpu_list(text_of("%s/node%d/cpulist" % (NODES, node))))


def cpu_list(text):
    """{0, 1, 2, 8} of `0-2,8`."""
    cpus = set()  # type: set[int]
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
"""The number of get_mempolicy(2)."""

NODE_OF_ADDRESS = 3
"""MPOL_F_NODE | MPOL_F_ADDR: tell the node of the page at this address."""


def node_of_page(address):
    """The NUMA node that memory of ours lies on; None where the kernel does not say, as in most containers."""
    call = GET_MEMPOLICY.get(os.uname().machine)
    if call is None or os.uname().sysname != "Linux":
        return None
    node = ctypes.c_int(-1)
    given = (ctypes.c_long(call), ctypes.byref(node), None, ctypes.c_ulong(0), ctypes.c_void_p(address))
    code = ctypes.CDLL(None).syscall(*given, ctypes.c_ulong(NODE_OF_ADDRESS))
    return node.value if code == 0 and node.value >= 0 else None
