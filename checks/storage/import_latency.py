from dl_doctor.contract import Check
from dl_doctor.facts import Mounts, Target, TorchFiles, TorchImport
from dl_doctor.fixes import python
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict

SLOW_S = 10.0
"""Seconds of `import torch` from which on it warns. Proposal: 1.4 s were measured on a local disk,
and 20 s on NFS (stas00/ml-engineering, storage)."""

LOCAL = ("disk", "layers", "memory")
"""Kinds of filesystems from which an import is quick, if nothing else is wrong."""


def import_latency(torch: TorchImport, files: TorchFiles, target: Target, mounts: Mounts | Unavailable) -> Verdict:
    """Importing torch is quick

    ## What it checks
    How long `import torch` takes in a fresh process, and on which filesystem it lies.

    ## Why it matters
    An import is thousands of small files. On a network filesystem it takes many seconds, for each rank, and with spawn or
    forkserver for each worker again; on a whole cluster that starts at once it takes minutes.

    ## How it decides
    More than 10 s warns. From a local disk it is one to three.

    For example, an environment in an NFS home needed 20 s where a copy on the node's own disk needed 2: it warns.

    ## How to fix
    On a network filesystem: put the environment into the image, or onto the node's own disk before the job starts. On a local
    disk `python -X importtime -c 'import torch'` tells what takes the time.

    ## Known limits
    What was imported a moment ago is still in memory, and comes faster than it will on a node that sees it for the first time.
    A busy or throttled CPU makes it slow as well.

    ## References
    stas00/ml-engineering, storage; pytorch/pytorch#153594
    """
    if torch.import_s is None:
        return Verdict.skip(f"torch could not be imported (torch-imports says why): it {torch.ended.in_words}")
    mount = None if isinstance(mounts, Unavailable) else mounts.containing(files.folder)
    place = f"{files.folder}, on {mount.filesystem} ({mount.mount_point})" if mount else files.folder
    seen = f"import torch took {torch.import_s:.1f} s from {place}"
    if torch.import_s <= SLOW_S:
        return Verdict(seen)
    finding = Finding(
        level="warn",
        subject=files.folder,
        summary=f"import torch takes {torch.import_s:.1f} s",
        measured=Quantity(round(torch.import_s, 2), "s", f"one import from {place}"),
        expected=Quantity(SLOW_S, "s", "one to three seconds are usual on a local disk"),
        relation="at_most",
        why="Each rank pays it, and with spawn or forkserver each worker as well, at every start.",
        fixes=from_here(target) if mount and mount.kind in LOCAL else from_nearer(target),
    )
    return Verdict(seen, [finding])


def from_here(target: Target) -> tuple[Fix, ...]:
    """It lies near already: the CPU or a disk that is busy makes it slow, or another package that is imported with it."""
    return (
        Fix(
            "See which import takes the time",
            (f"{python(target)} -X importtime -c 'import torch' 2>&1 | sort -t '|' -k 2 -n | tail",),
            note="If it is quick now, the files had to come from the disk; if not, the CPU is busy or throttled.",
        ),
    )


def from_nearer(target: Target) -> tuple[Fix, ...]:
    return (
        Fix(
            "Copy the environment to the node's own disk first",
            (f'tar -C {prefix(target)} -c . | tar -x -C "$TMPDIR"', '"$TMPDIR/bin/python" train.py'),
            runtimes=("bare", "slurm"),
            note="A venv may be copied like this; for conda use conda-pack.",
        ),
        Fix("Install it into the image instead of a mounted volume", runtimes=("docker", "podman", "compose", "kubernetes")),
        Fix("Put it into one file: an image for apptainer or enroot", runtimes=("slurm", "apptainer", "enroot")),
    )


def prefix(target: Target) -> str:
    return target.path.rpartition("/bin/")[0] or target.path


CHECK = Check(import_latency)
