"""Facts as tests need them: healthy and plain unless a test says otherwise."""

from typing import Any

import msgspec

from dl_doctor.facts import (
    CpuBudget,
    DataPaths,
    GpuGrant,
    Limits,
    LoaderPlan,
    MemoryBudget,
    Ranks,
    Runtime,
    SharedMemory,
    SharedMemoryUse,
    Slurm,
    StartMethods,
    TempSpace,
    UserIdentity,
    WorkerRoundtrip,
)
from dl_doctor.facts.cpu_budget import CpuLimit
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.facts.disks import Disk, Place
from dl_doctor.facts.filesystems import kind_of
from dl_doctor.facts.loader_plan import collect
from dl_doctor.facts.memory_budget import MemoryLimit
from dl_doctor.facts.worker_roundtrip import Trip
from dl_doctor.model import Ended
from dl_doctor.settings import Settings
from dl_doctor.units import GIB


def loader_plan(*, ranks: int = 1, tensors_per_batch: int | None = None, **settings: Any) -> LoaderPlan:
    """A plan from options, as the collector makes it."""
    plan = collect(Settings(**settings), Ranks(on_node=ranks, in_task=ranks, source="a test"))
    return msgspec.structs.replace(plan, tensors_per_batch=tensors_per_batch)


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


def gpu_grant(*, promised: int | None = None, nodes: tuple[str, ...] = ()) -> GpuGrant:
    return GpuGrant(promised=promised, source="a test", nodes=nodes)


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
    return StartMethods(**{"python": (3, 12, 1), "available": ("fork", "spawn", "forkserver"), "chosen": None, **fields})


def worker_roundtrip(**ends: Ended) -> WorkerRoundtrip:
    """All methods answer but those that are said."""
    trips = tuple(
        Trip(method=method, ended=ends.get(method, Ended(how="answered")), duration_s=0.25)
        for method in ("fork", "spawn", "forkserver")
    )
    return WorkerRoundtrip(ended=Ended(how="answered"), trips=trips)
