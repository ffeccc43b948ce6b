import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, Disks
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.facts.disks import Place
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import plain

SLOW_S = 1.0
"""For stat and statvfs together; a healthy network filesystem takes milliseconds. Proposal."""

GONE = {
    "ESTALE": "The server has forgotten the folder that is mounted here (a stale handle): it has to be mounted anew.",
    "ENOTCONN": "The program that serves this mount has ended, and the mount was left behind.",
    "EIO": "The disk, or the program that serves this mount, gives errors.",
    "ETIMEDOUT": "The server does not answer.",
    "EHOSTDOWN": "The server is down.",
    "ENODEV": "The device behind it is gone.",
    "ENXIO": "The device behind it is gone.",
    "EREMOTEIO": "The server gives errors.",
    "ESHUTDOWN": "The filesystem was shut down after errors.",
    "EUCLEAN": "The filesystem is damaged and has to be checked.",
}
"""Errors of a mount that is not what it should be, as against those of a path."""


def mount_responds(data_paths: DataPaths, disks: Disks | Unavailable) -> Verdict:
    """The paths of this job answer

    ## What it checks
    Whether `--data`, the working directory, the folder for temporary files, caches and scratch answer to a first look, each
    in a process of its own, so that one that does not answer stops nobody.

    ## Why it matters
    A network filesystem whose server is gone stops every process that touches it, at once and for good: not even `kill -9` ends
    it. The job then hangs without a word, and so does `ls`.

    ## How it decides
    No answer within 15 s (5 s with `--profile quick`) fails, and so does a mount whose server has forgotten it or whose program
    has ended. More than 1 s warns. A path of `--data` that does not exist fails; one that this user may not enter warns.

    For example, an NFS folder whose server was switched off fails, with the number and the wait channel of the stuck process.

    ## How to fix
    Have the mount's server or program brought back, or mount it anew. Processes that are stuck end only then.

    ## Known limits
    A mount can answer now and stop later. Only this job's own paths are looked at.

    ## References
    leptonai/gpud (NFS and mount checks), kernel.org: nfs(5) hard and soft mounts, fuse(8)
    """
    findings = [finding for entry in data_paths.entries for finding in judge(entry, place_of(entry, disks))]
    unknown = [entry for entry in data_paths.entries if not answered(entry) and not touched(entry)]
    if unknown and not any(finding.level == "fail" for finding in findings):
        return Verdict.unknown(f"looking at {unknown[0].path}: the doctor's own Python {unknown[0].ended.in_words}")
    return Verdict("; ".join(f"{entry.path} {told(entry)}" for entry in data_paths.entries), findings)


def answered(entry: DataPath) -> bool:
    return entry.ended.how == "answered"


def touched(entry: DataPath) -> bool:
    """Whether the path was what the process did not come back from; before its first step it had not even begun."""
    return entry.ended.how in ("hung", "stuck") and entry.ended.step is not None


def told(entry: DataPath) -> str:
    if not answered(entry):
        return entry.ended.in_words
    if entry.refusal:
        return f"cannot be looked at ({entry.refusal.code})"
    absent = "does not exist; the folder above it " if entry.exists is False else ""
    return f"{absent}answered in {plain(1000 * (entry.latency_s or 0))} ms"


def place_of(entry: DataPath, disks: Disks | Unavailable) -> Place | None:
    return disks.of(entry.path) if isinstance(disks, Disks) else None


def judge(entry: DataPath, place: Place | None) -> list[Finding]:
    mount = f" ({place.filesystem} from {place.source})" if place else ""
    if touched(entry):
        return [silent(entry, mount, place.mount_point if place else entry.path)]
    if not answered(entry):
        return []
    if entry.exists is False and entry.role == "data":
        return [absent(entry)]
    if entry.refusal:
        return [refused(entry, mount)]
    if entry.latency_s is not None and entry.latency_s > SLOW_S:
        return [slow(entry, entry.latency_s, mount)]
    return []


def silent(entry: DataPath, mount: str, mount_point: str) -> Finding:
    return Finding(
        level="fail",
        subject=entry.path,
        summary=f"{entry.path}{mount} does not answer: a process that touched it {entry.ended.in_words}",
        why=f"The job will hang there as well ({entry.said_by}).",
        owner="admin",
        fixes=(
            Fix(
                "Have its server, or the program that serves it, brought back; or mount it anew",
                (f"umount -l {shlex.quote(mount_point)}",),
                risk="needs-root",
                note="A lazy unmount only hides it: what is stuck stays until it answers.",
            ),
        ),
    )


def absent(entry: DataPath) -> Finding:
    path = shlex.quote(entry.path)
    volume = shlex.quote(f"{entry.path}:{entry.path}:ro")
    return Finding(
        level="fail",
        subject=entry.path,
        summary=f"{entry.path} does not exist here",
        why="It was named with --data. In a container, what is not mounted into it is not there.",
        fixes=(
            Fix("Mount it into the container", (f"docker run -v {volume} ...",), runtimes=("docker",)),
            Fix("Mount it into the container", (f"podman run -v {volume} ...",), runtimes=("podman",)),
            Fix("Bind it", (f"apptainer exec --bind {path} ...",), runtimes=("apptainer",)),
        ),
    )


def refused(entry: DataPath, mount: str) -> Finding:
    code = entry.refusal.code if entry.refusal else ""
    return Finding(
        level="fail" if code in GONE else "warn",
        subject=entry.path,
        summary=f"{entry.path}{mount} cannot be looked at: {entry.refusal.error if entry.refusal else ''} ({code})",
        why=f"{GONE.get(code, 'The job runs as the same user and will not get further.')} It is needed as {entry.said_by}.",
        owner="admin" if code in GONE else "you",
    )


def slow(entry: DataPath, latency_s: float, mount: str) -> Finding:
    return Finding(
        level="warn",
        subject=entry.path,
        summary=f"{entry.path}{mount} took {plain(latency_s)} s to answer",
        measured=Quantity(latency_s, "s", "stat and statvfs"),
        expected=Quantity(SLOW_S, "s", "a healthy network filesystem takes milliseconds"),
        relation="at_most",
        why="Each file that is opened waits as long. It may have been the first look after a pause: run it again.",
    )


CHECK = Check(mount_responds, scope="node")
