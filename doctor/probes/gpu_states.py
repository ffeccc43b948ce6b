"""Ask NVML how each GPU is: who uses it, its memory's errors, its modes, limits and link. Nothing of CUDA is begun.

Functions that an old driver lacks, or this GPU does not support, are errors by name and nothing more.
"""

import ctypes
import os
import time
import typing  # noqa: F401 (for comments)

from .nvml_calls import Nvml, address, text

SAMPLES = 3

CORRECTED, UNCORRECTED = 0, 1  # NVML_MEMORY_ERROR_TYPE_*
VOLATILE = 0  # NVML_VOLATILE_ECC
SRAM = 7  # NVML_MEMORY_LOCATION_SRAM
DOUBLE_BIT = 1  # NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
SM_CLOCK, MEMORY_CLOCK = 1, 2  # NVML_CLOCK_*
SLOWDOWN = 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN

COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
VIRTUALIZATIONS = ("none", "passthrough", "vgpu", "host_vgpu", "host_vsga")
FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
"""By their numbers in nvml.h."""

RECOVERY = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
RECOVERY_FIELD = 230
"""By name and number in nvml.h; an older nvidia-ml-py has no such constant, and passes the number on."""

PCI = "/sys/bus/pci/devices"

RANKS = ("LOCAL_RANK", "SLURM_LOCALID")
"""What launchers tell each rank on the node."""

MOST_LANES = 32
"""Of PCIe; /sys gives 255 where the bus does not tell."""


def first(values):
    return bool(values[0])


def watts(milliwatts):
    return milliwatts / 1000


def named(names):
    return lambda number: names[number] if 0 <= number < len(names) else str(number)


ASKED = (
    # what, by which function, given what, and what becomes of the answer
    ("uuid", "nvmlDeviceGetUUID", (), text),
    ("name", "nvmlDeviceGetName", (), text),
    ("capability", "nvmlDeviceGetCudaComputeCapability", (), list),
    ("ecc", "nvmlDeviceGetEccMode", (), first),
    ("retired_pages", "nvmlDeviceGetRetiredPages", (DOUBLE_BIT,), len),
    ("retired_pages_pending", "nvmlDeviceGetRetiredPagesPendingStatus", (), bool),
    ("compute_mode", "nvmlDeviceGetComputeMode", (), named(COMPUTE_MODES)),
    ("mig", "nvmlDeviceGetMigMode", (), first),
    ("virtualization", "nvmlDeviceGetVirtualizationMode", (), named(VIRTUALIZATIONS)),
    ("persistence", "nvmlDeviceGetPersistenceMode", (), bool),
    ("display_active", "nvmlDeviceGetDisplayActive", (), bool),
    ("link_gen_max", "nvmlDeviceGetGpuMaxPcieLinkGeneration", (), int),
    ("slot_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), int),
    ("slot_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), int),
    ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), watts),
    ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", (), watts),
    ("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (SM_CLOCK,), int),
    ("memory_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (MEMORY_CLOCK,), int),
    ("memory_bus_bits", "nvmlDeviceGetMemoryBusWidth", (), int),
    ("slowdown_c", "nvmlDeviceGetTemperatureThreshold", (SLOWDOWN,), int),
)


def probe(arguments, step):
    nvml = Nvml(step)
    errors = {}  # type: dict[str, str]
    ask = nvml.asker(errors)
    begin_s = time.monotonic()
    ask("nvmlInit")
    if errors:
        return {"error": errors["nvmlInit"]}
    gpus = [Gpu(nvml, index) for index in range(ask("nvmlDeviceGetCount") or 0)]
    took_s = time.monotonic() - begin_s
    confidential = ask("nvmlSystemGetConfComputeState")
    sampling = Sampling(gpus, arguments["apart_s"])
    ours = Ours(arguments["nodes"])
    for gpu in gpus:
        if gpu.handle is not None:
            gpu.look(ours)
    sampling.end()
    ask("nvmlShutdown")
    return {
        "gpus": [gpu.found for gpu in gpus],
        "took_s": took_s,
        "confidential": confidential and bool(confidential.ccFeature),
        "errors": errors,
    }


class Gpu:
    """One GPU, and what was found of it."""

    def __init__(self, nvml, index):
        self.nvml = nvml
        self.errors = {}  # type: dict[str, str]
        self.about = " %d" % index
        self.ask = nvml.asker(self.errors, self.about)
        self.found = {"index": index, "errors": self.errors, "utilisation": []}  # type: dict[str, typing.Any]
        self.handle = self.ask("nvmlDeviceGetHandleByIndex", index)

    def look(self, ours):
        for what, function, given, converted in ASKED:
            answer = self.ask(function, self.handle, *given)
            self.found[what] = None if answer is None else converted(answer)
        self.look_at_bus()
        self.look_at_memory()
        self.look_at_modes()
        self.found["fabric"] = self.fabric()
        self.look_at_processes(ours)

    def look_at_bus(self):
        pci = self.ask("nvmlDeviceGetPciInfo", self.handle)
        if pci is None:
            return
        self.found["pci"] = address(pci)
        self.found["pci_device"] = "%04x" % (pci.pciDeviceId >> 16)
        self.found["pci_subsystem"] = "%04x:%04x" % (pci.pciSubSystemId & 0xFFFF, pci.pciSubSystemId >> 16)
        self.found["link_width_max"], port = lanes_of_both(self.found["pci"])
        if port is not None:  # for NVML may know the card's alone
            self.found["slot_width_max"] = min(port, self.found["slot_width_max"] or port)

    def look_at_memory(self):
        self.look_at_use()
        self.found["memory_errors"] = self.memory_errors()
        rows = self.ask("nvmlDeviceGetRemappedRows", self.handle)
        if rows is not None:
            corrected, uncorrected, pending, failed = rows
            self.found["remapped_rows"] = {
                "corrected": corrected,
                "uncorrected": uncorrected,
                "pending": bool(pending),
                "failed": bool(failed),
            }
        self.found["recovery_action"] = self.recovery_action()

    def look_at_use(self):
        errors = {}  # type: dict[str, str]
        second = getattr(self.nvml.pynvml, "nvmlMemory_v2", None)
        for version, given in ((2, (second,)), (1, ())):
            memory = self.nvml.asker(errors, self.about)("nvmlDeviceGetMemoryInfo", self.handle, *given)
            if memory is not None:
                self.found.update(memory_total_bytes=memory.total, memory_used_bytes=memory.used, memory_version=version)
                return
        self.errors.update(errors)

    def memory_errors(self):
        ask, handle = self.ask, self.handle
        found = {
            "corrected": ask("nvmlDeviceGetTotalEccErrors", handle, CORRECTED, VOLATILE),
            "uncorrected": ask("nvmlDeviceGetTotalEccErrors", handle, UNCORRECTED, VOLATILE),
        }
        told = self.nvml.made("c_nvmlEccSramErrorStatus_v1_t")  # from driver 550 on
        if told and ask("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(told)) is not None:
            found["sram_uncorrected"] = told.volatileUncParity + told.volatileUncSecDed
            found["sram_threshold_exceeded"] = bool(told.bThresholdExceeded)
        else:
            found["sram_uncorrected"] = ask("nvmlDeviceGetMemoryErrorCounter", handle, UNCORRECTED, VOLATILE, SRAM)
        return found if any(value is not None for value in found.values()) else None

    def recovery_action(self):
        values = self.ask("nvmlDeviceGetFieldValues", self.handle, [RECOVERY_FIELD])
        if values is None:
            return None
        if values[0].nvmlReturn:
            self.errors[RECOVERY] = self.nvml.name_of(values[0].nvmlReturn)
            return None
        return values[0].value.uiVal

    def look_at_modes(self):
        if self.found["mig"]:
            quietly = self.nvml.asker({}, self.about)  # places without an instance are errors too
            most = self.ask("nvmlDeviceGetMaxMigDeviceCount", self.handle) or 0
            handles = [quietly("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, place) for place in range(most)]
            self.found["mig_instances"] = sum(handle is not None for handle in handles)
        if self.found["virtualization"] == "vgpu":
            self.found["licensed"] = self.licensed()

    def licensed(self):
        features = self.ask("nvmlDeviceGetGridLicensableFeatures", self.handle)
        if features is None or not features.isGridLicenseSupported:
            return None
        known = features.gridLicensableFeatures[: features.licensableFeaturesCount]
        return any(feature.featureState for feature in known)

    def fabric(self):
        errors = {"nvmlDeviceGetGpuFabricInfoV": "FUNCTION_NOT_FOUND"}  # by a nvidia-ml-py that has none of the structs
        for version in (3, 2):  # an old driver knows the older one
            told = self.nvml.made("c_nvmlGpuFabricInfo_v%d_t" % version)
            if told is None:
                continue
            errors.clear()
            ask = self.nvml.asker(errors, self.about)
            if ask("nvmlDeviceGetGpuFabricInfoV", self.handle, ctypes.byref(told)) is not None:
                return {
                    "state": named(FABRIC_STATES)(told.state),
                    "status": self.nvml.name_of(told.status),
                    "health": told.healthSummary if version == 3 else None,
                    "health_mask": told.healthMask,
                }
        self.errors.update(errors)
        return None

    def look_at_processes(self, ours):
        """One that is listed twice, as the window system may be, is what it is first here."""
        processes = {}  # type: dict[int, dict[str, object]]
        for kind, function in (
            ("graphics", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
            ("mps", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
            ("compute", "nvmlDeviceGetComputeRunningProcesses_v3"),
        ):
            listed = self.ask(function, self.handle)
            for process in listed or ():
                if process.pid not in processes:
                    self.nvml.step("look at process %d" % process.pid)
                    known = {"pid": process.pid, "kind": kind, "memory_bytes": process.usedGpuMemory}
                    processes[process.pid] = dict(known, **ours.known_of(process.pid))
        self.found["processes"] = list(processes.values())
        self.found["processes_known"] = listed is not None

    def sample(self):
        rates = None if self.handle is None else self.ask("nvmlDeviceGetUtilizationRates", self.handle)
        if rates is not None:
            self.found["utilisation"].append(rates.gpu / 100)
        return rates is not None


class Sampling:
    """How much time each GPU is in use, in samples: the first one now, and no more where no GPU tells."""

    def __init__(self, gpus, apart_s):
        self.gpus, self.apart_s = gpus, apart_s
        self.begin_s = time.monotonic()
        self.goes_on = self.sample()

    def sample(self):
        return any([gpu.sample() for gpu in self.gpus])  # noqa: C419 (each is asked)

    def end(self):
        for number in range(1, SAMPLES):
            if self.goes_on:
                time.sleep(max(0, self.begin_s + number * self.apart_s - time.monotonic()))
                self.goes_on = self.sample()


class Ours:
    """What is ours of the processes on a GPU. Their command lines are not read."""

    def __init__(self, nodes):
        self.nodes = tuple(nodes)
        self.family = ancestors(os.getpid())
        self.doctor = next(iter(self.family[3:]), 0)  # the probe's process, its interpreter and that one's guard are before it
        self.group = (status_of(self.doctor) or {}).get("group")
        ranked = any(name in os.environ for name in RANKS)
        self.rank, self.launcher = rank_and_launcher(self.family[3:] if ranked else [])

    def known_of(self, pid):
        """Nothing where it is not in this PID namespace, or another one has this number here: drivers give the host's."""
        known, held = status_of(pid), holds(pid, self.nodes)
        if known is None or held is False:
            return {}
        uid = uid_of(pid)
        return {
            "uid": uid,
            "name": known["name"],
            "age_s": known["age_s"],
            "ours": uid == os.getuid() and held is not None,
            "related": self.related(pid, known),
        }

    def related(self, pid, known):
        line = ancestors(pid)
        other_rank = self.launcher in line and self.rank not in line  # what an earlier job left in our own is none
        return pid in self.family or self.doctor in line or other_rank or known["group"] == self.group


def rank_and_launcher(family):
    """Our rank's process and what started it; torchrun and srun give each rank a session of its own. 0 where out of sight."""
    for pid in family:
        known = status_of(pid)
        if known and known["session"] == pid:
            return pid, known["parent"]
    return 0, 0


def ancestors(pid):
    """A process, its parent, and so on."""
    line = []  # type: list[int]
    while pid and pid not in line:
        line.append(pid)
        known = status_of(pid)
        pid = known["parent"] if known else 0
    return line


def status_of(pid):
    """By /proc/PID/stat, see proc(5); None where it is not to be seen."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            begin, _, end = file.read().rpartition(")")
    except OSError:
        return None
    fields = end.split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return {
        "name": begin.partition("(")[2],
        "parent": int(fields[1]),
        "group": int(fields[2]),
        "session": int(fields[3]),
        "age_s": max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s),
    }


def uid_of(pid):
    """The real user's number. The owner of /proc/PID is root where a process may not be looked into."""
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Uid:")), None)
    except OSError:
        return None


def holds(pid, nodes):
    """Whether it has a file open whose name begins with one of these; None where we may not look."""
    folder = "/proc/%d/fd" % pid
    try:
        return any(linked(os.path.join(folder, number)).startswith(nodes) for number in os.listdir(folder))
    except OSError:
        return None


def linked(path):
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return ""


def lanes_of_both(pci):
    """How many lanes the card has, and the port of the bus that it hangs on."""
    card = os.path.realpath(os.path.join(PCI, pci))
    return lanes_of(card), lanes_of(os.path.dirname(card))


def lanes_of(folder):
    """How many lanes this device has; None where the bus does not tell, as in many virtual machines."""
    try:
        with open(os.path.join(folder, "max_link_width"), encoding="ascii") as file:
            lanes = int(file.read())
    except (OSError, ValueError):
        return None
    return lanes if 0 < lanes <= MOST_LANES else None
