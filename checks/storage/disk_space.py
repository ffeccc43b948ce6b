import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths
from dl_doctor.facts.data_paths import ONLY_LOOKED_AT, DataPath
from dl_doctor.model import Finding, Fix, Level, Quantity, Verdict
from dl_doctor.units import GIB, binary_size, plain

FULL, NEARLY_FULL = 0.05, 0.10
"""Parts of a filesystem that are free. The kubelet evicts pods at 10 % of the node's; proposals."""

FULL_BYTES, NEARLY_FULL_BYTES = 1 * GIB, 10 * GIB
"""Of a large disk, 5 % can be plenty: both have to be small. A checkpoint of a model of 7 billion parameters takes 14 GB in
half precision, and three times as much with its optimizer. Proposals."""

FULL_FILES, NEARLY_FULL_FILES = 1_000, 10_000
"""Inodes; unpacking one wheel of torch takes some ten thousand. Proposals."""


def disk_space(data_paths: DataPaths) -> Verdict:
    """There is room where the job writes

    ## What it checks
    Free bytes and free inodes where the job writes: the working directory (checkpoints, logs), temporary files, caches, scratch.
    Where `--data` and the paths of `[expect]` lie it is only told.

    ## Why it matters
    A full disk ends a job at its first checkpoint, hours after it began, and a full cache ends a download. A disk can also be
    out of inodes with bytes to spare: datasets of many small files do that.

    ## How it decides
    Less than 5 % free, and less than 1 GiB or 1,000 inodes, fails; less than 10 %, and less than 10 GiB or 10,000 inodes, warns.
    Filesystems that do not count inodes are not judged by them. Data that is only read may lie on a full disk.

    For example, 20 GiB free of 1 TiB are 2 % and pass; 800 MiB free of 100 GiB fail.

    ## How to fix
    Remove old checkpoints and caches, or point the variable that is named at another disk.

    ## Known limits
    What your checkpoints take is not known. A user's quota is often not in these numbers: path-writable meets it.

    ## References
    statvfs(3); kubernetes.io: node-pressure eviction
    """
    looked_at = [entry for entry in data_paths.entries if entry.free_bytes is not None]
    if not looked_at:
        return Verdict.skip("no path answered: see mount-responds")
    found: dict[tuple[int | None, int | None, str], Finding] = {}
    for entry in looked_at:
        for unit, finding in judge(entry):
            found.setdefault((entry.total_bytes, entry.total_files, unit), finding)  # one filesystem is told once
    return Verdict("; ".join(map(told, looked_at)), list(found.values()))


def told(entry: DataPath) -> str:
    files = f" and {entry.free_files:,} inodes" if entry.free_files is not None else ""
    if not entry.total_bytes:
        return f"{entry.path}: a size that is not told"
    return f"{entry.path}: {binary_size(entry.free_bytes or 0)} of {binary_size(entry.total_bytes)}{files} free"


def judge(entry: DataPath) -> list[tuple[str, Finding]]:
    """Of what is only read, or cannot be written to at all, nothing: path-writable tells the latter."""
    if entry.role in ONLY_LOOKED_AT or (entry.write_refusal and entry.write_refusal.code in ("EROFS", "EACCES", "EPERM")):
        return []
    findings = []
    for unit, free, total, full, nearly in (
        ("bytes", entry.free_bytes, entry.total_bytes, FULL_BYTES, NEARLY_FULL_BYTES),
        ("files", entry.free_files, entry.total_files, FULL_FILES, NEARLY_FULL_FILES),
    ):
        if free is None or not total:
            continue
        if free < FULL * total and free < full:
            findings.append((unit, little(entry, "fail", unit, free, total, full)))
        elif free < NEARLY_FULL * total and free < nearly:
            findings.append((unit, little(entry, "warn", unit, free, total, nearly)))
    return findings


def little(entry: DataPath, level: Level, unit: str, free: int, total: int, wanted: int) -> Finding:
    share = f"{plain(100 * free / total)} %"
    left = f"{binary_size(free)} free ({share} of {binary_size(total)})"
    if unit == "files":
        left = f"{free:,} inodes free ({share} of {total:,}), whatever room it has in bytes"
    return Finding(
        level=level,
        subject=entry.path,
        summary=f"The disk of {entry.path} has {left}",
        measured=Quantity(free, unit, f"statvfs {entry.path}"),
        expected=Quantity(wanted, unit, "or a tenth of the disk" if level == "warn" else "or a twentieth of the disk"),
        relation="at_least",
        why=f"It is where the job's {PURPOSE[entry.role]} go ({entry.said_by}). When it is full, a write ends in ENOSPC.",
        fixes=(
            Fix("See what takes it", (f"du -xh --max-depth=2 {shlex.quote(entry.path)} | sort -h | tail",)),
            *elsewhere(entry),
        ),
    )


PURPOSE = {
    "working": "checkpoints and logs",
    "temporary": "temporary files",
    "cache": "downloads",
    "scratch": "staged files",
}


def elsewhere(entry: DataPath) -> tuple[Fix, ...]:
    """Another folder, where a variable names this one."""
    variable = {"temporary": "TMPDIR", "cache": "XDG_CACHE_HOME" if entry.said_by == "HOME" else entry.said_by}.get(entry.role)
    return (Fix("Or use a folder on another disk", (f"export {variable}=...",)),) if variable else ()


CHECK = Check(disk_space)
