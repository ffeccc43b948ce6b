import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, Environment
from dl_doctor.facts.data_paths import HOME_CACHE, ONLY_LOOKED_AT, DataPath
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Level, Verdict

NO_RIGHT = ("EACCES", "EPERM", "EROFS")
"""The job may be meant not to write there: it can write elsewhere."""

WORDS = {
    "EACCES": "This user may not write there.",
    "EPERM": "Writing there is forbidden to this user.",
    "EROFS": "It is mounted read-only. If it was not, the kernel may have made it so after errors of the disk: dmesg tells.",
    "EDQUOT": "The quota of this user or group is used up, whatever room the disk has.",
    "ENOSPC": "The disk is full.",
    "EIO": "The disk gives errors.",
    "ESTALE": "The server has forgotten the folder that is mounted here.",
    "EFBIG": "A file may not become that large here (ulimit -f).",
    "ENOENT": "The folder and those above it cannot be made.",
}


def path_writable(data_paths: DataPaths, environment: Environment) -> Verdict:
    """Files can be written where the job writes

    ## What it checks
    A file of 4 MiB is really written, synchronized and removed in the working directory, in the folder for temporary files, and
    in the folders that HF_HOME, TORCH_HOME, XDG_CACHE_HOME, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR and SLURM_TMPDIR name.

    ## Why it matters
    Checkpoints and logs go to the working directory unless told otherwise. A quota that is used up, a disk with errors or a
    folder of another user's ends the job at its first checkpoint.

    ## How it decides
    By the error's number. A place that takes a file and not its contents (quota, full disk, errors) fails. A place that this user
    may not write to at all, or that is mounted read-only, warns, because the job may be meant to write elsewhere; of HF_HOME with
    HF_HUB_OFFLINE it is a note.

    For example, a working directory in a home whose quota is used up fails; `/app` of an image that belongs to root warns.

    ## How to fix
    Free some of the quota, change to a folder of yours, or point the variable at one.

    ## Known limits
    Where your program writes its checkpoints is not known. Less than 4 MiB is written where little is free.

    ## References
    write(2), fsync(2), quota(1)
    """
    judged = [entry for entry in data_paths.entries if entry.role not in ONLY_LOOKED_AT and entry.said_by != HOME_CACHE]
    tried = [entry for entry in judged if entry.written or entry.write_refusal]
    silent = [entry for entry in judged if entry.ended.step and entry.ended.how in ("hung", "stuck")]
    if not tried:
        return Verdict.skip("no path answered: see mount-responds")
    offline = environment.get("HF_HUB_OFFLINE") in ("1", "true", "TRUE", "yes", "YES", "on", "ON")
    findings = [refused(entry, offline=offline) for entry in tried if entry.write_refusal and not passed_over(entry)]
    if silent and not any(finding.level == "fail" for finding in findings):
        return Verdict.unknown(f"{silent[0].path}: a process that tried it {silent[0].ended.in_words}")
    return Verdict("; ".join(map(told, tried)), findings)


def passed_over(entry: DataPath) -> bool:
    """Python goes on to another folder for temporary files: temp-space judges what it ends with."""
    return entry.role == "temporary" and entry.write_refusal is not None and entry.write_refusal.code in (*NO_RIGHT, "ENOENT")


def told(entry: DataPath) -> str:
    return f"{entry.path}: {entry.write_refusal.in_words if entry.write_refusal else 'written and removed'}"


def level_of(entry: DataPath, code: str, *, offline: bool) -> Level:
    if code not in NO_RIGHT:
        return "fail"
    return "note" if offline and entry.said_by == "HF_HOME" else "warn"


def refused(entry: DataPath, *, offline: bool) -> Finding:
    refusal = entry.write_refusal
    code, error, step = (refusal.code, refusal.error, refusal.step) if refusal else ("", "", "")
    return Finding(
        level=level_of(entry, code, offline=offline),
        subject=entry.path,
        summary=f"{entry.path} cannot be written to: {error} ({code})",
        why=f"{WORDS.get(code, '')} It is {entry.said_by}; refused at: {step}.".strip(),
        owner="admin" if code == "EIO" else "you",
        fixes=remedies(entry, code),
        explained_by="disk-space" if code == "ENOSPC" else None,
    )


def remedies(entry: DataPath, code: str) -> tuple[Fix, ...]:
    if code == "EDQUOT":
        return (
            Fix(
                "See your quota, and what takes it",
                ("quota -s", f"du -xh --max-depth=2 {shlex.quote(entry.path)} | sort -h | tail"),
            ),
        )
    if code not in NO_RIGHT:
        return ()
    if entry.role == "working":
        return (
            Fix("Start the job in a folder that it may write to", ("cd ...",), runtimes=("bare", "slurm", "apptainer", "enroot")),
            *for_containers(
                "Mount a folder for what the job writes, and start it there",
                run='-v "$PWD/outputs:/outputs" -w /outputs',
                compose=("volumes: [./outputs:/outputs]", "working_dir: /outputs"),
                kubernetes=(
                    "volumes: [{name: outputs, emptyDir: {}}]",
                    "volumeMounts: [{name: outputs, mountPath: /outputs}]",
                    "workingDir: /outputs",
                ),
            ),
        )
    return (Fix("Point the variable at a folder that can be written to", (f"export {entry.said_by}=...",)),)


CHECK = Check(path_writable)
