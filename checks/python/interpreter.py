import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import InterpreterBuild, Target, TorchFiles
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict

NEEDED = {
    "_ctypes": "torch imports ctypes first of all; this Python was built without libffi's headers.",
    "_multiprocessing": "Workers are started with it, and it needs semaphores; this Python was built where there were none.",
    "_posixshmem": "multiprocessing.shared_memory needs it; this Python was built without shm_open.",
}
"""Modules without which no DataLoader with workers runs, and why they lack."""

OFTEN_WANTED = {
    "_bz2": "torchvision.datasets imports bz2",
    "_lzma": "torchvision.datasets and pandas import lzma",
}
"""Modules that some jobs want."""

HEADERS = "apt-get install libffi-dev libbz2-dev liblzma-dev"
"""Debian's names for what a Python that is built from source needs here."""


def interpreter(build: InterpreterBuild, target: Target, torch: TorchFiles | Unavailable) -> Verdict:
    """The job's Python starts and is complete

    ## What it checks
    Whether the examined Python starts, whether the modules that a build can lack are there (ctypes, semaphores, shared memory),
    and whether its C library is the one that PyTorch was built for.

    ## Why it matters
    A Python that was built where headers were missing works until the first worker starts. PyTorch's wheels are built for glibc:
    on Alpine and other systems with musl none of them can be loaded, although pip may have installed one.

    ## How it decides
    A Python that does not start fails, and so do missing ctypes, semaphores or shared memory, and a PyTorch linked against glibc
    in a process with musl. A glibc older than the one the wheel's tag names warns. Missing bz2 or lzma is a note.

    For example, `pyenv install` on a machine without libffi-dev gives a Python without ctypes: it fails.

    ## How to fix
    Use a Python from your distribution, conda or uv, or install the headers and build again. Use an image with glibc.

    ## Known limits
    Modules are imported, not used: what breaks only in use is not seen here.

    ## References
    PEP 600 (manylinux), PEP 656 (musllinux), pytorch/pytorch#102592, python/cpython#93253
    """
    if build.ended.how == "hung":
        return Verdict.unknown(f"{target.path} {build.ended.in_words}")
    if build.ended.how == "raised" or (build.ended.how == "exited" and "Traceback" in build.ended.output_tail):
        return Verdict.unknown(f"the look at {target.path} {build.ended.in_words}")
    if build.version is None:
        return Verdict(f"{target.path} {build.ended.in_words}", [does_not_start(build, target)])
    libc = f"{build.libc or 'unknown C library'} {build.libc_version or ''}".strip()
    method = f", workers by {build.start_methods[0]}" if build.start_methods else ""
    seen = f"{build.implementation} {build.version} ({build.kind}, {target.why}), {libc}{method}"
    return Verdict(seen, [*incomplete(build), *of_another_libc(build, torch)])


def does_not_start(build: InterpreterBuild, target: Target) -> Finding:
    printed = build.ended.output_tail.strip()[-500:]
    return Finding(
        level="fail",
        subject=target.path,
        summary=f"The job's Python {build.ended.in_words}",
        why=printed or "Nothing that is written in Python runs there.",
        fixes=(
            Fix(
                "Make the environment anew, with a Python that is there",
                (f"python3 -m venv --clear {shlex.quote(folder(target))}",),
                risk="disruptive",
                note="It removes what is installed there.",
            )
            if target.why.startswith("from VIRTUAL_ENV")
            else Fix("Name another interpreter", ("dl-doctor check --python PATH",)),
        ),
    )


def folder(target: Target) -> str:
    return target.path.removesuffix("/bin/python")


def incomplete(build: InterpreterBuild) -> list[Finding]:
    findings = []
    for missing in build.missing:
        needed = missing.module in NEEDED
        findings.append(
            Finding(
                level="fail" if needed else "note",
                subject=missing.module,
                summary=f"This Python lacks {missing.module}: {missing.error}",
                why=NEEDED.get(missing.module) or f"{OFTEN_WANTED.get(missing.module, 'Some packages import it')}.",
                fixes=(
                    Fix("Install the headers and build Python again", (HEADERS, f"pyenv install --force {build.version}")),
                    Fix("Or use a Python that is complete", (f"uv venv --python {build.version}",)),
                ),
            )
        )
    return findings


def of_another_libc(build: InterpreterBuild, torch: TorchFiles | Unavailable) -> list[Finding]:
    if isinstance(torch, Unavailable):
        return []
    if build.libc == "musl" and torch.links_glibc:
        return [
            Finding(
                level="fail",
                subject="torch",
                summary="PyTorch is built for glibc, and this system has musl",
                why="Its libraries ask for symbols that musl does not have. gcompat has too few of them.",
                fixes=(Fix("Use an image with glibc", ("FROM python:3.12-slim",), note="Instead of python:3.12-alpine."),),
            )
        ]
    here, wanted = number(build.libc_version), number(torch.glibc_wanted)
    if build.libc != "glibc" or here is None or wanted is None or here >= wanted:
        return []
    return [
        Finding(
            level="warn",
            subject="torch",
            summary=f"PyTorch's wheel is for glibc {torch.glibc_wanted} or newer, and this system has {build.libc_version}",
            measured=Quantity(here[1], "glibc 2.x", "confstr(CS_GNU_LIBC_VERSION)"),
            expected=Quantity(wanted[1], "glibc 2.x", "the wheel's manylinux tag"),
            relation="at_least",
            why="It was installed on a newer system. Importing it will end in `GLIBC_... not found` where it uses what is new.",
            fixes=(Fix("Run in a container with a newer system, or install an older PyTorch on this one"),),
        )
    ]


def number(version: str | None) -> tuple[int, int] | None:
    """(2, 28)."""
    major, _, minor = (version or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


CHECK = Check(interpreter)
