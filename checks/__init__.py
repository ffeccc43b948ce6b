"""The judgements: one folder per area, one file per check, named after its id.

To add a check, copy a neighbour, and name it here.
"""

from dl_doctor.checks.container import runtime, temp_space, user_identity
from dl_doctor.checks.cpu import cpu_budget
from dl_doctor.checks.limits import fd_limit, memory_budget
from dl_doctor.checks.shm import shm_size, shm_usable
from dl_doctor.checks.storage import disk_space, disk_type, mount_responds, path_writable
from dl_doctor.checks.workers import start_method, worker_count, worker_roundtrip

CHECKS = (
    cpu_budget.CHECK,
    disk_space.CHECK,
    disk_type.CHECK,
    fd_limit.CHECK,
    memory_budget.CHECK,
    mount_responds.CHECK,
    path_writable.CHECK,
    runtime.CHECK,
    shm_size.CHECK,
    shm_usable.CHECK,
    start_method.CHECK,
    temp_space.CHECK,
    user_identity.CHECK,
    worker_count.CHECK,
    worker_roundtrip.CHECK,
)
