"""The judgements: one folder per area, one file per check, named after its id.

To add a check, copy a neighbour, and name it here.
"""

from dl_doctor.checks.container import runtime
from dl_doctor.checks.cpu import cpu_budget
from dl_doctor.checks.limits import fd_limit, memory_budget
from dl_doctor.checks.shm import shm_size, shm_usable
from dl_doctor.checks.workers import start_method, worker_count, worker_roundtrip

CHECKS = (
    cpu_budget.CHECK,
    fd_limit.CHECK,
    memory_budget.CHECK,
    runtime.CHECK,
    shm_size.CHECK,
    shm_usable.CHECK,
    start_method.CHECK,
    worker_count.CHECK,
    worker_roundtrip.CHECK,
)
