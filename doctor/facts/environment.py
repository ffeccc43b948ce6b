"""The environment variables that say where a job runs and how it was started: an allow-list, never all of them."""

import msgspec

from dl_doctor.probes.shortening import beginning
from dl_doctor.system import System

ALLOWED = frozenset(
    {
        # which container, scheduler or platform (facts/runtime.py, facts/slurm.py)
        *("container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER"),
        *("SINGULARITY_NAME", "ENROOT_ROOTFS", "ENROOT_RUNTIME_PATH", "CH_RUNNING", "WSL_DISTRO_NAME"),
        *("AWS_BATCH_JOB_ID", "AWS_EXECUTION_ENV", "AZUREML_RUN_ID", "CLOUD_ML_PROJECT_ID", "CODESPACES"),
        *("COLAB_RELEASE_TAG", "DATABRICKS_RUNTIME_VERSION", "ECS_CONTAINER_METADATA_URI_V4", "GITHUB_ACTIONS"),
        *("KAGGLE_KERNEL_RUN_TYPE", "MODAL_TASK_ID", "RUNPOD_POD_ID", "SM_TRAINING_ENV", "VAST_CONTAINERLABEL"),
        *("SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NODEID", "SLURM_CPUS_PER_TASK"),
        *("SLURM_CPUS_ON_NODE", "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_MEM_PER_NODE"),
        *("SLURM_MEM_PER_CPU", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"),
        # what a site expects of a node, and whether the node is the matter (facts/expectation.py, engine.py)
        *("SLURM_JOB_PARTITION", "SLURM_SCRIPT_CONTEXT"),
        # who launched which ranks (facts/ranks.py)
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "PET_NPROC_PER_NODE"),
        *("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE", "LOCAL_SIZE"),
        *("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
        # thread pools (facts/cpu_budget.py)
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
        # which libraries torch gets, and what an image says that it holds (checks/python)
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_VERSION", "PYTORCH_VERSION"),
        # what binds threads to CPUs (checks/cpu/affinity_kept.py)
        *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"),
        # promised, shown and numbered GPUs (facts/gpu_grant.py, facts/visible_gpus.py, facts/ranks.py)
        *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
        *("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
        # what stands between the job and a GPU of its own (facts/gpu_sharing.py)
        *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT"),
        *(f"CUDA_DEVICE_MEMORY_LIMIT_{index}" for index in range(16)),
        # how torch gives out a GPU's memory (facts/allocator_settings.py)
        *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"),
        # debuggers, profilers and logs that are left over (checks/gpu)
        *("CUDA_LAUNCH_BLOCKING", "CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH", "NVTX_INJECTION64_PATH"),
        *("NSYS_PROFILING_SESSION_ID", "NV_SANITIZER_INJECTION_PORT_BASE", "CUDA_DEVICE_WAITS_ON_EXCEPTION"),
        *("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDNN_LOGLEVEL_DBG", "CUDNN_LOGINFO_DBG", "CUBLAS_LOGINFO_DBG"),
        *("CUBLASLT_LOG_LEVEL", "NCCL_DEBUG", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY"),
        *("HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_DISTRIBUTED_DEBUG"),
        *("TORCH_SHOW_DISPATCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTORCH_JIT"),
        # a cache that is only read (path-writable)
        "HF_HUB_OFFLINE",
    }
)

LONGEST_VALUE = 1 << 17
"""Characters kept of a value: the kernel's own limit, because a list that is cut says something else (MAX_ARG_STRLEN)."""


class Environment(msgspec.Struct, frozen=True):
    """Source: this process's environment, as the job will inherit it."""

    variables: dict[str, str]

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set and not empty."""
        return next((self.variables[name] for name in names if self.variables.get(name)), None)


def collect(system: System) -> Environment:
    found = system.environment()
    return Environment({name: beginning(found[name], LONGEST_VALUE) for name in sorted(ALLOWED & found.keys())})
