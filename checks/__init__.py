"""The judgements: one folder per area, one file per check, named after its id.

To add a check, copy a neighbour, and name it here.
"""

from dl_doctor.checks.container import runtime, temp_space, user_identity
from dl_doctor.checks.cpu import affinity_kept, cpu_budget
from dl_doctor.checks.dataset import (
    data_present,
    dataset_collate,
    dataset_cuda,
    dataset_loads,
    dataset_open_handles,
    dataset_picklable,
    dataset_pickle_size,
    dataset_random,
    dataset_replication,
    dataset_sample,
    iterable_sharding,
)
from dl_doctor.checks.gpu import (
    cuda_libraries,
    cuda_smoke,
    gpu_compat_library,
    gpu_device_access,
    gpu_driver_floor,
    gpu_first_call,
    gpu_libraries,
    gpu_order,
    gpu_per_rank,
    gpu_visible,
    torch_arch_list,
    torch_cuda_build,
)
from dl_doctor.checks.limits import fd_limit, memory_budget, process_budget
from dl_doctor.checks.python import interpreter, packages_consistent, torch_build, torch_imports
from dl_doctor.checks.shm import sharing_strategy, shm_memory_limit, shm_size, shm_usable
from dl_doctor.checks.site import site_expectations
from dl_doctor.checks.storage import disk_rate, disk_space, disk_type, import_latency, mount_responds, path_writable
from dl_doctor.checks.workers import (
    loader_options,
    pin_memory,
    rank_sharding,
    smoke_load,
    start_method,
    worker_count,
    worker_memory,
    worker_roundtrip,
    worker_startup,
)

CHECKS = (
    affinity_kept.CHECK,
    cpu_budget.CHECK,
    cuda_libraries.CHECK,
    cuda_smoke.CHECK,
    data_present.CHECK,
    dataset_collate.CHECK,
    dataset_cuda.CHECK,
    dataset_loads.CHECK,
    dataset_open_handles.CHECK,
    dataset_picklable.CHECK,
    dataset_pickle_size.CHECK,
    dataset_random.CHECK,
    dataset_replication.CHECK,
    dataset_sample.CHECK,
    disk_rate.CHECK,
    disk_space.CHECK,
    disk_type.CHECK,
    fd_limit.CHECK,
    gpu_compat_library.CHECK,
    gpu_device_access.CHECK,
    gpu_driver_floor.CHECK,
    gpu_first_call.CHECK,
    gpu_libraries.CHECK,
    gpu_order.CHECK,
    gpu_per_rank.CHECK,
    gpu_visible.CHECK,
    import_latency.CHECK,
    interpreter.CHECK,
    iterable_sharding.CHECK,
    loader_options.CHECK,
    memory_budget.CHECK,
    mount_responds.CHECK,
    packages_consistent.CHECK,
    path_writable.CHECK,
    pin_memory.CHECK,
    process_budget.CHECK,
    rank_sharding.CHECK,
    runtime.CHECK,
    sharing_strategy.CHECK,
    shm_memory_limit.CHECK,
    shm_size.CHECK,
    shm_usable.CHECK,
    site_expectations.CHECK,
    smoke_load.CHECK,
    start_method.CHECK,
    temp_space.CHECK,
    torch_arch_list.CHECK,
    torch_build.CHECK,
    torch_cuda_build.CHECK,
    torch_imports.CHECK,
    user_identity.CHECK,
    worker_count.CHECK,
    worker_memory.CHECK,
    worker_roundtrip.CHECK,
    worker_startup.CHECK,
)
