from dl_doctor.contract import Check
from dl_doctor.facts import GpuAccess, GpuGrant, NvidiaDriver, Runtime, Slurm
from dl_doctor.facts.gpu_access import Node
from dl_doctor.fixes import give_gpus
from dl_doctor.model import Finding, Fix, Unavailable, Verdict

DRIVERS = {"nvidia-uvm": ("nvidia-uvm",), "nvidiactl": ("nvidia", "nvidiactl")}
"""Under which names /proc/devices lists the driver of a node; `nvidia` for those of the GPUs."""

REVOKED = (
    "systemd takes a container's right to its devices away when it reloads (systemctl daemon-reload), and NVML then says "
    '"Unknown Error".'
)

HOST = ("bare", "slurm", "container")


def gpu_device_access(
    access: GpuAccess,
    driver: NvidiaDriver,
    grant: GpuGrant | Unavailable,
    runtime: Runtime | Unavailable,
    slurm: Slurm | Unavailable,
) -> Verdict:
    """The device nodes of the GPUs can be opened

    ## What it checks
    Whether /dev/nvidiactl, /dev/nvidia-uvm and the node of each GPU open for reading and writing, and whether they belong to the
    driver that is loaded now. In a Slurm job only the nodes of the job's own GPUs are touched.

    ## Why it matters
    Nodes can be there, with all permissions, and be of no use: "Failed to initialize NVML: Unknown Error", or nvidia-smi that
    works while CUDA does not.

    ## How it decides
    By the error of open(2). EPERM: the control group of the container or the job forbids the device. Where GPUs open, as many as
    were promised at least, the forbidden ones are others': Slurm binds tasks to GPUs of their own so. EACCES: the user, the group
    or a security label. Another device number than the kernel's own, or ENXIO: the node is older than the driver. A missing
    nvidia-uvm or nvidiactl fails in a container; outside, before somebody has first used the GPU, it is a note where CUDA can
    make the node itself.

    For example, a container that was started before `systemctl daemon-reload` finds /dev/nvidiactl with mode 666, and EPERM.

    ## How to fix
    Restart the container; have the host use CDI, or the cgroupfs driver, so that it lasts. For EACCES join the node's group.

    ## Known limits
    That a node opens does not show that the GPU computes. Slurm's indices are taken for the numbers of the nodes.

    ## References
    NVIDIA/nvidia-container-toolkit#48, NVIDIA/nvidia-container-toolkit#251, NVIDIA/nvidia-docker#1730,
    NVIDIA/nvidia-container-runtime#85, pytorch/pytorch#49081, containers/podman#17539
    """
    if isinstance(slurm, Slurm) and not slurm.gpus:
        return Verdict.skip("this Slurm job was granted no GPU: its nodes are not for this job to try")
    how = access.ended.how
    if how == "stuck":
        return Verdict("", [stuck(access)])
    if how != "answered":
        return Verdict.unknown(f"the nodes cannot be tried: the process for it {access.ended.in_words}")
    inside = isinstance(runtime, Runtime) and runtime.view == "container"
    return Verdict(seen(access, driver), [*judged(access, driver, grant, inside=inside), *missing(driver, access, inside=inside)])


def seen(access: GpuAccess, driver: NvidiaDriver) -> str:
    alike: dict[str, list[str]] = {}
    for node in access.nodes:
        alike.setdefault(node.error or "open", []).append(node.name)
    tried = "; ".join(f"{', '.join(names)}: {how}" for how, names in alike.items())
    untried = [name for name in driver.gpu_nodes if name not in {node.name for node in access.nodes}]
    return f"{tried}; {len(untried)} of other jobs not tried" if untried else tried


def judged(access: GpuAccess, driver: NvidiaDriver, grant: GpuGrant | Unavailable, *, inside: bool) -> list[Finding]:
    """One finding for all nodes with the same trouble."""
    alike: dict[str, list[Node]] = {}
    for node in access.nodes:
        if not of_others(node, access, grant):
            alike.setdefault(trouble(node, driver), []).append(node)
    return [told(kind, nodes, driver, access, inside=inside) for kind, nodes in alike.items() if kind]


def of_others(node: Node, access: GpuAccess, grant: GpuGrant | Unavailable) -> bool:
    """Whether a control group withholds this GPU because the job has its own: what is revoked is revoked as a whole."""
    promised = 0 if isinstance(grant, Unavailable) else grant.promised or 0
    of_a_gpu = node.name.removeprefix("nvidia").isdecimal()
    return of_a_gpu and node.error == "EPERM" and len(access.opened) >= max(1, promised)


def trouble(node: Node, driver: NvidiaDriver) -> str:
    """STALE, or the error of open(2); empty where there is none, or where the node was removed while we looked."""
    if node.major is not None and node.major not in (current(node, driver) or {node.major}):
        return "STALE"
    return node.error if node.error not in (None, "ENOENT") else ""


def current(node: Node, driver: NvidiaDriver) -> set[int]:
    return {driver.majors[name] for name in DRIVERS.get(node.name, ("nvidia",)) if name in driver.majors}


def told(kind: str, nodes: list[Node], driver: NvidiaDriver, access: GpuAccess, *, inside: bool) -> Finding:
    node = nodes[0]
    path = f"/dev/{node.name}"
    which = path if len(nodes) == 1 else f"{path} and {len(nodes) - 1} more"
    if kind == "STALE":
        now = " or ".join(map(str, sorted(current(node, driver))))
        summary = f"{which}: older than the driver, with device number {node.major}, where the driver now has {now}"
        return found(path, summary, "The driver was reloaded after the node was made.", renewed(inside=inside))
    if kind == "EPERM":
        mode = "" if node.mode is None else f", although the mode is {node.mode:o}"
        summary = f"{which} may not be opened (EPERM){mode}: the control group forbids it"
        why = REVOKED if inside else "The job's control group does not hold this device."
        return found(path, summary, why, restarted(inside=inside))
    if kind == "EACCES":
        summary = f"{which} may not be opened by user {access.uid} (EACCES): the mode is {node.mode or 0:o}, the group {node.gid}"
        why = "With a mode that allows it, a security label (SELinux) does not, or /dev is mounted with nodev."
        return found(path, summary, why, allowed(node))
    if kind in ("ENXIO", "ENODEV"):
        why = "The driver is not loaded, was reloaded, or has lost this GPU."
        return found(path, f"{which}: no device is behind it ({kind})", why, renewed(inside=inside))
    return found(path, f"{which} cannot be opened: {kind}", "The driver refuses: the GPU may be ill.", renewed(inside=inside))


def missing(driver: NvidiaDriver, access: GpuAccess, *, inside: bool) -> list[Finding]:
    """Nodes without which those of the GPUs are of no use."""
    if driver.platform != "native" or not driver.gpu_nodes:
        return []
    harmless = not inside and access.can_make_nodes is True
    return [
        Finding(
            level="note" if harmless else "fail",
            subject=f"/dev/{name}",
            summary=f"/dev/{name} is not there{', until CUDA is first used' if harmless else ''}",
            why=f"Without it {symptom}." + (" CUDA makes it when a program first uses a GPU." if harmless else ""),
            owner="admin",
            fixes=(*(give_gpus() if inside else ()), make_uvm(inside=inside)),
        )
        for name, symptom in (("nvidiactl", "nothing reaches the GPUs"), ("nvidia-uvm", "nvidia-smi works and CUDA does not"))
        if name not in driver.nodes
    ]


def stuck(access: GpuAccess) -> Finding:
    return found("/dev/nvidia*", f"A process that tried to open a node {access.ended.in_words}", "The job would hang too.", ())


def found(subject: str, summary: str, why: str, fixes: tuple[Fix, ...]) -> Finding:
    return Finding(level="fail", subject=subject, summary=summary, why=why, owner="admin", fixes=fixes)


def restarted(*, inside: bool) -> tuple[Fix, ...]:
    if not inside:
        return (*give_gpus(), Fix("Have the admin look at the job's device control group", (), HOST))
    note = "So that it lasts: CDI, or the cgroupfs driver, on the host."
    return (
        Fix("Restart the container", ("docker restart ...",), ("docker",), "disruptive", note),
        Fix("Restart the container", ("podman restart ...",), ("podman",), "disruptive", note),
        Fix("Restart the container", ("docker compose restart",), ("compose",), "disruptive", note),
        Fix("Start the pod anew", ("kubectl delete pod ...",), ("kubernetes",), "disruptive", note),
        Fix("Start the container anew", (), ("apptainer", "enroot", "slurm", "container"), "disruptive", note),
    )


def renewed(*, inside: bool) -> tuple[Fix, ...]:
    make = Fix("Load the driver, and make the nodes anew", ("modprobe nvidia", "nvidia-modprobe -c 0 -u"), HOST, "needs-root")
    return (*(restarted(inside=True) if inside else ()), make)


def allowed(node: Node) -> tuple[Fix, ...]:
    return (
        Fix("Keep your groups in the container", ("podman run --group-add keep-groups ...",), ("podman",)),
        Fix("Join the node's group in the container", (f"docker run --group-add {node.gid} ...",), ("docker",)),
        Fix("In compose.yaml", (f"group_add: ['{node.gid}']",), ("compose",)),
        Fix("Join the node's group", (f"securityContext: {{supplementalGroups: [{node.gid}]}}",), ("kubernetes",)),
        Fix("With SELinux, allow containers to use devices", ("setsebool -P container_use_devices 1",), HOST, "needs-root"),
        Fix("Join the node's group, and log in anew", (f"usermod -aG {node.gid} $USER",), HOST, "needs-root"),
    )


def make_uvm(*, inside: bool) -> Fix:
    where = "On the host, then start the container anew" if inside else "Load the module and make the nodes"
    return Fix(where, ("nvidia-modprobe -c 0 -u",), risk="needs-root")


CHECK = Check(gpu_device_access, scope="node")
