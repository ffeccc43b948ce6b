from dl_doctor.contract import Check
from dl_doctor.facts import GpuGrant, RocmAccess, TorchFiles
from dl_doctor.facts.gpu_access import Node
from dl_doctor.model import Finding, Fix, Level, Unavailable, Verdict

HOST = ("bare", "slurm", "container")

REASONS = {
    "EACCES": "this user is in none of the groups that may use it",
    "EPERM": "the control group of the container or the job forbids it",
    "EINVAL": "AMD's driver refuses: it was loaded with another set of GPUs, or the container does not show it the whole machine",
    "ENXIO": "no device is behind it: the driver was reloaded",
    "ENODEV": "no device is behind it: the driver was reloaded",
    "ENOMEM": "AMD's driver has no room for one more process",
    "ENOENT": "it was not given to this container, or AMD's driver is not loaded",
}


def rocm_access(access: RocmAccess, torch: TorchFiles | Unavailable, grant: GpuGrant | Unavailable) -> Verdict:
    """AMD's GPUs can be opened

    ## What it checks
    Whether /dev/kfd, through which all of ROCm computes, and the render nodes of AMD's GPUs (/dev/dri/renderD128 and so on) open
    for reading and writing, and by which numbers of groups this process belongs to.

    ## Why it matters
    rocm-smi reads other files and shows all GPUs where a program sees none: torch.cuda.is_available() is False, or the job ends
    in "no ROCm-capable device is detected".

    ## How it decides
    By the error of open(2). /dev/kfd that does not open fails where PyTorch was built for ROCm or GPUs were promised; elsewhere
    it is a note, because a laptop's display is AMD's too. So do render nodes of which none opens, or none is there. Where some
    open, the others are another job's: a note. Groups are compared by number: `render` is 109 on one host and 992 in an image.

    For example, mode 660 and group 109 with a process in groups 1000 and 992 fails with EACCES, although `id` says `render`.

    ## How to fix
    Give the container both devices and the number of the host's group: --device=/dev/kfd --device=/dev/dri --group-add NUMBER.

    ## Known limits
    That a node opens does not show that the GPU computes. Which of several GPUs a job may use (ROCR_VISIBLE_DEVICES) is not
    looked at. Never tried on a GPU of AMD's.

    ## References
    ROCm/legacy-rocm-build#1798, ROCm/legacy-rocm-build#4043, ROCm/legacy-rocm-build#6166, ROCm/ROCm-docker#93,
    ROCm's page on running containers
    """
    wanted = (isinstance(torch, TorchFiles) and torch.hip is not None) or (isinstance(grant, GpuGrant) and bool(grant.promised))
    level: Level = "fail" if wanted else "note"
    if access.ended.how == "stuck":
        return Verdict("", [found("fail", "/dev/kfd", f"A process that tried to open it {access.ended.in_words}", ())])
    if access.ended.how != "answered":
        return Verdict.unknown(f"the nodes cannot be tried: the process for it {access.ended.in_words}")
    if access.kfd is None:
        if not wanted:
            return Verdict.skip("a GPU of AMD's is on the bus, and nothing here wants it: /dev/kfd is not there")
        return Verdict("/dev/kfd is not there", [refused(level, [], "ENOENT", access)])
    tried = ", ".join(f"{node.name} {node.error or 'opens'}" for node in (access.kfd, *access.render))
    if access.kfd.error:
        return Verdict(tried, [refused(level, [access.kfd], access.kfd.error, access)])
    return Verdict(tried, closed(level, access))


def closed(level: Level, access: RocmAccess) -> list[Finding]:
    """Render nodes that do not open."""
    shut = [node for node in access.render if node.error]
    if access.render and not shut:
        return []
    if not access.render:
        summary = "/dev/kfd opens, and no render node of AMD's is here (/dev/dri/renderD*)"
        return [found(level, "/dev/dri", summary, give(None))]
    if len(shut) < len(access.render):
        names = ", ".join(node.name for node in shut)
        return [found("note", "/dev/dri", f"{names} may not be opened here: other jobs' GPUs, or hidden on purpose", ())]
    return [refused(level, shut, shut[0].error or "", access)]


def refused(level: Level, nodes: list[Node], error: str, access: RocmAccess) -> Finding:
    which = ", ".join(node.name for node in nodes) or "kfd"
    node = nodes[0] if nodes else None
    groups = ""
    if error == "EACCES" and node is not None and node.gid is not None:
        groups = f"; it is of group {node.gid}, and this process is in {', '.join(map(str, access.groups)) or 'none'}"
    summary = f"{which} cannot be opened ({error}): {REASONS.get(error, 'AMD driver refuses')}{groups}"
    return found(level, "/dev/kfd" if which == "kfd" else "/dev/dri", summary, give(node))


def found(level: Level, subject: str, summary: str, fixes: tuple[Fix, ...]) -> Finding:
    return Finding(level=level, subject=subject, summary=summary, why="ROCm shows no GPU to a program then.", fixes=fixes)


def give(node: Node | None) -> tuple[Fix, ...]:
    group = node.gid if node is not None and node.gid is not None else "$(stat -c %g /dev/kfd)"
    devices = "--device=/dev/kfd --device=/dev/dri"
    title = "Give the container both devices, and the number of their group"
    return (
        Fix(title, (f"docker run {devices} --group-add {group} ...",), ("docker",)),
        Fix(title, (f"podman run {devices} --group-add keep-groups ...",), ("podman",)),
        Fix("In compose.yaml", ("devices: [/dev/kfd, /dev/dri]", f"group_add: ['{group}']"), ("compose",)),
        Fix("Ask for a GPU", ("resources: {limits: {amd.com/gpu: 1}}",), ("kubernetes",)),
        Fix("Bind AMD's devices and libraries", ("apptainer exec --rocm ...",), ("apptainer",)),
        Fix("Join the node's group, and log in anew", (f"usermod -aG {group} $USER",), HOST, "needs-root"),
    )


CHECK = Check(rocm_access, scope="node")
