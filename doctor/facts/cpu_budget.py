"""CPUs that this job may use: every limit, who shares it, and which one is the tightest."""

import math
from typing import Literal

import msgspec

from dl_doctor.facts.cgroups import Cgroups, ControlGroup
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.ranks import Ranks
from dl_doctor.facts.slurm import Slurm
from dl_doctor.model import Unavailable
from dl_doctor.system import System
from dl_doctor.text import Malformed, integer, parse_cpu_list

SHARES_OF_ONE_CPU = 1024
"""cpu.shares that a Kubernetes request of one CPU becomes (pkg/kubelet/cm/helpers_linux.go)."""


class CpuLimit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, whole, and the ranks that share it."""

    kind: Literal["affinity", "slurm", "quota", "cpuset", "node"]
    cpus: float
    """CPUs, or CPU seconds per second of a quota, which keeps its fraction."""

    shared_by: int
    """Ranks."""

    scope: Literal["task", "container", "node"]
    source: str

    @property
    def per_rank(self) -> float:
        return self.cpus / self.shared_by


class CpuBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Source: sched_getaffinity(2), cpu.max or cpu.cfs_quota_us of the own group and its ancestors, the cpuset,
    SLURM_CPUS_PER_TASK and /sys/devices/system/cpu/online.
    """

    limits: tuple[CpuLimit, ...]
    """The tightest per rank first."""

    ranks: int
    """Of this job on the node."""

    affinity_cpus: int
    """CPUs in this process's mask: what PyTorch, OpenMP and nproc go by."""

    node_cpus: int | None
    physical_cores: int | None
    intra_op_threads: int
    """Threads that PyTorch and OpenMP will start for one operation: OMP_NUM_THREADS, else the cores in the mask."""

    owed_cpus: tuple[float, float] | None
    """What the group's weight would be as a Kubernetes request: the least and the most that it can stand for, because
    runtimes turn requests into weights by two formulas."""

    quota_known: bool
    """Whether the own group could be read; if not, a quota may be in force that is not among the limits."""

    ancestors_known: bool
    """Whether all groups above could be read too."""

    @property
    def tightest(self) -> CpuLimit:
        return self.limits[0]

    @property
    def cpus(self) -> float:
        """CPUs that one rank may use, at most."""
        return self.tightest.per_rank

    @property
    def cpus_of_all_ranks(self) -> float:
        return self.cpus * self.ranks

    @property
    def quota(self) -> CpuLimit | None:
        return next((limit for limit in self.limits if limit.kind == "quota"), None)


def collect(system: System, environment: Environment, cgroups: Cgroups, ranks: Ranks, slurm: Slurm | Unavailable) -> CpuBudget:
    affinity = len(system.affinity())
    physical = system.physical_cores()
    node = node_cpus(system)
    cpu, cpuset = cgroups.groups.get("cpu"), cgroups.groups.get("cpuset")
    limits = [CpuLimit(kind="affinity", cpus=affinity, shared_by=ranks.in_task, scope="task", source="sched_getaffinity")]
    if isinstance(slurm, Slurm) and slurm.in_step and slurm.cpus_per_task:
        limits.append(
            CpuLimit(
                kind="slurm",
                cpus=slurm.cpus_per_task,
                shared_by=ranks.in_task,
                scope="task",
                source="SLURM_CPUS_PER_TASK",
            )
        )
    found, quotas_read = quotas(system, cpu, ranks.on_node)
    limits += found + cpusets(system, cpuset, ranks.on_node)
    if node is not None:
        limits.append(CpuLimit(kind="node", cpus=node, shared_by=ranks.on_node, scope="node", source="CPUs online"))
    return CpuBudget(
        limits=tuple(sorted(limits, key=lambda limit: limit.per_rank)),
        ranks=ranks.on_node,
        affinity_cpus=affinity,
        node_cpus=node,
        physical_cores=physical,
        intra_op_threads=thread_setting(environment) or min(affinity, physical or affinity),
        owed_cpus=owed(system, cpu),
        quota_known=cpu is None or (cpu.own_visible and quotas_read),
        ancestors_known=cpu is None or cpu.top_visible,
    )


def quotas(system: System, group: ControlGroup | None, ranks: int) -> tuple[list[CpuLimit], bool]:
    """The quota of every group that sets one, and whether all could be read."""
    found, all_read = [], True
    for folder in group.folders if group else ():
        try:
            name, cpus = read_quota(system, folder, group.version if group else "v2")
        except (OSError, Malformed):
            all_read = False
            continue
        if cpus is not None:
            found.append(CpuLimit(kind="quota", cpus=cpus, shared_by=ranks, scope="container", source=f"{folder}/{name}"))
    return found, all_read


def read_quota(system: System, folder: str, version: str) -> tuple[str, float | None]:
    """The file and the CPUs; None without a quota. The root group has no such file."""
    try:
        if version == "v2":
            return "cpu.max", parse_cpu_max(system.read_text(f"{folder}/cpu.max"))
        quota = integer(system.read_text(f"{folder}/cpu.cfs_quota_us"))
        period = integer(system.read_text(f"{folder}/cpu.cfs_period_us"))
    except FileNotFoundError:
        return "", None
    return "cpu.cfs_quota_us", cpus_of(quota, period)


def parse_cpu_max(text: str) -> float | None:
    """CPUs in cpu.max: `50000 100000` is 0.5, `max 100000` is None."""
    fields = text.split()
    if len(fields) != 2:
        raise Malformed("not a cpu.max", text)
    return None if fields[0] == "max" else cpus_of(integer(fields[0]), integer(fields[1]))


def cpus_of(quota_us: int, period_us: int) -> float | None:
    """A quota of -1 is none; see Documentation/scheduler/sched-bwc.rst."""
    if quota_us < 0:
        return None
    if period_us <= 0 or quota_us == 0:
        raise Malformed("not a CPU quota", f"{quota_us} {period_us}")
    return quota_us / period_us


def cpusets(system: System, group: ControlGroup | None, ranks: int) -> list[CpuLimit]:
    """The own group's set, which the kernel keeps within the ancestors'. Empty means that none is set here."""
    if group is None or not group.own_visible or not group.folders:
        return []
    name = "cpuset.cpus.effective" if group.version == "v2" else "cpuset.effective_cpus"
    path = f"{group.folders[0]}/{name}"
    try:
        cpus = len(parse_cpu_list(system.read_text(path)))
    except (OSError, Malformed):
        return []
    return [CpuLimit(kind="cpuset", cpus=cpus, shared_by=ranks, scope="container", source=path)] if cpus else []


def node_cpus(system: System) -> int | None:
    try:
        return len(parse_cpu_list(system.read_text("/sys/devices/system/cpu/online"))) or None
    except (OSError, Malformed):
        return None


def thread_setting(environment: Environment) -> int | None:
    """OMP_NUM_THREADS (of nested levels the outermost), else MKL_NUM_THREADS; None when neither is a number above 0."""
    text = environment.get("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    try:
        return max(integer((text or "").partition(",")[0]), 0) or None
    except Malformed:
        return None


def owed(system: System, group: ControlGroup | None) -> tuple[float, float] | None:
    if group is None or not group.own_visible or not group.folders:
        return None
    folder = group.folders[0]
    try:
        if group.version == "v1":
            cpus = integer(system.read_text(f"{folder}/cpu.shares")) / SHARES_OF_ONE_CPU
            return cpus, cpus
        return request_of_weight(integer(system.read_text(f"{folder}/cpu.weight")))
    except (OSError, Malformed):  # a weight of 0 is an idle group's
        return None


def request_of_weight(weight: int) -> tuple[float, float]:
    """The CPUs of the two Kubernetes requests that become this cpu.weight (1 to 10000), the smaller first.

    Sources: the linear formula of KEP-2254, and the logarithmic one that runc 1.3.2 and crun 1.23 brought
    (opencontainers/cgroups#20): weight = 10^((l^2 + 125 l) / 612 - 7 / 34) with l = log2(shares).
    """
    if not 1 <= weight <= 10_000:
        raise Malformed("not a cpu.weight", str(weight))
    linear = 2 + (weight - 1) * 262_142 / 9_999
    root = math.sqrt(125**2 + 4 * 612 * (math.log10(weight) + 7 / 34))
    logarithmic = 2 ** ((root - 125) / 2)
    low, high = sorted((linear / SHARES_OF_ONE_CPU, logarithmic / SHARES_OF_ONE_CPU))
    return low, high
