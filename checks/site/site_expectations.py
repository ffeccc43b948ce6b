import re

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, Expectation, Nvml
from dl_doctor.facts.data_paths import DataPath
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size, count

NUMBER = re.compile(r"[0-9]+", re.ASCII)


def site_expectations(expectation: Expectation, nvml: Nvml | Unavailable, data_paths: DataPaths) -> Verdict:
    """The node is as its site expects it

    ## What it checks
    The model of the GPUs, the driver's version and the free space of paths against `[expect]` in a settings file. How many GPUs
    there are is gpu-visible's: it also tells where they are lost.

    ## Why it matters
    Whoever runs a cluster knows what a node has when it is well. A node that came back from repair with another driver, or whose
    scratch disk is full, should be found before a job is.

    ## How it decides
    A GPU whose name does not contain the model, an older driver, or less room than expected fails. What cannot be looked at
    because there is no GPU to ask is told as such, not passed.

    For example, `driver = "550.54.15"` passes with 570.86.10 and fails with 535.183.01.

    ## How to fix
    Mend the node, or if it is the file that is wrong, correct it: `dl-doctor snapshot` writes what is there today.

    ## Known limits
    A newer driver than expected passes. What a job is granted of a node is not judged by this.

    ## References
    README: Settings files
    """
    if expectation.gpu_model is None and expectation.driver is None and not expectation.free_bytes:
        return Verdict.skip("[expect] says only how many GPUs there are: see gpu-visible")
    findings = [*of_gpus(expectation, nvml), *of_room(expectation, data_paths)]
    unseen = next(iter([*unseen_gpus(expectation, nvml), *unseen_paths(expectation, data_paths)]), None)
    if unseen and not findings:
        return Verdict.unknown(unseen)
    return Verdict("; ".join([*(told_gpus(nvml)), *map(told, data_paths.of("expected"))]), findings)


def unseen_gpus(expectation: Expectation, nvml: Nvml | Unavailable) -> list[str]:
    if expectation.gpu_model is None and expectation.driver is None:
        return []
    if isinstance(nvml, Unavailable) or not nvml.gpus:
        return ["[expect] says what GPUs and driver there are, and no GPU can be asked: see gpu-visible"]
    return []


def unseen_paths(expectation: Expectation, data_paths: DataPaths) -> list[str]:
    answered = {entry.path for entry in data_paths.of("expected") if entry.free_bytes is not None}
    return [f"{path} in [expect] did not answer: see mount-responds" for path in expectation.free_bytes if path not in answered]


def told_gpus(nvml: Nvml | Unavailable) -> list[str]:
    return [] if isinstance(nvml, Unavailable) else [f"{count(len(nvml.gpus), 'GPU')}, driver {nvml.driver_version or 'unknown'}"]


def told(entry: DataPath) -> str:
    return f"{entry.path} is not there" if entry.exists is False else f"{entry.path}: {binary_size(entry.free_bytes or 0)} free"


def of_gpus(expectation: Expectation, nvml: Nvml | Unavailable) -> list[Finding]:
    if isinstance(nvml, Unavailable):
        return []
    model, driver = (expectation.gpu_model or "").casefold(), expectation.driver
    findings = [
        other(f"gpu:{gpu.index}", f"GPU {gpu.index} is {gpu.name}, and the site expects {expectation.gpu_model}")
        for gpu in nvml.gpus
        if gpu.name is not None and model not in gpu.name.casefold()
    ]
    if driver is not None and nvml.driver_version is not None and numbers(nvml.driver_version) < numbers(driver):
        findings.append(other("driver", f"The driver is {nvml.driver_version}, and the site expects {driver} or newer"))
    return findings


def other(subject: str, summary: str) -> Finding:
    return Finding(
        level="fail",
        subject=subject,
        summary=summary,
        why="Jobs of this site are made for nodes that are alike.",
        owner="admin",
        fixes=(Fix("Mend the node; or correct [expect], if it is that which is out of date", ("dl-doctor snapshot",)),),
    )


def of_room(expectation: Expectation, data_paths: DataPaths) -> list[Finding]:
    findings = []
    for entry in data_paths.of("expected"):
        wanted = expectation.free_bytes.get(entry.path, 0)
        free = 0 if entry.exists is False else entry.free_bytes
        if free is not None and free < wanted:
            findings.append(full(entry, free, wanted))
    return findings


def full(entry: DataPath, free: int, wanted: int) -> Finding:
    there = "is not there" if entry.exists is False else f"has {binary_size(free)} free"
    return Finding(
        level="fail",
        subject=entry.path,
        summary=f"{entry.path} {there}, and the site expects {binary_size(wanted)}",
        measured=Quantity(free, "bytes", f"statvfs {entry.path}"),
        expected=Quantity(wanted, "bytes", "[expect]"),
        relation="at_least",
        why="Jobs count on this room.",
        owner="admin",
        fixes=(Fix("Remove what earlier jobs left there, or mount what is missing"),),
    )


def numbers(version: str) -> list[int]:
    return [int(number) for number in NUMBER.findall(version)]


CHECK = Check(site_expectations, scope="node")
