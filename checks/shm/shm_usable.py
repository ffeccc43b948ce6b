from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, SharedMemory, SharedMemoryUse
from dl_doctor.facts.refusal import Refusal
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Unavailable, Verdict
from dl_doctor.units import binary_size

PATH = "/dev/shm"  # noqa: S108 (it is the subject)

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "unknown")
"""Types of filesystems that keep their files in memory; of what the mount table does not show nothing is said."""

CAUSES = {
    "ENOSPC": f"{PATH} is full, in bytes or in files.",
    "ENOENT": f"There is no {PATH}, or this user may not look into it; some libraries do not tell the two apart.",
    "ENOSYS": f"There is no {PATH} that is kept in memory, so that the C library finds no place for it.",
    "EACCES": f"This user may not write to {PATH}: it is to have mode 1777.",
    "EPERM": "It is forbidden here, by a sandbox or a security module.",
    "EROFS": f"{PATH} is mounted read-only.",
    "EMFILE": "This process may open no more files: it is the limit on descriptors, not the memory.",
    "ENFILE": "The whole machine has no more descriptors.",
    "ENOMEM": "The kernel has no memory left for it.",
}
"""What the error means; the same phrase can have several causes, the number has one."""

NOT_THE_MACHINES = ("ImportError", "ModuleNotFoundError")
"""This Python was built without these pieces: the machine was not even asked."""


def shm_usable(use: SharedMemoryUse, shm: SharedMemory | Unavailable, plan: LoaderPlan) -> Verdict:
    """Shared memory and locks can be made

    ## What it checks
    Whether the job's Python can make a segment of shared memory, reserve 4 MiB for it, write and remove it, and make a lock of
    multiprocessing. It is really done, in a process of its own, and undone at once.

    ## Why it matters
    A DataLoader with workers begins with locks and hands every batch over in shared memory. Where /dev/shm is missing, full,
    forbidden or of the wrong kind, it ends with "No space left on device", "Function not implemented", "Permission denied" or a
    bus error, and the text seldom names the cause.

    ## How it decides
    What is refused fails, and the error's number says why. Without workers and with one rank it is a note. A /dev/shm that works
    and lies on a disk warns. Mounted `noexec`, as Docker does, it is fine: nobody runs programs from there.

    For example, with a /dev/shm of 1 MiB the reservation ends in ENOSPC: it fails.

    ## How to fix
    Give the container a /dev/shm of its own, or make the one that is there writable for all (`chmod 1777`).

    ## Known limits
    That 4 MiB can be had does not mean that all batches fit: shm-size judges that.

    ## References
    pytorch/pytorch#5247, python/cpython#93253, docker/cli#2795, nix-community/nix-on-droid#138, moby/moby#6758
    """
    if use.ended.how in ("hung", "unstartable") or (use.ended.how == "exited" and use.ended.step is None):
        return Verdict.unknown(f"trying shared memory: the job's Python {use.ended.in_words}")
    refused = [refusal for refusal in (use.segment, use.lock) if refusal]
    built_without = [refusal for refusal in refused if refusal.code in NOT_THE_MACHINES]
    if built_without:
        return Verdict.unknown(f"the job's Python cannot try it: {built_without[0].in_words}")
    if use.ended.how != "answered":
        return Verdict(f"trying it {use.ended.in_words}", [died(use, plan)])
    if refused:
        return Verdict("; ".join(refusal.in_words for refusal in refused), [no(refused, use.tried_bytes, plan)])
    seen = f"a segment of {binary_size(use.tried_bytes)} and a lock of multiprocessing were made, used and removed"
    return Verdict(seen, on_a_disk(shm))


def needed(plan: LoaderPlan) -> bool:
    return plan.num_workers != 0 or plan.ranks > 1


def no(refused: list[Refusal], tried_bytes: int, plan: LoaderPlan) -> Finding:
    first = refused[0]
    what = "Neither shared memory nor a lock" if len(refused) > 1 else f"No {'lock' if 'lock' in first.step else 'shared memory'}"
    return Finding(
        level="fail" if needed(plan) else "note",
        subject=PATH,
        summary=f"{what} can be made here: {first.error} ({first.code})"
        if first.code != "ENOSPC" or "lock" in first.step
        else f"Not even a segment of {binary_size(tried_bytes)} can be made here: {first.error} (ENOSPC)",
        why=f"It was refused at: {first.step}. {CAUSES.get(first.code, '')} A DataLoader with workers ends there.",
        fixes=remedies(first.code),
        explained_by="fd-limit" if first.code == "EMFILE" else None if first.code in ("EACCES", "EPERM") else "shm-size",
    )


def died(use: SharedMemoryUse, plan: LoaderPlan) -> Finding:
    return Finding(
        level="fail" if needed(plan) else "note",
        subject=PATH,
        summary=f"Using shared memory, the job's Python {use.ended.in_words}",
        why="A DataLoader's worker does the same with every batch.",
        fixes=remedies("ENOSPC") if use.ended.signal == "SIGBUS" else (),
    )


def remedies(code: str) -> tuple[Fix, ...]:
    if code in ("EMFILE", "ENFILE", "ENOMEM"):
        return ()
    if code in ("EACCES", "EROFS"):
        return (Fix("Make it writable for all", (f"mount -o remount,rw,mode=1777 {PATH}",), risk="needs-root"),)
    return (
        *for_containers(
            "Start the container with a shared memory of its own",
            run="--shm-size=1g",
            compose=("shm_size: 1gb",),
            kubernetes=(
                "volumes: [{name: shm, emptyDir: {medium: Memory}}]",
                "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
            ),
            note="And never --ipc=none.",
        ),
        Fix(
            "Mount it, or have the admin do so",
            (f"mkdir -p {PATH} && mount -t tmpfs -o mode=1777 shm {PATH}",),
            runtimes=("bare", "slurm", "apptainer", "enroot", "container", "lxc"),
            risk="needs-root",
        ),
    )


def on_a_disk(shm: SharedMemory | Unavailable) -> list[Finding]:
    if isinstance(shm, Unavailable) or shm.filesystem in IN_MEMORY:
        return []
    return [
        Finding(
            level="warn",
            subject=PATH,
            summary=f"{PATH} is no memory: it lies on {shm.filesystem}",
            why="Every batch is written to a disk, and C libraries before glibc 2.34 refuse to use it (ENOSYS).",
            fixes=remedies("ENOSYS"),
        )
    ]


CHECK = Check(shm_usable, essential=True)
