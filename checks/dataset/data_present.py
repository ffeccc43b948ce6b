import posixpath
import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Verdict
from dl_doctor.units import count


def data_present(data_paths: DataPaths) -> Verdict:
    """The training data is there

    ## What it checks
    Every path of `--data`: whether it exists, whether there are files with anything in them below it, and whether the smallest
    of the files that are met first can be read and are data.

    ## Why it matters
    A volume that is not mounted is an empty folder, and a clone without git-lfs has a text file of three lines in place of each
    large file. The job finds that out after it was given its GPUs, and says "FileNotFoundError" or "cannot identify image file".

    ## How it decides
    A path that does not exist, that has nothing in it, or a file that may not be read fails, and so does a file that begins as
    the pointers of git-lfs or git-xet do. A folder of which not all could be looked at in half a second is not called empty.

    For example, `--data /data` fails where /data is the folder of the image on which nothing was mounted.

    ## How to fix
    Mount the data into the container, correct the path, or run `git lfs pull`.

    ## Known limits
    At most 100 files are looked at, and 3 of them read. Whether the data is complete is not known.

    ## References
    git-lfs/git-lfs#4240, git-lfs/git-lfs#4830
    """
    data = data_paths.of("data")
    if not data:
        return Verdict.skip("no path was named with --data")
    silent = [entry for entry in data if entry.ended.how != "answered"]
    findings = [finding for entry in data for finding in missing(entry)]
    if silent and not findings:
        return Verdict.unknown(f"{silent[0].path}: a process that looked at it {silent[0].ended.in_words}")
    return Verdict("; ".join(map(told, data)), findings)


def told(entry: DataPath) -> str:
    if entry.files_seen is None:
        return f"{entry.path}: nothing was seen"
    return f"{entry.path}: {count(entry.files_seen, 'file')} seen, the smallest of them read"


def missing(entry: DataPath) -> list[Finding]:
    """What is wrong with one path; at most one thing."""
    if entry.exists is False:
        above = f" {entry.real_path} is the nearest folder above it that does." if entry.real_path else ""
        return [
            wrong(
                entry, f"{entry.path} does not exist", f"The path is mistyped, or nothing is mounted there.{above}", bind(entry)
            )
        ]
    if entry.refusal or entry.read_refusal:
        refusal = (entry.refusal or entry.read_refusal).in_words  # type: ignore[union-attr]
        return [
            wrong(entry, f"{entry.path} cannot be read: {refusal}", "The job would be refused in the same way.", rights(entry))
        ]
    if entry.empty:
        why = "An empty folder is what is seen where a volume was not mounted, or a download was cut short."
        return [wrong(entry, f"{entry.path} is empty", why, bind(entry))]
    if entry.pointer:
        why = "It was cloned without git-lfs: each large file is a text of three lines that says where its content is."
        return [wrong(entry, f"{entry.pointer} is a pointer, and not the data it stands for", why, pull(entry.pointer))]
    return []


def wrong(entry: DataPath, summary: str, why: str, fixes: tuple[Fix, ...]) -> Finding:
    return Finding(level="fail", subject=entry.path, summary=summary, why=why, fixes=fixes)


def bind(entry: DataPath) -> tuple[Fix, ...]:
    here = shlex.quote(entry.path)
    return (
        *for_containers(
            "Mount the folder that holds it",
            run=f"-v /where/it/is:{here}:ro",
            compose=(f"volumes: [/where/it/is:{entry.path}:ro]",),
            kubernetes=(
                "volumes: [{name: data, persistentVolumeClaim: {claimName: ...}}]",
                f"volumeMounts: [{{name: data, mountPath: {entry.path}}}]",
            ),
        ),
        Fix("Bind it into the container", (f"apptainer exec --bind /where/it/is:{here} ...",), ("apptainer",)),
        Fix("See what is there", (f"findmnt -T {here}; ls -l {here}",), ("bare", "slurm", "container")),
    )


def rights(entry: DataPath) -> tuple[Fix, ...]:
    return (Fix("See who may read it", (f"namei -l {shlex.quote(entry.path)}", "id")),)


def pull(pointer: str) -> tuple[Fix, ...]:
    folder = shlex.quote(posixpath.dirname(pointer) or ".")
    if_lfs = f"git -C {folder} lfs install && git -C {folder} lfs pull"
    return (Fix("Fetch the data", (if_lfs,), note="Where git-lfs is installed; of git-xet: git xet."),)


CHECK = Check(data_present)
