"""Fixes that several checks word alike."""

import math
import posixpath
import shlex

from dl_doctor.facts.cgroups import Cgroups
from dl_doctor.facts.cpu_budget import CpuBudget
from dl_doctor.facts.data_paths import DataPaths
from dl_doctor.facts.disks import Disks
from dl_doctor.facts.fitting_loader import FittingLoader
from dl_doctor.facts.memory_budget import MemoryBudget
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.model import Fix, Unavailable
from dl_doctor.units import GIB, binary_size


def for_containers(
    title: str, *, run: str, compose: tuple[str, ...], kubernetes: tuple[str, ...], note: str = ""
) -> tuple[Fix, ...]:
    """One setting of a container, in the words of docker, podman, compose and Kubernetes.

    Args:
        title: what to do.
        run: the options of `docker run`, which podman takes too.
        compose: lines below the service in compose.yaml.
        kubernetes: lines of the container's or the pod's spec.
        note: said with docker and podman.
    """
    return (
        Fix(title, (f"docker run {run} ...",), runtimes=("docker",), note=note),
        Fix(title, (f"podman run {run} ...",), runtimes=("podman",), note=note),
        Fix("In compose.yaml", compose, runtimes=("compose",)),
        Fix(title, kubernetes, runtimes=("kubernetes",)),
    )


def give_cpus(title: str, cpu: CpuBudget, wanted: int, threads: int | None = None) -> tuple[Fix, ...]:
    """So many CPUs for a container, in the words of what withholds them: a quota, a set of CPUs, or both.

    Args:
        title: what to do.
        cpu: what all ranks may use now.
        wanted: CPUs of all ranks together.
        threads: what OMP_NUM_THREADS is to be; None where it may stay.
    """
    short = {limit.kind for limit in cpu.limits if limit.per_rank < wanted / cpu.ranks}
    bound = bool(short & {"affinity", "cpuset"})
    paced = "quota" in short or not bound
    run = [f"--cpuset-cpus=0-{wanted - 1}"] * bound + [f"--cpus={wanted}"] * paced
    compose = [f'cpuset: "0-{wanted - 1}"'] * bound + [f"cpus: {wanted}"] * paced
    kubernetes = [f'resources: {{limits: {{cpu: "{wanted}"}}}}']
    if threads is not None:
        run.append(f"-e OMP_NUM_THREADS={threads}")
        compose.append(f'environment: {{OMP_NUM_THREADS: "{threads}"}}')
        kubernetes.append(f'env: [{{name: OMP_NUM_THREADS, value: "{threads}"}}]')
    note = "Any others of the machine's CPUs will do." if bound else ""
    return for_containers(title, run=" ".join(run), compose=(*compose,), kubernetes=(*kubernetes,), note=note)


def give_gpus(number: int | None = None) -> tuple[Fix, ...]:
    """Ways to start the job with GPUs.

    Args:
        number: how many; None for all that are there, or one where a number must be said.
    """
    title, toolkit, some = "Start the container with GPUs", "The host needs NVIDIA's container toolkit.", number or 1
    return (
        Fix(title, (f"docker run --gpus {number or 'all'} ...",), ("docker",), note=toolkit),
        Fix(title, ("podman run --device nvidia.com/gpu=all ...",), ("podman",), note=toolkit),
        Fix("In compose.yaml", ("gpus: all",), ("compose",)),
        Fix(title, (f"resources: {{limits: {{nvidia.com/gpu: {some}}}}}", "runtimeClassName: nvidia"), ("kubernetes",)),
        Fix("Ask Slurm for GPUs, at sbatch and at srun", (f"#SBATCH --gpus={some}", f"srun --gpus={some} ..."), ("slurm",)),
        Fix(title, ("apptainer exec --nv ...",), ("apptainer",)),
        Fix(title, ("NVIDIA_VISIBLE_DEVICES=all enroot start ...",), ("enroot",)),
    )


def remake_container() -> tuple[Fix, ...]:
    """The container anew, so that it gets the libraries that the host's driver has now."""
    title = "Make the container anew: the host's present libraries are then put into it"
    return (
        Fix(title, ("docker rm ...", "docker run --gpus all ..."), ("docker",), "disruptive"),
        Fix(title, ("podman rm ...", "podman run --device nvidia.com/gpu=all ..."), ("podman",), "disruptive"),
        Fix(title, ("docker compose up --force-recreate",), ("compose",), "disruptive"),
        Fix(title, ("kubectl delete pod ...",), ("kubernetes",), "disruptive"),
    )


def ask_for_less(fitting: FittingLoader | Unavailable, title: str = "Or ask for less") -> tuple[Fix, ...]:
    """The number of workers that all limits allow; nothing where there is none, or where it is as little already."""
    if isinstance(fitting, Unavailable) or fitting.num_workers is None or fitting.unchanged:
        return ()
    note = "It fits the CPUs and all memory that are left here." if fitting.num_workers else "None fit until a limit is raised."
    return (Fix(title, (f"DataLoader(..., {fitting.options})",), note=note),)


def more_memory(memory: MemoryBudget, need: int, share: float, cgroups: Cgroups | Unavailable) -> tuple[Fix, ...]:
    """Limits with which the need takes no more than this share of what they leave, in whole GiB."""
    charged = memory.tightest.limit_bytes - memory.headroom_bytes
    gib = math.ceil((charged + need / share) / GIB)
    if memory.tightest.scope == "node" or gib * GIB > memory.total_bytes:
        return (Fix("Move to a machine with more memory, or end what takes it here"),)
    raised = for_containers(
        "Raise the container's limit",
        run=f"--memory={gib}g",
        compose=(f"mem_limit: {gib}g",),
        kubernetes=(f"resources: {{limits: {{memory: {gib}Gi}}}}",),
    )
    lifted = Fix(f"Lift the limit in {memory.tightest.source}", runtimes=("bare", "container", "lxc"), risk="needs-root")
    if from_above(memory, cgroups):
        raised = tuple(fix for fix in raised if "kubernetes" in fix.runtimes)  # a pod's group has what its containers have
        lifted = Fix(
            f"Lift the limit of a group above the container's, told in {memory.tightest.source}",
            runtimes=(*lifted.runtimes, "docker", "podman", "compose"),
            risk="needs-root",
        )
    return (
        *raised,
        lifted,
        Fix("Ask for more memory", (f"#SBATCH --mem={gib}G",), runtimes=("slurm", "apptainer", "enroot")),
    )


def from_above(memory: MemoryBudget, cgroups: Cgroups | Unavailable) -> bool:
    """Whether the tightest limit is of a group above this process's own: no option of a container's can lift it."""
    group = cgroups.groups.get("memory") if isinstance(cgroups, Cgroups) else None
    folder, name = posixpath.split(memory.tightest.source)
    if group is None or folder not in group.folders:
        return False
    return name == "memory.stat" or not group.own_visible or folder != group.folders[0]


def python(target: Target) -> str:
    """The examined interpreter as a shell takes it."""
    return shlex.quote(target.path)


def pip_install(target: Target, packages: str) -> str:
    """The command that installs into the examined environment."""
    return f"{python(target)} -m pip install {packages}"


def torch_again(files: TorchFiles, *others: str) -> str | None:
    """What pip is told for the build of torch that is there, and for others beside it; None where no index of pip's has it."""
    version, _, tag = (files.version or "").partition("+")
    if files.conda or not all(part.isdecimal() for part in version.split(".")):
        return None
    index = f" --index-url https://download.pytorch.org/whl/{tag}" if tag else ""
    return f"{' '.join((f'torch=={version}', *others))}{index}" if files.tag_is_pytorchs else None


def copy_to_a_local_disk(title: str, data_paths: DataPaths, disks: Disks) -> tuple[Fix, ...]:
    """A copy of what `--data` names to a folder of this node's own; nothing where there is none, or no data was named."""
    data = " ".join(shlex.quote(entry.path) for entry in data_paths.of("data"))
    for entry in data_paths.of("scratch", "temporary") if data else ():
        place = disks.of(entry.path)
        if place is None or place.kind != "disk" or not entry.written or entry.exists is False:
            continue
        target = f'"${entry.said_by}"' if entry.role == "scratch" else shlex.quote(entry.path)
        return (
            Fix(
                title,
                (f"du -sh {data}", f"cp -r {data} {target}/"),
                note=f"{entry.path} has {binary_size(entry.free_bytes or 0)} free; see first that they fit.",
            ),
        )
    return ()
