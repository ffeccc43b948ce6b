"""The broken container, and what is to be said of it under any kernel.

The numbers are worked out from the recipe and from what the checks' pages promise, with nothing of the doctor's own arithmetic.
"""

from dl_doctor.model import Report
from tests.lab.container import Recipe
from tests.lab.doctor import Numbers, Plan, numbers, table

MIB = 1 << 20

SHM, CPUS, MEMORY = 64 * MIB, 0.5, 1024 * MIB

RECIPE = Recipe(shm=SHM, cpus=CPUS, memory=MEMORY, nofile=256)

WORKERS = 8

PLAN: Plan = {"num-workers": "8", "batch-bytes": "24MiB"}

SHM_NEED = (WORKERS * 2 + 2) * 24 * MIB + 4096 * (8 + 3 * WORKERS)
"""Two batches ahead for each worker, the one in use and the one on its way, and some pages for bookkeeping."""

MEMORY_NEED = 140 * MIB + WORKERS * 10 * MIB + 24 * MIB + SHM_NEED
"""A process that has imported torch, what a forked worker has for itself, the samples of a batch, and shared memory."""

TABLE = {
    "runtime": "pass",
    "temp-space": "pass",
    "user-identity": "pass",
    "cpu-budget": "warn",
    "fd-limit": "pass",
    "cuda-libraries": "skip",
    "cuda-smoke": "skip",
    "debug-environment": "skip",
    "gpu-clocks": "skip",
    "gpu-compat-library": "skip",
    "gpu-device-access": "skip",
    "gpu-driver-floor": "skip",
    "gpu-fabric": "skip",
    "gpu-first-call": "skip",
    "gpu-health": "skip",
    "gpu-idle": "skip",
    "gpu-libraries": "skip",
    "gpu-mode": "skip",
    "gpu-order": "skip",
    "gpu-pcie-link": "skip",
    "gpu-per-rank": "skip",
    "gpu-precision": "skip",
    "gpu-throughput": "skip",
    "gpu-visible": "skip",
    "gpu-xid": "skip",
    "mps-ready": "skip",
    "rocm-access": "skip",
    "torch-arch-list": "skip",
    "memory-budget": "pass",
    "process-budget": "pass",
    "pin-memory": "skip",
    "data-present": "skip",
    "shm-memory-limit": "pass",
    "shm-size": "fail",
    "shm-usable": "pass",
    "disk-space": "pass",
    "disk-type": "pass",
    "mount-responds": "pass",
    "path-writable": "pass",
    "start-method": "pass",
    "worker-count": "warn",
    "worker-roundtrip": "pass",
    "affinity-kept": "skip",
    "torch-cuda-build": "skip",
    "interpreter": "pass",
    "packages-consistent": "skip",
    "torch-build": "skip",
    "torch-imports": "skip",
    "import-latency": "skip",
}

NUMBERS: Numbers = {
    "runtime": [("note", None, None)],
    "temp-space": [],
    "user-identity": [],
    "cpu-budget": [("warn", (CPUS, "CPUs"), (1, "CPUs")), ("note", (CPUS, "CPUs"), None)],
    "fd-limit": [],
    "cuda-libraries": [],
    "cuda-smoke": [],
    "debug-environment": [],
    "gpu-clocks": [],
    "gpu-compat-library": [],
    "gpu-device-access": [],
    "gpu-driver-floor": [],
    "gpu-fabric": [],
    "gpu-first-call": [],
    "gpu-health": [],
    "gpu-idle": [],
    "gpu-libraries": [],
    "gpu-mode": [],
    "gpu-order": [],
    "gpu-pcie-link": [],
    "gpu-per-rank": [],
    "gpu-precision": [],
    "gpu-throughput": [],
    "gpu-visible": [],
    "gpu-xid": [],
    "mps-ready": [],
    "rocm-access": [],
    "torch-arch-list": [],
    "memory-budget": [],
    "process-budget": [],
    "pin-memory": [],
    "data-present": [],
    "shm-memory-limit": [],
    "shm-size": [("fail", (SHM, "bytes"), (SHM_NEED, "bytes"))],
    "shm-usable": [],
    "disk-space": [],
    "disk-type": [("note", None, None)],
    "mount-responds": [],
    "path-writable": [],
    "start-method": [("note", None, None)],
    "worker-count": [("warn", (WORKERS, "workers"), (1, "workers"))],
    "worker-roundtrip": [],
    "affinity-kept": [],
    "torch-cuda-build": [],
    "interpreter": [],
    "packages-consistent": [],
    "torch-build": [],
    "torch-imports": [],
    "import-latency": [],
}

USED_BY_THE_DOCTOR = 64 * MIB
"""At most, of the memory that is measured."""


def assert_broken(report: Report) -> None:
    """The report is the one that the broken container deserves, with PLAN."""
    assert report.verdict.exit_code == 1
    assert table(report) == TABLE
    assert numbers(report) == NUMBERS
    assert (report.machine.cpus, report.machine.memory_bytes) == (CPUS, MEMORY)


def assert_short_of_memory(report: Report, limit: int) -> None:
    """PLAN needs more than this limit leaves."""
    assert report.machine.memory_bytes == limit
    [(level, measured, expected)] = numbers(report)["memory-budget"]
    assert (level, expected) == ("fail", (MEMORY_NEED, "bytes"))
    assert measured is not None
    assert limit - USED_BY_THE_DOCTOR < measured[0] < limit
