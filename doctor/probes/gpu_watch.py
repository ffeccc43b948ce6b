"""What NVML says of the GPUs while another process has them work: twenty looks a second, until that process has ended."""

import collections
import os
import select
import time
import typing  # noqa: F401 (for comments)

from .nvml_calls import Nvml, address

EVERY_S = 0.05
"""Reasons for a lower clock come and go: short against the phases of the probe, and long against a look. Proposal."""

PAUSE_S = 0.01
"""At least, where a look takes long: what is measured needs the CPU more."""

MOST_LOOKS = 2400
"""The last ones are kept: two minutes."""

FIELDS = (("power_cap", 74), ("sync_boost", 76), ("sw_thermal", 269), ("hw_thermal", 270), ("power_brake", 271))
"""Time that the clock was held down, by NVML_FI_DEV_CLOCKS_EVENT_REASON_* of nvml.h."""

POLICIES = (("power_cap", 0), ("thermal", 1), ("sync_boost", 2))
"""The same by NVML_PERF_POLICY_*, which older drivers have; they do not say whose the heat was."""

NAMES = ("at_s", "sm_mhz", "memory_mhz", "power_mw", "temperature_c", "reasons", "link_gen", "link_width", "replays")
"""Of what stands in a look, before the counters."""

VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Fields of nvmlValue_t by nvmlValueType_t."""


def probe(arguments, step):
    """`pid` is the process that is waited for, `most_s` for how long at most; `only` the GPU that is looked at, None for all."""
    nvml = Nvml(step)
    errors = {}  # type: dict[str, str]
    ask = nvml.asker(errors)
    ask("nvmlInit")
    if errors:
        return {"error": errors["nvmlInit"]}
    only = arguments.get("only")
    gpus = [Gpu(nvml, index) for index in range(ask("nvmlDeviceGetCount") or 0) if only in (None, index)]
    gpus = [gpu for gpu in gpus if gpu.handle is not None]
    end_s = time.monotonic() + arguments["most_s"]
    ended = ending_of(arguments["pid"])
    while not ended() and time.monotonic() < end_s:
        begin_s = time.monotonic()
        for gpu in gpus:
            gpu.look()
        nvml.step = quiet
        time.sleep(max(PAUSE_S, begin_s + EVERY_S - time.monotonic()))
    return {"gpus": [gpu.told() for gpu in gpus]}


def quiet(_name):
    """Each call is told once before it is made, so that one which hangs is known; not twenty times a second."""


class Gpu:
    def __init__(self, nvml, index):
        self.nvml, self.index = nvml, index
        self.errors = {}  # type: dict[str, str]
        self.ask = nvml.asker(self.errors, " %d" % index)
        self.handle = self.ask("nvmlDeviceGetHandleByIndex", index)
        self.looks = collections.deque(maxlen=MOST_LOOKS)  # type: collections.deque[list[typing.Any]]
        pci = None if self.handle is None else self.ask("nvmlDeviceGetPciInfo", self.handle)
        self.pci = pci and address(pci)
        self.policies = None
        self.reasons = "nvmlDeviceGetCurrentClocksEventReasons"

    def told(self):
        names = [*NAMES, *(name for name, _ in FIELDS), *(name for name, _ in self.policies or ())]
        return {"index": self.index, "pci": self.pci, "names": names, "looks": list(self.looks), "errors": self.errors}

    def look(self):
        at_s = time.monotonic()
        first = (
            self.value("nvmlDeviceGetClockInfo", 1),  # NVML_CLOCK_SM
            self.value("nvmlDeviceGetClockInfo", 2),  # NVML_CLOCK_MEM
            self.value("nvmlDeviceGetPowerUsage"),
            self.value("nvmlDeviceGetTemperature", 0),  # NVML_TEMPERATURE_GPU
            self.why_slower(),
            self.value("nvmlDeviceGetCurrPcieLinkGeneration"),
            self.value("nvmlDeviceGetCurrPcieLinkWidth"),
            self.value("nvmlDeviceGetPcieReplayCounter"),
        )
        self.looks.append([at_s, *first, *self.counters()])

    def value(self, function, *given):
        """None where it fails, and it is not asked again: what a GPU does not support costs time, too."""
        return None if function in self.errors else self.ask(function, self.handle, *given)

    def why_slower(self):
        """Bits; by the older name of the function where the driver has no other."""
        told = self.value(self.reasons)
        if told is None and self.reasons in self.errors and "Event" in self.reasons:
            self.reasons = "nvmlDeviceGetCurrentClocksThrottleReasons"
            told = self.value(self.reasons)
        return told

    def counters(self):
        """Those of FIELDS, then those of the policies that stand in for what is lacking there."""
        told = self.value("nvmlDeviceGetFieldValues", [number for _, number in FIELDS])
        fields = [None] * len(FIELDS) if told is None else [number_in(field) for field in told]
        if self.policies is None:
            lacking = {name for (name, _), value in zip(FIELDS, fields) if value is None}
            wanted = {"power_cap", "sync_boost"} & lacking | ({"thermal"} if {"sw_thermal", "hw_thermal"} & lacking else set())
            self.policies = [policy for policy in POLICIES if policy[0] in wanted]
        violations = [self.value("nvmlDeviceGetViolationStatus", number) for _, number in self.policies]
        return [*fields, *(told and told.violationTime for told in violations)]


def number_in(field):
    """The value of a field in the member that its type names; None where it was not given."""
    if field.nvmlReturn or not 0 <= field.valueType < len(VALUES):
        return None
    return getattr(field.value, VALUES[field.valueType], None)


def ending_of(pid):
    """A function that tells whether this process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: True
    except (AttributeError, OSError):  # a kernel before 5.3, or one that is not Linux's
        return lambda: state_of(pid) in ("", "Z", "X")
    return lambda: bool(select.select([handle], [], [], 0)[0])


def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(") ")[2][:1]
    except OSError:
        return ""
