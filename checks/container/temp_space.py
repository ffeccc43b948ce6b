from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, Mounts, TempSpace
from dl_doctor.facts.filesystems import KINDS
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict

LONGEST_BYTES = 75
"""Of the folder's path: a socket's path has room for 107 bytes (unix(7)), and multiprocessing adds 32 of its own."""

FAR_AWAY = ("network", "host")


def temp_space(temp: TempSpace, mounts: Mounts | Unavailable, plan: LoaderPlan) -> Verdict:
    """Temporary files and sockets can be made

    ## What it checks
    In which folder the job's Python puts temporary files (TMPDIR, or /tmp), and whether multiprocessing can make its folder there
    and listen on a socket in it. It is really done, and undone at once.

    ## Why it matters
    Without such a folder many libraries end while they are imported ("No usable temporary directory"). Workers hand tensors over
    through sockets there: where the path is too long they end with "AF_UNIX path too long".

    ## How it decides
    No folder that can be written to fails, and so does a socket that cannot be made there (without workers it is a note). A
    folder on a network warns, because workers leave tracebacks about `.nfs` files when they end. A TMPDIR that cannot be used is
    a note, and so is `noexec`, which only matters where code is compiled and loaded.

    For example, a folder of 76 bytes is one too long for Python 3.11 and fails; one of 75 passes.

    ## How to fix
    Point TMPDIR at a folder of this node with a short name: `export TMPDIR=/tmp`.

    ## Known limits
    How much the job will put there is not known; disk-space tells what is free.

    ## References
    huggingface/open-r1#488, python/cpython#93852, riga/law#184, pytorch/pytorch#143471, pytorch/pytorch#91005
    """
    if temp.ended.how == "stuck" or (temp.ended.how == "hung" and temp.ended.step):
        return Verdict(f"looking for it {temp.ended.in_words}", [silent(temp)])
    if temp.ended.how != "answered":
        return Verdict.unknown(f"the job's Python {temp.ended.in_words}")
    passed_over = "; ".join(refusal.in_words for refusal in temp.passed_over)
    if temp.path is None:
        return Verdict(f"none can be written to: {passed_over}", [none_usable(passed_over)])
    mount = mounts.containing(temp.real_path or temp.path) if isinstance(mounts, Mounts) else None
    seen = f"{temp.path}{f' on {mount.filesystem}' if mount else ''}"
    if temp.refusal:
        return Verdict(f"{seen}; {temp.refusal.in_words}", [*fallen_back(temp), no_socket(temp, plan)])
    far = far_away(temp.path, mount.filesystem) if mount and KINDS.get(mount.filesystem) in FAR_AWAY else []
    return Verdict(f"{seen}: multiprocessing listened on a socket there", [*fallen_back(temp), *far, *not_executable(temp)])


def silent(temp: TempSpace) -> Finding:
    return Finding(
        level="fail",
        subject="TMPDIR",
        summary=f"The folder for temporary files does not answer: a process that tried it {temp.ended.in_words}",
        why="Every Python program looks for it, and will hang there as well.",
        fixes=shorter(),
        explained_by="mount-responds",
    )


def none_usable(passed_over: str) -> Finding:
    return Finding(
        level="fail",
        subject="TMPDIR",
        summary="There is no folder for temporary files",
        why=f'Importing many libraries ends in "No usable temporary directory found". Tried: {passed_over}.',
        fixes=(
            Fix("Point TMPDIR at a folder that can be written to", ("export TMPDIR=...",)),
            *for_containers(
                "Give the container one",
                run="--tmpfs /tmp",
                compose=("tmpfs: /tmp",),
                kubernetes=("volumes: [{name: tmp, emptyDir: {}}]", "volumeMounts: [{name: tmp, mountPath: /tmp}]"),
            ),
        ),
    )


def no_socket(temp: TempSpace, plan: LoaderPlan) -> Finding:
    length = temp.path_bytes or 0
    too_long = length > LONGEST_BYTES
    error = temp.refusal.in_words if temp.refusal else ""
    return Finding(
        level="note" if plan.num_workers == 0 else "fail",
        subject=temp.path or "",
        summary=f"No socket can be made in {temp.path}{': the path is too long' if too_long else ''}",
        measured=Quantity(length, "bytes", "the folder's path") if too_long else None,
        expected=Quantity(LONGEST_BYTES, "bytes", "of the 107 of a socket's path, 32 are taken") if too_long else None,
        relation="at_most" if too_long else None,
        why=f"{error}. Workers that share tensors, managers and forkserver end there.",
        fixes=shorter(),
    )


def shorter() -> tuple[Fix, ...]:
    return (Fix("Use a folder of this node with a short name", ("export TMPDIR=/tmp",)),)


def fallen_back(temp: TempSpace) -> list[Finding]:
    """Where a folder was named, and another one is used without a word."""
    if not temp.passed_over:
        return []
    first = temp.passed_over[0]
    return [
        Finding(
            level="note",
            subject=temp.path or "",
            summary=f"Temporary files go to {temp.path}: {first.step} cannot be used, {first.error} ({first.code})",
            why="Python goes on to the next folder without a word.",
        )
    ]


def far_away(path: str, filesystem: str) -> list[Finding]:
    return [
        Finding(
            level="warn",
            subject=path,
            summary=f"Temporary files go to {path}, which is on {filesystem}",
            why='Workers then end with tracebacks about "Device or resource busy" and `.nfs` files; the training goes on.',
            fixes=(Fix("Use a folder of this node's own", ("export TMPDIR=/tmp",)),),
        )
    ]


def not_executable(temp: TempSpace) -> list[Finding]:
    if not temp.no_exec:
        return []
    return [
        Finding(
            level="note",
            subject=temp.path or "",
            summary=f"{temp.path} is mounted noexec: what torch.compile or an extension builds there cannot be loaded",
            why='It ends in "failed to map segment from shared object". Without compiled code it does not matter.',
            fixes=(Fix("Where code is compiled, use another folder for it", ("export TORCHINDUCTOR_CACHE_DIR=...",)),),
        )
    ]


CHECK = Check(temp_space)
