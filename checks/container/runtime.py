from dl_doctor.contract import Check
from dl_doctor.facts import Cgroups, Runtime
from dl_doctor.model import Finding, Unavailable, Verdict

SYNTHETIC = {
    "gvisor": "gVisor makes up /proc and /sys in part: limits, disks and NUMA nodes may not be the machine's.",
    "wsl": "GPUs are reached through /dev/dxg here; there is no /dev/nvidia0, and none is missing.",
}


def runtime(runtime: Runtime, cgroups: Cgroups | Unavailable) -> Verdict:
    """The container runtime and the scheduler are known

    ## What it checks
    Which container runtime, scheduler and hosted platform this process runs under, and whose view of the machine it has.

    ## Why it matters
    The same fault is mended in different places: `docker run --shm-size`, an emptyDir in a pod, a flag of `srun`. The fixes in
    this report are those for what is named here.

    ## How it decides
    By what runtimes leave in their containers: marker files, variables, the paths that /etc/hosts is bound from, the names of
    control groups, namespaces of their own. It never warns; it takes a note of what it found and by what.

    ## How to fix
    If it guessed wrong, say `--runtime docker`, `podman`, `compose`, `kubernetes`, `slurm`, `apptainer`, `enroot` or `bare`.

    ## Known limits
    A container of Docker Compose looks like any other of Docker's, and an init container like any other of its pod.

    ## References
    systemd's container interface; opencontainers/runtime-spec; apptainer.org user guide, environment
    """
    version = f", cgroup {cgroups.version}" if isinstance(cgroups, Cgroups) and cgroups.version else ""
    return Verdict(
        "; ".join(runtime.evidence) or "no sign of a container, a scheduler or a hosted platform",
        [
            Finding(
                level="note",
                subject="runtime",
                summary=f"{place(runtime)}{version}",
                why=SYNTHETIC.get(runtime.sandbox or "", "Fixes are worded for it; --runtime says otherwise."),
            )
        ],
    )


def place(runtime: Runtime) -> str:
    """Where this is, in words."""
    views = {
        "container": f"In a container ({runtime.name})",
        "host": "On the machine itself",
        "virtual machine": "On a virtual machine",
        "mounted root": "Another machine's files, seen from outside",
    }
    more = [name for name in (runtime.platform, runtime.scheduler, runtime.sandbox) if name]
    return views[runtime.view] + (f", under {' and '.join(more)}" if more else "")


CHECK = Check(runtime)
