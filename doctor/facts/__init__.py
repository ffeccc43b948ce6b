"""What is known of the machine and the job: one file per subject, each a struct, pure parsers and one `collect`.

A collector says by its annotations what it takes and gives. One that takes no System looks at nothing itself: it is derived
from other facts and the settings, and derived again when a saved report is judged.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dl_doctor.facts import (
    allocator_settings,
    allowance,
    apple_gpu,
    batches,
    burst_credits,
    cgroups,
    collect_env,
    cpu_budget,
    cuda_smoke,
    data_paths,
    dataset_objects,
    dataset_samples,
    dataset_trip,
    disks,
    entry_script,
    environment,
    examination,
    expectation,
    fitting_loader,
    gpu_access,
    gpu_grant,
    gpu_libraries,
    gpu_probe,
    gpu_sharing,
    gpu_shortfalls,
    gpu_states,
    gpu_yardsticks,
    host,
    interpreter_build,
    job_gpus,
    kernel_log,
    limits,
    loader,
    loader_plan,
    loader_sweep,
    memory_budget,
    mounts,
    nvidia_driver,
    nvml,
    own_gpus,
    pinned_memory,
    process_budget,
    ranks,
    readable_dataset,
    rocm_access,
    runtime,
    shared_memory,
    shared_memory_use,
    sharing_strategy,
    slurm,
    smoke_load,
    start_methods,
    target,
    temp_space,
    torch_files,
    torch_gpus,
    torch_import,
    user_identity,
    visible_gpus,
    wanted_precision,
    worker_cuda,
    worker_draws,
    worker_memory,
    worker_roundtrip,
)
from dl_doctor.facts.allocator_settings import AllocatorSettings
from dl_doctor.facts.allowance import Allowance
from dl_doctor.facts.apple_gpu import AppleGpu
from dl_doctor.facts.batches import Batches
from dl_doctor.facts.burst_credits import BurstCredits
from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.facts.collect_env import CollectEnv
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.cuda_smoke import CudaSmoke
from dl_doctor.facts.data_paths import DataPaths
from dl_doctor.facts.dataset_objects import DatasetObjects
from dl_doctor.facts.dataset_samples import DatasetSamples
from dl_doctor.facts.dataset_trip import DatasetTrip
from dl_doctor.facts.disks import Disks
from dl_doctor.facts.entry_script import EntryScript
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.examination import Examination
from dl_doctor.facts.expectation import Expectation
from dl_doctor.facts.fitting_loader import FittingLoader
from dl_doctor.facts.gpu_access import GpuAccess
from dl_doctor.facts.gpu_grant import GpuGrant
from dl_doctor.facts.gpu_libraries import GpuLibraries
from dl_doctor.facts.gpu_probe import GpuProbe
from dl_doctor.facts.gpu_sharing import GpuSharing
from dl_doctor.facts.gpu_shortfalls import GpuShortfalls
from dl_doctor.facts.gpu_states import GpuStates
from dl_doctor.facts.gpu_yardsticks import GpuYardsticks
from dl_doctor.facts.host import Host
from dl_doctor.facts.interpreter_build import InterpreterBuild
from dl_doctor.facts.job_gpus import JobGpus
from dl_doctor.facts.kernel_log import KernelLog
from dl_doctor.facts.limits import Limits
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.loader_sweep import LoaderSweep
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.mounts import Mounts
from dl_doctor.facts.nvidia_driver import NvidiaDriver
from dl_doctor.facts.nvml import Nvml
from dl_doctor.facts.own_gpus import OwnGpus
from dl_doctor.facts.pinned_memory import PinnedMemory
from dl_doctor.facts.process_budget import ProcessBudget
from dl_doctor.facts.ranks import Ranks
from dl_doctor.facts.readable_dataset import ReadableDataset
from dl_doctor.facts.rocm_access import RocmAccess
from dl_doctor.facts.runtime import Runtime
from dl_doctor.facts.shared_memory import SharedMemory
from dl_doctor.facts.shared_memory_use import SharedMemoryUse
from dl_doctor.facts.sharing_strategy import SharingStrategy
from dl_doctor.facts.slurm import Slurm
from dl_doctor.facts.smoke_load import SmokeLoad
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.facts.target import Target
from dl_doctor.facts.temp_space import TempSpace
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.facts.torch_gpus import TorchGpus
from dl_doctor.facts.torch_import import TorchImport
from dl_doctor.facts.user_identity import UserIdentity
from dl_doctor.facts.visible_gpus import VisibleGpus
from dl_doctor.facts.wanted_precision import WantedPrecision
from dl_doctor.facts.worker_cuda import WorkerCuda
from dl_doctor.facts.worker_draws import WorkerDraws
from dl_doctor.facts.worker_memory import WorkerMemory
from dl_doctor.facts.worker_roundtrip import WorkerRoundtrip
from dl_doctor.model import Profile

__all__ = [
    "COLLECTORS",
    "AllocatorSettings",
    "Allowance",
    "AppleGpu",
    "Batches",
    "BurstCredits",
    "Cgroups",
    "CollectEnv",
    "Collector",
    "CpuBudget",
    "CudaSmoke",
    "DataPaths",
    "DatasetObjects",
    "DatasetSamples",
    "DatasetTrip",
    "Disks",
    "EntryScript",
    "Environment",
    "Examination",
    "Expectation",
    "FittingLoader",
    "GpuAccess",
    "GpuGrant",
    "GpuLibraries",
    "GpuProbe",
    "GpuSharing",
    "GpuShortfalls",
    "GpuStates",
    "GpuYardsticks",
    "Host",
    "InterpreterBuild",
    "JobGpus",
    "KernelLog",
    "Limits",
    "Loader",
    "LoaderPlan",
    "LoaderSweep",
    "MemoryBudget",
    "Mounts",
    "NvidiaDriver",
    "Nvml",
    "OwnGpus",
    "PinnedMemory",
    "ProcessBudget",
    "Ranks",
    "ReadableDataset",
    "RocmAccess",
    "Runtime",
    "SharedMemory",
    "SharedMemoryUse",
    "SharingStrategy",
    "Slurm",
    "SmokeLoad",
    "StartMethods",
    "Target",
    "TempSpace",
    "TorchFiles",
    "TorchGpus",
    "TorchImport",
    "UserIdentity",
    "VisibleGpus",
    "WantedPrecision",
    "WorkerCuda",
    "WorkerDraws",
    "WorkerMemory",
    "WorkerRoundtrip",
]


@dataclass(frozen=True)
class Collector:
    """How one fact is had."""

    collect: Callable[..., object]
    """Takes facts, System and Settings by annotation; gives a fact, or a fact or Unavailable. May be `async`."""

    profile: Profile = "quick"
    """The lowest profile in which it runs."""

    deadline_s: float = 40.0
    """For an `async` collector; what reads /proc and /sys does not hang."""

    exclusive: bool = False
    """Measures, or runs the job's code, which may take a part of the memory that is left: runs alone, after all that do not."""


COLLECTORS = (
    Collector(allocator_settings.collect),
    Collector(allowance.collect),
    Collector(apple_gpu.collect, profile="default", deadline_s=apple_gpu.DEADLINE_S + 25, exclusive=True),
    Collector(batches.collect, profile="default", deadline_s=batches.DEADLINE_S + 25, exclusive=True),
    Collector(burst_credits.collect, profile="deep"),
    Collector(cgroups.collect),
    Collector(collect_env.collect, profile="default", deadline_s=collect_env.DEADLINE_S + 25, exclusive=True),
    Collector(cpu_budget.collect),
    Collector(cuda_smoke.collect, profile="default", deadline_s=8 * cuda_smoke.DEADLINE_S, exclusive=True),
    Collector(data_paths.collect, deadline_s=40),
    Collector(dataset_objects.collect, profile="default", deadline_s=dataset_objects.DEADLINE_S + 25, exclusive=True),
    Collector(dataset_samples.collect, profile="default", deadline_s=dataset_samples.DEADLINE_S + 25, exclusive=True),
    Collector(dataset_trip.collect, profile="default", deadline_s=dataset_trip.DEADLINE_S + 25, exclusive=True),
    Collector(disks.collect),
    Collector(entry_script.collect),
    Collector(environment.collect),
    Collector(expectation.collect),
    Collector(examination.collect),
    Collector(fitting_loader.collect),
    Collector(gpu_access.collect, deadline_s=45),
    Collector(gpu_grant.collect),
    Collector(gpu_libraries.collect, deadline_s=35),
    Collector(gpu_probe.collect, profile="default", deadline_s=gpu_probe.LONGEST_S, exclusive=True),
    Collector(gpu_sharing.collect, deadline_s=40),
    Collector(gpu_shortfalls.collect),
    Collector(gpu_states.collect, deadline_s=45),
    Collector(gpu_yardsticks.collect),
    Collector(host.collect),
    Collector(interpreter_build.collect),
    Collector(kernel_log.collect, deadline_s=40),
    Collector(limits.collect),
    Collector(loader.collect, profile="default", deadline_s=loader.DEADLINE_S + 25),
    Collector(loader_plan.collect),
    Collector(loader_sweep.collect, profile="deep", deadline_s=24 * 3600, exclusive=True),
    Collector(memory_budget.collect),
    Collector(mounts.collect),
    Collector(nvidia_driver.collect),
    Collector(nvml.collect, deadline_s=45),
    Collector(own_gpus.collect),
    Collector(job_gpus.collect),
    Collector(pinned_memory.collect, profile="default", deadline_s=pinned_memory.DEADLINE_S + 25, exclusive=True),
    Collector(process_budget.collect),
    Collector(ranks.collect),
    Collector(readable_dataset.collect),
    Collector(rocm_access.collect, profile="default", deadline_s=40),
    Collector(runtime.collect),
    Collector(shared_memory.collect),
    Collector(shared_memory_use.collect),
    Collector(sharing_strategy.collect, profile="default", deadline_s=sharing_strategy.DEADLINE_S + 25, exclusive=True),
    Collector(slurm.collect),
    Collector(smoke_load.collect, profile="default", deadline_s=smoke_load.DEADLINE_S + 25, exclusive=True),
    Collector(start_methods.collect),
    Collector(target.collect),
    Collector(temp_space.collect),
    Collector(torch_files.collect),
    Collector(torch_gpus.collect, profile="default", deadline_s=2 * torch_gpus.DEADLINE_S + 50, exclusive=True),
    Collector(torch_import.collect, profile="default", deadline_s=torch_import.DEADLINE_S + 25),
    Collector(user_identity.collect),
    Collector(visible_gpus.collect),
    Collector(wanted_precision.collect),
    Collector(worker_cuda.collect, profile="default", deadline_s=worker_cuda.DEADLINE_S + 25, exclusive=True),
    Collector(worker_draws.collect, profile="default", deadline_s=worker_draws.DEADLINE_S + 25, exclusive=True),
    Collector(worker_memory.collect, profile="default", deadline_s=worker_memory.DEADLINE_S + 25, exclusive=True),
    Collector(worker_roundtrip.collect, profile="default", deadline_s=60),
)
