"""Facts as tests need them: healthy and plain unless a test says otherwise."""

from typing import Any

import msgspec

from dl_doctor.contract import needs_of
from dl_doctor.facts import (
    AllocatorSettings,
    Allowance,
    AppleGpu,
    Batches,
    CpuBudget,
    CudaSmoke,
    DataPaths,
    DatasetObjects,
    DatasetSamples,
    DatasetTrip,
    Examination,
    FittingLoader,
    GpuAccess,
    GpuGrant,
    GpuLibraries,
    GpuProbe,
    GpuSharing,
    GpuStates,
    InterpreterBuild,
    JobGpus,
    KernelLog,
    Limits,
    Loader,
    LoaderPlan,
    LoaderSweep,
    MemoryBudget,
    NvidiaDriver,
    Nvml,
    OwnGpus,
    PinnedMemory,
    Ranks,
    ReadableDataset,
    RocmAccess,
    Runtime,
    SharedMemory,
    SharedMemoryUse,
    Slurm,
    SmokeLoad,
    StartMethods,
    Target,
    TempSpace,
    TorchFiles,
    TorchGpus,
    TorchImport,
    UserIdentity,
    VisibleGpus,
    WorkerCuda,
    WorkerMemory,
    WorkerRoundtrip,
    fitting_loader,
)
from dl_doctor.facts import examination as examining
from dl_doctor.facts import visible_gpus as visible
from dl_doctor.facts.cpu_budget import CpuLimit
from dl_doctor.facts.cuda_smoke import SmokedGpu, Tried
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.facts.dataset_samples import Reading as SampleReading
from dl_doctor.facts.dataset_trip import DatasetTravel
from dl_doctor.facts.disks import Disk, Place
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.filesystems import kind_of
from dl_doctor.facts.gpu_access import Node
from dl_doctor.facts.gpu_libraries import Library
from dl_doctor.facts.gpu_load import Load
from dl_doctor.facts.gpu_probe import ProbedGpu, Rate
from dl_doctor.facts.gpu_sharing import Mps
from dl_doctor.facts.gpu_states import Fabric, GpuProcess, GpuState, MemoryErrors, RemappedRows
from dl_doctor.facts.kernel_log import Xid
from dl_doctor.facts.loader import LoaderArguments
from dl_doctor.facts.loader_plan import collect
from dl_doctor.facts.memory_budget import MemoryLimit
from dl_doctor.facts.nvml import Gpu
from dl_doctor.facts.recommending import Choice
from dl_doctor.facts.sweep_advice import Point, recommendation_of
from dl_doctor.facts.trouble import Trouble
from dl_doctor.facts.worker_memory import Pages, Reading
from dl_doctor.facts.worker_roundtrip import Trip
from dl_doctor.model import Ended, Unavailable
from dl_doctor.settings import Settings
from dl_doctor.units import GIB, MIB

UNKNOWN = Unavailable.not_asked("a test")


def loader_plan(
    *,
    ranks: int = 1,
    tensors_per_batch: int | None = None,
    gpus: Any = None,
    loader: Any = None,
    batches: Any = None,
    methods: Any = None,
    worker: Any = None,
    **settings: Any,
) -> LoaderPlan:
    """A plan from options, as the collector makes it; with a GPU unless a test says otherwise."""
    unknown = Unavailable.not_asked("a test")
    ranks_here = Ranks(on_node=ranks, in_task=ranks, source="a test")
    plan = collect(
        Settings(**settings),
        ranks_here,
        gpus or gpu_grant(nodes=("nvidia0",)),
        loader or unknown,
        batches or unknown,
        methods or start_methods(),
        worker or unknown,
    )
    return msgspec.structs.replace(plan, tensors_per_batch=tensors_per_batch) if tensors_per_batch else plan


def fitting(plan: LoaderPlan, *known: Any) -> FittingLoader:
    """What fits these facts, as the collector makes it."""
    needs = needs_of(fitting_loader.collect).items()
    given = {name: next((one for one in (plan, *known) if isinstance(one, need.fact)), UNKNOWN) for name, need in needs}
    return fitting_loader.collect(**given)  # type: ignore[arg-type, return-value]


def loader_sweep(conclusion: Any = "change", **fields: Any) -> LoaderSweep:
    """Of a set that computes on 4 CPUs: 1, 2, 4 and 6 workers were measured."""
    points = tuple(
        Point(
            num_workers=workers,
            samples_per_s=rate,
            samples_per_s_low=0.98 * rate,
            samples_per_s_high=1.02 * rate,
            gpu_fed=None,
            epoch_s=10_000 / rate,
            startup_s=0.2,
            bottleneck="cpu",
            why="workers are on a CPU 99 % of the time",
            cpus_used=None,
            others_cpus=0.0,
            warm=True,
            measurements=3,
        )
        for workers, rate in ((1, 104.0), (2, 200.0), (4, 380.0), (6, 369.0))
    )
    choice = Choice(conclusion=conclusion, workers=4 if conclusion in ("change", "keep") else None)
    whys = {"change": "set num_workers=4", "keep": "no change needed: 4 workers"}
    known = {
        "conclusion": conclusion,
        "why": whys.get(conclusion, conclusion),
        "points": points,
        "recommendation": recommendation_of(choice, points, loader_plan(), method="fork", persistent=False, no_room=None),
        "bottleneck": "cpu",
        "evidence": points[-1].why,
        "narrowest": "workers",
        "stages": (),
        "demand_samples_per_s": None,
        "costs": None,
        "current": 2,
        "ranks": 1,
        "limited_by": None,
        "budget_s": 60.0,
        "took_s": 41.0,
        "complete": True,
    }
    return LoaderSweep(**{**known, **fields})


def loader_arguments(**fields: Any) -> LoaderArguments:
    known = {
        "batch_size": 32,
        "num_workers": 4,
        "prefetch_factor": 2,
        "pin_memory": False,
        "persistent_workers": False,
        "drop_last": False,
        "timeout_s": 0.0,
        "start_method": None,
        "collate_fn": None,
        "worker_init_fn": None,
        "sampler": "torch.utils.data.sampler.RandomSampler",
        "batch_sampler": "torch.utils.data.sampler.BatchSampler",
        "batches": 32,
    }
    return LoaderArguments(**{**known, **fields})


def batches(**fields: Any) -> Batches:
    """Eight batches of 24 MiB in one tensor."""
    known = {
        "ended": ANSWERED,
        "allowed_bytes": 10 * GIB,
        "made": 8,
        "samples": 32,
        "batch_bytes": 24 * MIB,
        "tensors": 1,
        "pipe_bytes": 0,
        "held_bytes": 0,
    }
    return Batches(**{**known, **fields})


def shared_memory(**fields: Any) -> SharedMemory:
    free = fields.get("free_bytes", 64 * GIB)
    return SharedMemory(**{"filesystem": "tmpfs", "size_bytes": free, "free_bytes": free, "tenants": (), "stale": (), **fields})


def cpu_limit(cpus: float, kind: Any = "affinity", *, shared_by: int = 1) -> CpuLimit:
    scope: Any = {"affinity": "task", "slurm": "task", "node": "node"}.get(kind, "container")
    return CpuLimit(kind=kind, cpus=cpus, shared_by=shared_by, scope=scope, source=f"the {kind}")


def cpu_budget(*limits: CpuLimit, **fields: Any) -> CpuBudget:
    limits = limits or (cpu_limit(64),)
    affinity = next((int(limit.cpus) for limit in limits if limit.kind == "affinity"), 64)
    known = {
        "limits": tuple(sorted(limits, key=lambda limit: limit.per_rank)),
        "ranks": 1,
        "affinity_cpus": affinity,
        "node_cpus": 64,
        "physical_cores": 64,
        "intra_op_threads": affinity,
        "owed_cpus": None,
        "quota_known": True,
        "ancestors_known": True,
    }
    return CpuBudget(**{**known, **fields})


def memory_budget(headroom: int = 200 * GIB, limit: int = 256 * GIB, **fields: Any) -> MemoryBudget:
    """Memory with one limit, of a container where it is below 256 GiB."""
    scope: Any = "node" if limit >= 256 * GIB else "container"
    known = {
        "limits": (
            MemoryLimit(
                limit_bytes=limit, used_bytes=limit - headroom, droppable_bytes=0, scope=scope, source=f"the {scope}'s limit"
            ),
        ),
        "total_bytes": 256 * GIB,
        "limit_known": True,
        "ancestors_known": True,
        "kill_is_shared": None,
        "working_set_bytes": None,
        "commit_left_bytes": None,
    }
    return MemoryBudget(**{**known, **fields})


def limits(**fields: Any) -> Limits:
    known = {
        "open_files_soft": 1_048_576,
        "open_files_hard": 1_048_576,
        "inherited_files": 3,
        "address_space_bytes": None,
        "data_bytes": None,
        "max_map_count": 65_530,
    }
    return Limits(**{**known, **fields})


def gpu_grant(*, promised: int | None = None, nodes: tuple[str, ...] = (), source: str = "a test") -> GpuGrant:
    return GpuGrant(promised=promised, source=source, nodes=nodes)


ANSWERED = Ended(how="answered")


def gpu_nodes(count: int) -> tuple[str, ...]:
    return ("nvidia-uvm", *(f"nvidia{index}" for index in range(count)), "nvidiactl")


def nvidia_driver(count: int = 2, **fields: Any) -> NvidiaDriver:
    """A machine with so many GPUs, and NVIDIA's driver."""
    addresses = tuple(f"0000:{index + 1:02x}:00.0" for index in range(count))
    known = {
        "platform": "native",
        "pci": addresses,
        "version": "550.90.07" if count else None,
        "bound": addresses,
        "nodes": gpu_nodes(count) if count else (),
        "majors": {"nvidia": 195, "nvidia-uvm": 510} if count else {},
    }
    return NvidiaDriver(**{**known, **fields})


def gpu_access(count: int = 2, *, errors: dict[str, str] | None = None, **fields: Any) -> GpuAccess:
    """So many GPUs whose nodes open, but for those with an error."""
    nodes = tuple(
        Node(name=name, error=(errors or {}).get(name), major=510 if name == "nvidia-uvm" else 195, mode=0o666, uid=0, gid=0)
        for name in gpu_nodes(count)
    )
    return GpuAccess(**{"ended": ANSWERED, "nodes": nodes, "uid": 0, "can_make_nodes": False, **fields})


def gpu(index: int = 0, **fields: Any) -> Gpu:
    known = {
        "uuid": f"GPU-{index:08x}-0000",
        "name": "NVIDIA H100 80GB HBM3",
        "pci": f"0000:{index + 1:02x}:00.0",
        "minor": index,
        "memory_bytes": 80 * GIB,
        "mig": False,
    }
    return Gpu(**{"index": index, **known, **fields})


def nvml(*gpus: Gpu, count: int = 2, **fields: Any) -> Nvml:
    gpus = gpus or tuple(gpu(index) for index in range(count))
    known = {"ended": ANSWERED, "driver_version": "550.90.07", "cuda_version": "12.4", "count": len(gpus), "gpus": gpus}
    return Nvml(**{**known, **fields})


def nvml_error(code: str) -> Nvml:
    """NVML that does not begin."""
    return Nvml(ended=ANSWERED, error=code)


def gpu_state(index: int = 0, **fields: Any) -> GpuState:
    """A healthy H100 that nobody uses."""
    known = {
        "uuid": f"GPU-{index:08x}-0000",
        "name": "NVIDIA H100 80GB HBM3",
        "pci": f"0000:{index + 1:02x}:00.0",
        "pci_device": "2330",
        "pci_subsystem": "10de:16c1",
        "capability": (9, 0),
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": 4 * MIB,
        "memory_version": 2,
        "utilisation": (0.0, 0.0, 0.0),
        "processes_known": True,
        "ecc": True,
        "memory_errors": MemoryErrors(corrected=0, uncorrected=0, sram_uncorrected=0, sram_threshold_exceeded=False),
        "remapped_rows": RemappedRows(corrected=0, uncorrected=0, pending=False, failed=False),
        "recovery_action": 0,
        "compute_mode": "default",
        "mig": False,
        "virtualization": "none",
        "persistence": True,
        "display_active": False,
        "fabric": Fabric(state="completed", status="SUCCESS", health=1, health_mask=0),
        "link_gen_max": 5,
        "link_width_max": 16,
        "slot_gen_max": 5,
        "slot_width_max": 16,
        "power_limit_w": 700.0,
        "power_limit_default_w": 700.0,
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 2619,
        "memory_bus_bits": 5120,
        "slowdown_c": 87,
        "errors": {"nvmlDeviceGetRetiredPages": "NOT_SUPPORTED", "nvmlDeviceGetRetiredPagesPendingStatus": "NOT_SUPPORTED"},
    }
    return GpuState(**{"index": index, **known, **fields})


def gpu_states(*gpus: GpuState, count: int = 2, **fields: Any) -> GpuStates:
    gpus = gpus or tuple(gpu_state(index) for index in range(count))
    return GpuStates(**{"ended": ANSWERED, "gpus": gpus, "took_s": 0.1, "confidential": False, **fields})


def gpu_process(pid: int = 4711, kind: str = "compute", memory: int | None = 12 * GIB, **fields: Any) -> GpuProcess:
    """Somebody else's python, for three hours."""
    known = {"uid": 1005, "name": "python", "age_s": 3 * 3600.0}
    return GpuProcess(**{"pid": pid, "kind": kind, "memory_bytes": memory, **known, **fields})


H100_RATES = {
    "bf16": (791.0, 989.4, "TFLOP/s"),
    "fp32": (51.6, 66.9, "TFLOP/s"),
    "tf32": (405.0, 494.7, "TFLOP/s"),
    "copy": (2790.0, 3352.0, "GB/s"),
    "host to device": (55.4, 63.0, "GB/s"),
    "device to host": (55.1, 63.0, "GB/s"),
}
"""What a healthy H100 SXM gives and what it could, about: products at 80 % as published, copies to the host as 8 x H200 gave."""


def gpu_rate(what: str = "bf16", gpu: int = 0, **fields: Any) -> Rate:
    achieved, possible, unit = H100_RATES.get(what, (100.0, None, "TFLOP/s"))
    achieved = fields.get("achieved", achieved)
    known = {"unit": unit, "achieved": achieved, "best": 1.01 * achieved, "spread": 0.01, "blocks": 30, "possible": possible}
    known["basis"] = "link" if "host" in what else "datasheet" if possible else None
    return Rate(**{"gpu": f"gpu:{gpu}", "what": what, **known, **fields})


def gpu_load(phase: str = "products", **fields: Any) -> Load:
    """What NVML sees of a healthy H100 meanwhile: its power limit alone holds its clock down."""
    known = {"samples": 8, "sm_mhz": 1755.0, "sm_mhz_end": 1740.0, "memory_mhz": 2619.0, "power_w": 640.0, "temperature_c": 52.0}
    link = {"link_gen": 5, "link_width": 16, "replays": 0}
    capped = {} if phase == "host copies" else {"reasons": {"power_cap": 0.9}, "counted": {"power_cap": 0.8}}
    return Load(**{"phase": phase, **known, **link, **capped, **fields})


def probed_gpu(index: int = 0, **fields: Any) -> ProbedGpu:
    """A healthy H100 SXM, the same card as gpu_state's of this index."""
    known = {
        "backend": "cuda",
        "nvml_index": index,
        "uuid": f"GPU-{index:08x}-0000",
        "pci": f"0000:{index + 1:02x}:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "capability": (9, 0),
        "multiprocessors": 132,
        "memory_bytes": 80 * GIB,
        "loads": (gpu_load(), gpu_load("host copies")),
        "digest": "5d3c0fc12a3b9e10",
        "host_numa": 0,
        "mask_numa": (0, 1),
        "device_numa": 0,
    }
    return ProbedGpu(**{"gpu": f"gpu:{index}", "index": index, **known, **fields})


def gpu_probe(*gpus: ProbedGpu, count: int = 1, rates: tuple[Rate, ...] | None = None, **fields: Any) -> GpuProbe:
    """Healthy H100s, each with all rates, unless rates are given."""
    gpus = gpus or tuple(probed_gpu(index) for index in range(count))
    of_all = tuple(gpu_rate(what, gpu.index) for gpu in gpus if gpu.skipped is None for what in H100_RATES)
    known = {"ended": ANSWERED, "length": "short", "cpu_quota": 16.0, "watched": ANSWERED}
    return GpuProbe(**{**known, "gpus": gpus, "rates": of_all if rates is None else rates, **fields})


def job_gpus(*, expected: bool = True) -> JobGpus:
    return JobGpus(expected=expected, source="a test")


def own_gpus(*indices: int, source: str = "NVML") -> OwnGpus:
    return OwnGpus(indices=indices, source=source)


def visible_gpus(known: Nvml | Unavailable, told: str | None = None, **variables: str) -> VisibleGpus:
    """What CUDA would show with this CUDA_VISIBLE_DEVICES."""
    set_ = {} if told is None else {"CUDA_VISIBLE_DEVICES": told}
    return visible.collect(Environment({**variables, **set_}), known)


def library(path: str | None = None, error: str | None = None) -> Library:
    return Library(path=path, error=error)


def gpu_libraries(cuda: Library | None = None, ml: Library | None = None, **fields: Any) -> GpuLibraries:
    known = {
        "ended": ANSWERED,
        "cuda": cuda or library("/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07"),
        "nvml": ml or library("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.90.07"),
    }
    return GpuLibraries(**{**known, **fields})


def gpu_sharing(daemon: Any = None, *, folder: str = "/tmp/nvidia-mps", said: bool = False, **fields: Any) -> GpuSharing:
    """A job that has its GPUs for itself, or finds the daemon of MPS so."""
    mps = Mps(folder=folder, said=said, daemon=daemon) if daemon else None
    return GpuSharing(**{"mps": mps, "thread_percentage": None, "shims": (), **fields})


def xid(code: int = 79, **fields: Any) -> Xid:
    """Told once, a minute ago, of the first GPU."""
    known = {"pci": "0000:01:00", "count": 1, "last_s": 940.0, "text": "GPU has fallen off the bus."}
    return Xid(**{"code": code, **known, **fields})


def kernel_log(*xids: Xid, **fields: Any) -> KernelLog:
    return KernelLog(**{"ended": ANSWERED, "source": "/dev/kmsg", "since_s": 0.0, "now_s": 1000.0, "xids": xids, **fields})


def allocator_settings(trouble: str | None = None, **fields: Any) -> AllocatorSettings:
    known = {"variable": "PYTORCH_ALLOC_CONF", "value": "a:b", "trouble": trouble, "certain": True, "passed_over": ()}
    return AllocatorSettings(**{**known, **fields})


def rocm_access(*, kfd: str | None = None, render: tuple[str | None, ...] = (None,), **fields: Any) -> RocmAccess:
    """A machine with GPUs of AMD's: the errors of opening /dev/kfd and the render nodes, None for those that open."""
    known = {"major": 226, "mode": 0o660, "uid": 0, "gid": 109}
    nodes = tuple(Node(name=f"renderD{128 + index}", error=error, **known) for index, error in enumerate(render))
    bus = tuple(f"0000:{index + 1:02x}:00.0" for index in range(len(render)))
    at_kfd = Node(name="kfd", error=kfd, **known)
    return RocmAccess(**{"ended": ANSWERED, "bus": bus, "kfd": at_kfd, "render": nodes, "uid": 1000, "groups": (1000,), **fields})


def apple_gpu(**fields: Any) -> AppleGpu:
    """A Mac with Apple's processor whose GPU computes."""
    known = {
        "ended": ANSWERED,
        "system": "Darwin",
        "machine": "arm64",
        "translated": False,
        "virtual": False,
        "macos": "15.3",
        "built": True,
        "available": True,
        "agrees": True,
    }
    return AppleGpu(**{**known, **fields})


def runtime(name: str = "docker", **fields: Any) -> Runtime:
    view: Any = "host" if name == "bare" else "container"
    return Runtime(**{"name": name, "scheduler": None, "platform": None, "view": view, "sandbox": None, "evidence": (), **fields})


def slurm(**fields: Any) -> Slurm:
    known = {
        "job_id": "7",
        "in_step": True,
        "tasks_on_node": 1,
        "cpus_per_task": None,
        "cpus_on_node": 64,
        "memory_bytes": None,
        "gpus": (),
    }
    return Slurm(**{**known, **fields})


def target(why: str = "from VIRTUAL_ENV", path: str = "/venv/bin/python") -> Target:
    return Target(path=path, why=why, has_torch=True)


def interpreter_build(**fields: Any) -> InterpreterBuild:
    known = {
        "ended": Ended(how="answered"),
        "version": "3.11.7",
        "implementation": "cpython",
        "prefix": "/venv",
        "kind": "venv",
        "libc": "glibc",
        "libc_version": "2.36",
        "start_methods": ("fork", "spawn", "forkserver"),
    }
    return InterpreterBuild(**{**known, **fields})


def torch_files(version: str | None = "2.6.0+cu124", **fields: Any) -> TorchFiles:
    """PyTorch's own build for CUDA 12.4, unless a test says otherwise."""
    known = {
        "origin": "/venv/lib/python3.11/site-packages/torch/__init__.py",
        "folder": "/venv/lib/python3.11/site-packages/torch",
        "version": version,
        "metadata_version": version,
        "cuda": "12.4",
        "hip": None,
        "libraries": ("libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so"),
        "links_glibc": True,
        "glibc_wanted": "2.28",
        "pins": (),
        "companions": (),
        "packages": {"numpy": "2.2.4"},
        "conda": (),
    }
    return TorchFiles(**{**known, **fields})


def torch_import(**fields: Any) -> TorchImport:
    known = {
        "ended": Ended(how="answered"),
        "import_s": 1.4,
        "affinity_before": tuple(range(8)),
        "affinity_after": tuple(range(8)),
        "version": "2.6.0+cu124",
        "cuda": "12.4",
        "parallel_info": "ATen/Parallel:\nATen parallel backend: OpenMP\n",
    }
    return TorchImport(**{**known, **fields})


def not_imported(**ended: Any) -> TorchImport:
    """The import of torch did not come back."""
    return TorchImport(ended=Ended(**{"step": "import torch", **ended}))


def torch_gpus(count: int = 2, **fields: Any) -> TorchGpus:
    """PyTorch that sees so many GPUs, with a driver that is new enough."""
    known = {
        "ended": ANSWERED,
        "torch_cuda": "12.4",
        "driver_cuda": "12.4",
        "init_code": 0,
        "init_s": 0.3,
        "libcuda": ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07",),
        "count": count,
    }
    return TorchGpus(**{**known, **fields})


def smoked(index: int = 0, **fields: Any) -> SmokedGpu:
    """A GPU that computed right, as far as a test does not say otherwise."""
    known = {
        "name": "NVIDIA H100 80GB HBM3",
        "pci": f"0000:{index + 1:02x}:00.0",
        "capability": (9, 0),
        "compute_mode": 0,
        **{what: Tried(wrong=0.0, took_s=0.3) for what in ("copy", "product", "convolution")},
    }
    return SmokedGpu(**{"index": index, **known, **fields})


def smoked_until(what: str, index: int = 0, *, number: int | None = None, **fields: Any) -> SmokedGpu:
    """A GPU at which this raised, after which nothing more was tried."""
    error = fields.pop("error", "RuntimeError: no")
    order = ("copy", "product", "convolution")
    after = dict.fromkeys(order[order.index(what) + 1 :])
    return smoked(index, **{**after, what: Tried(error=error, number=number), **fields})


def cuda_smoke(*gpus: SmokedGpu, count: int = 2, **fields: Any) -> CudaSmoke:
    gpus = gpus or tuple(smoked(index) for index in range(count))
    known = {
        "ended": ANSWERED,
        "backend": "cuda",
        "init_code": 0,
        "init_s": 0.2,
        "count": len(gpus),
        "arch_list": ("sm_80", "sm_90"),
        "libraries": {"libcudnn.so.9": ("/venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9",)},
    }
    return CudaSmoke(**{**known, "gpus": gpus, **fields})


def no_smoke(**fields: Any) -> CudaSmoke:
    """Nothing was tried."""
    return CudaSmoke(**{"ended": ANSWERED, "backend": "cuda", "count": 0, **fields})


def pinned_memory(batches: int = 18, **fields: Any) -> PinnedMemory:
    """Batches in flight of 24 MiB each, in a block of 32 MiB, which could all be pinned."""
    known = {
        "batches": batches,
        "blocks": (24 * MIB,),
        "wanted_bytes": batches * 32 * MIB,
        "ended": ANSWERED,
        "available": True,
        "pinned_batches": batches,
        "pinned_s": 0.001,
        "pageable_s": 0.004,
    }
    return PinnedMemory(**{**known, **fields})


def shared_memory_use(**fields: Any) -> SharedMemoryUse:
    return SharedMemoryUse(**{"ended": Ended(how="answered"), "tried_bytes": 4 << 20, "segment": None, "lock": None, **fields})


def data_path(role: Any = "working", **fields: Any) -> DataPath:
    """A path on a large and empty disk; one that is not read only is written to."""
    known = {
        "role": role,
        "path": {"data": "/data", "working": "/work", "temporary": "/tmp", "scratch": "/local"}.get(role, "/caches"),
        "said_by": {"data": "--data", "scratch": "SLURM_TMPDIR", "cache": "HF_HOME"}.get(role, "a test"),
        "ended": Ended(how="answered"),
        "exists": True,
        "latency_s": 0.001,
        "total_bytes": 1000 * GIB,
        "free_bytes": 500 * GIB,
        "total_files": 1_000_000,
        "free_files": 500_000,
        "written": role != "data" and "write_refusal" not in fields,
    }
    return DataPath(**{**known, **fields})


def data_paths(*entries: DataPath) -> DataPaths:
    return DataPaths(entries or (data_path(), data_path("temporary"), data_path("cache")))


def place(path: str = "/data", filesystem: str = "ext4", *disks: Disk, **fields: Any) -> Place:
    known = {"mount_point": "/", "source": "/dev/sda1", "kind": kind_of(filesystem), "layers": ()}
    return Place(**{**known, "path": path, "filesystem": filesystem, "disks": disks, **fields})


def disk(name: str = "sda", **fields: Any) -> Disk:
    return Disk(**{"name": name, "model": None, "rotational": False, "virtual": False, **fields})


def temp_space(**fields: Any) -> TempSpace:
    known = {
        "ended": Ended(how="answered"),
        "path": "/tmp",
        "path_bytes": 4,
        "real_path": "/tmp",
        "refusal": None,
        "passed_over": (),
        "no_exec": False,
    }
    return TempSpace(**{**known, **fields})


def user_identity(**fields: Any) -> UserIdentity:
    known = {"uid": 1000, "in_passwd": True, "name_error": None, "home": "/home/me", "home_said": True, "torch_version": "2.6.0"}
    return UserIdentity(**{**known, **fields})


def start_methods(**fields: Any) -> StartMethods:
    return StartMethods(**{"python": (3, 12), "available": ("fork", "spawn", "forkserver"), "chosen": None, **fields})


def worker_roundtrip(**ends: Ended) -> WorkerRoundtrip:
    """All methods answer but those that are said."""
    trips = tuple(
        Trip(method=method, ended=ends.get(method, Ended(how="answered")), duration_s=0.25)
        for method in ("fork", "spawn", "forkserver")
    )
    return WorkerRoundtrip(ended=Ended(how="answered"), trips=trips)


def loader(arguments: LoaderArguments | None = None, **fields: Any) -> Loader:
    """A dataset of 1000 samples that was made without trouble, alone or with a DataLoader of these arguments."""
    known = {
        "spec": "train.py:make",
        "ended": ANSWERED,
        "allowed_bytes": 50 * GIB,
        "kind": "map",
        "type": "train.Data",
        "length": 1000,
        "make_s": 0.1,
        "arguments": arguments,
    }
    return Loader(**{**known, **fields})


def allowance(headroom: int = 8 * GIB) -> Allowance:
    return Allowance(headroom // 4)


def examination(made: Loader | None = None, **settings: Any) -> Examination:
    """Of this loader, as the collector makes it."""
    given: Any = examining.collect(Settings(**settings), made or loader(), start_methods())
    return given  # type: ignore[no-any-return]


def readable(made: Loader | None = None, **settings: Any) -> ReadableDataset:
    """The same of a dataset whose samples came."""
    return ReadableDataset(**msgspec.structs.asdict(examination(made, **settings)))


def dataset_samples(**fields: Any) -> DatasetSamples:
    """Two samples of 10 ms each."""
    readings = tuple(SampleReading(index=str(index), took_s=0.01, bytes=100) for index in range(2))
    return DatasetSamples(**{"ended": ANSWERED, "allowed_bytes": GIB, "readings": readings, **fields})


def trouble(error: str = "FileNotFoundError: /data/17.png", stage: Any = "read", **fields: Any) -> Trouble:
    """What line 30 of /job/data.py raised for sample 17."""
    trace = '  File "/probes/dataset_samples.py", line 3, in run\n  File "/job/data.py", line 30, in __getitem__\n'
    return Trouble(**{"stage": stage, "indices": ("17",), "error": error, "trace": trace, **fields})


def dataset_trip(method: str = "fork", ended: Ended = ANSWERED, **fields: Any) -> DatasetTrip:
    """A small dataset that is sent by one method, and arrives unless a test says otherwise."""
    where = fields.pop("where", None if ended.how == "answered" else "parent")
    trips = (DatasetTravel(method=method, ended=ended, where=where, duration_s=1.5),)
    return DatasetTrip(**{"ended": ANSWERED, "pickle_bytes": 126, "trips": trips, **fields})


def dataset_objects(**fields: Any) -> DatasetObjects:
    return DatasetObjects(**{"ended": ANSWERED, "objects": 12, "object_bytes": 700, **fields})


def worker_cuda(**fields: Any) -> WorkerCuda:
    return WorkerCuda(**{"ended": ANSWERED, **fields})


def smoke_load(*came_s: float, **fields: Any) -> SmokeLoad:
    """Batches that came after so many seconds."""
    known = {"workers": 4, "prefetch_factor": 2, "method": "fork", "wanted": 6, "ended": ANSWERED, "came_s": came_s}
    return SmokeLoad(**{**known, **fields})


def worker_memory(private: int = 12 << 20, copied: tuple[int, int, int, int] = (0, 0, 0, 0), **fields: Any) -> WorkerMemory:
    """A forked worker of a million samples with so many pages copied at random, in order, the same again and later at random."""
    shared, readings = 1 << 30, []
    for name, samples, pages in zip(READINGS, (240, 560, 560, 240), copied, strict=True):
        before, shared, private = Pages(private, shared), shared - 4096 * pages, private + 4096 * pages
        readings.append(Reading(name, samples, before, Pages(private, shared)))
    known = {"method": "fork", "allowed_bytes": GIB, "ended": ANSWERED, "batch_size": 32, "length": 1_000_000}
    return WorkerMemory(**{"readings": tuple(readings), "started_s": 0.02, "first_batch_s": 0.12, **known, **fields})


READINGS = ("at random", "in order", "the same again", "at random later")
