import re
import shlex
from dataclasses import dataclass

from dl_doctor.contract import Check
from dl_doctor.facts import Environment, Target, TorchFiles, TorchImport
from dl_doctor.fixes import pip_install, python, torch_again
from dl_doctor.model import Ended, Finding, Fix, Unavailable, Verdict

STEPS = ("import torch", "import numpy")
"""Of the probe: what happens there is torch's doing. After them it is our own look at it that went wrong."""

SHOWN = 600
"""Characters of the error's end that are shown with a finding."""


@dataclass(frozen=True)
class Cause:
    """A known reason for which an import fails: what is looked for in how it ended and what it printed, and what mends it."""

    pattern: str
    summary: str
    """May name the pattern's groups, as {0}."""

    why: str
    fixes: tuple[tuple[str, str], ...] = ()
    """Title and command of each; `PYTHON` stands for the interpreter, `INSTALL` for pip's command of it and `TORCH` for the
    build that is there."""

    linked: bool = False
    """Whether a library from LD_LIBRARY_PATH or LD_PRELOAD can be the reason."""

    explained_by: str | None = None
    source: str = ""


REINSTALL = ("Install it anew, with what it needs", "INSTALL --force-reinstall TORCH")

CAUSES = (
    Cause(
        r"__nvJitLink\w+",
        "PyTorch gets a libnvJitLink of another CUDA version",
        "cuSPARSE needs the libnvJitLink of its own release, and an older one was found first.",
        (("Install the one that belongs to it", "INSTALL --force-reinstall TORCH"),),
        linked=True,
        source="pytorch/pytorch#111469, #131312, #134929",
    ),
    Cause(
        r"undefined symbol: iJIT_\w+",
        "PyTorch needs a symbol that Intel's MKL has no more since 2024.1",
        "conda's builds of torch before 2.4 take MKL from the environment.",
        (("Use an older MKL", "conda install 'mkl<2024.1'"),),
        source="pytorch/pytorch#123097",
    ),
    Cause(
        r"undefined symbol: (nccl\w+)",
        "PyTorch gets a libnccl of another version: it lacks {0}",
        "torch is linked against one release of NCCL.",
        (REINSTALL,),
        linked=True,
        explained_by="packages-consistent",
        source="pytorch/pytorch#119932, #186591",
    ),
    Cause(
        r"symbol (\w+),? version \S+ not defined in file (\S+) with link time reference",
        "{1} is of another version than PyTorch needs: it lacks {0}",
        "A library of this name was found that is not the one torch was built with.",
        (REINSTALL,),
        linked=True,
        explained_by="packages-consistent",
        source="zai-org/CogVLM2#207",
    ),
    Cause(
        r"(\S+): undefined symbol: (\w+)",
        "{0} lacks the symbol {1}: two libraries are of different versions",
        "A compiled part was built for another release of what it is linked with.",
        (REINSTALL,),
        linked=True,
        explained_by="packages-consistent",
        source="pytorch/pytorch#131312",
    ),
    Cause(
        r"version [`']((?:GLIBCXX|CXXABI)_[\d.]+)' not found",
        "libstdc++ is too old: it lacks {0}",
        "The C++ library that was found is older than what PyTorch or one of its dependencies was built with.",
        (("In a conda environment, use its own", "conda install -c conda-forge libstdcxx-ng"),),
        linked=True,
        source="pytorch/pytorch#87279, #157709",
    ),
    Cause(
        r"version [`'](GLIBC_[\d.]+)' not found",
        "The system's glibc is too old: it lacks {0}",
        "PyTorch was built for a newer system. glibc cannot be replaced inside a running one.",
        (("Run in a container with a newer system", ""),),
        explained_by="interpreter",
        source="pytorch/pytorch#150724",
    ),
    Cause(
        r"Error (?:relocating|loading shared library) (\S+):",
        "{0} cannot be used with musl",
        "PyTorch's wheels are built for glibc; Alpine and other small systems have musl.",
        (("Use an image with glibc", "FROM python:3.12-slim"),),
        explained_by="interpreter",
        source="pytorch/pytorch#1618, #102592",
    ),
    Cause(
        r"cannot allocate memory in static TLS block",
        "A library finds no room for its thread-local variables",
        "It is not memory that lacks: the loader keeps little room for libraries that come late. The order of imports decides.",
        (
            ("Give it more room", "export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"),
            ("Or import torch before everything else", ""),
        ),
        source="NVIDIA/DALI#5519, dmlc/xgboost#8488",
    ),
    Cause(
        r"(\S+): cannot enable executable stack as shared object requires",
        "{0} asks for an executable stack, and the system does not give one",
        "glibc 2.41 and hardened kernels (W^X, SELinux) refuse it. Newer builds of PyTorch do not ask.",
        (
            ("Install a newer PyTorch", "INSTALL --upgrade torch"),
            ("Or take the flag off the library", "patchelf --clear-execstack {0}"),
        ),
        source="conda-forge/pytorch-cpu-feedstock#350",
    ),
    Cause(
        r"(?s)ctypes.*MemoryError|ffi_closure_alloc|ffi_prep_closure",
        "This system refuses memory that can be written and executed (W^X)",
        "Callbacks of ctypes need it unless libffi was built with static trampolines, and torch uses them.",
        (("Use a Python with libffi 3.4 or newer, or have the rule lifted for it", ""),),
        source="libffi/libffi#568",
    ),
    Cause(
        r"(\S+): failed to map segment from shared object: Operation not permitted",
        "{0} lies on a filesystem that is mounted noexec",
        "Libraries cannot be run from there.",
        (("Move the environment, or have it mounted with exec", ""),),
        source="pytorch/pytorch#91005",
    ),
    Cause(
        r"failed to map segment from shared object: Cannot allocate memory|std::bad_alloc|\bMemoryError\b",
        "There is not enough memory to import it",
        "PyTorch maps gigabytes of libraries: a limit on address space (ulimit -v) is reached long before one on memory.",
        (("Lift the limit on address space", "ulimit -v unlimited"),),
        explained_by="memory-budget",
        source="getrlimit(2), RLIMIT_AS",
    ),
    Cause(
        r"(lib\S+\.so[\w.]*): cannot open shared object file",
        "{0} is missing",
        "A library that PyTorch is linked with is neither in its own folders nor in the system's.",
        (REINSTALL,),
        linked=True,
        explained_by="packages-consistent",
        source="pytorch/pytorch#104259, #165812",
    ),
    Cause(
        r"(\S+): (?:file too short|invalid ELF header|wrong ELF class: \w+)",
        "{0} is damaged, or for another kind of machine",
        "An installation was cut short, the disk was full, or the environment was copied from another architecture.",
        (("Install it anew", "INSTALL --force-reinstall --no-cache-dir TORCH"),),
        explained_by="disk-space",
        source="glibc, elf/dl-load.c",
    ),
    Cause(
        r"OMP: Error #15|already initialized\.?\s+OMP: Hint",
        "Two OpenMP libraries are in one process",
        "Packages from different sources bring one each. KMP_DUPLICATE_LIB_OK=TRUE hides it, and results may be wrong.",
        (("Take NumPy, MKL and torch from one source", "INSTALL --force-reinstall numpy torch"),),
        source="pytorch/pytorch#13806",
    ),
    Cause(
        r"Thread creation failed|pthread_create failed|can't start new thread",
        "No thread can be started",
        "A limit on processes or threads is reached: each library starts one thread for each CPU that it sees.",
        (("Start fewer", "export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"),),
        explained_by="process-budget",
        source="pytorch/pytorch#193859",
    ),
    Cause(
        r"No usable temporary directory found",
        "There is no folder for temporary files",
        "PyTorch makes one while it is imported.",
        (("Name one that can be written to", "export TMPDIR=..."),),
        explained_by="temp-space",
        source="huggingface/open-r1#488",
    ),
    Cause(
        r"getpwuid\(\): uid not found|No username set in the environment",
        "This user has no name, and PyTorch asks for it",
        "The container runs with a number that its /etc/passwd does not list.",
        (("Give it a name", "docker run -e USER=trainer -e HOME=/tmp ..."),),
        explained_by="user-identity",
        source="pytorch/pytorch#140765",
    ),
    Cause(
        r"Failed to load PyTorch C extensions|No module named 'torch\._C'|No module named 'torch\.version'",
        "What is found is PyTorch's source, or a build for another Python, and its compiled part is not there",
        "The working directory comes first on the import path, and so does PYTHONPATH.",
        (("Start from another folder, or install PyTorch for this Python", "cd / && PYTHON -c 'import torch'"),),
        explained_by="environment-shadowing",
        source="pytorch/pytorch#574, #62470",
    ),
    Cause(
        r"partially initialized module '(\w+)'",
        "{0} is imported while it is being imported: a file of yours may have the name of a module",
        "A random.py, types.py or numpy.py in the working directory hides the real one.",
        (("Rename the file that the traceback names", ""),),
        explained_by="environment-shadowing",
        source="Python's importlib",
    ),
    Cause(
        r"No module named '([\w.]+)'",
        "PyTorch needs {0}, which is not installed",
        "It was installed without its dependencies, or one was removed since.",
        (("Install what it needs", "INSTALL TORCH"),),
        source="Python's importlib",
    ),
    Cause(
        r"died by SIGILL",
        "PyTorch runs an instruction that this CPU does not have",
        "Wheels use SSE4.1 and more on x86-64, and a virtual machine may show an older CPU than the host has.",
        (("Show the guest the host's CPU", "qemu-system-x86_64 -cpu host ..."), ("Or install a build for this CPU", "")),
        source="pytorch/pytorch#37577, #116623",
    ),
    Cause(
        r"died by SIGKILL",
        "It was killed while it was imported, as the kernel does when memory runs out",
        "PyTorch needs some 200 MiB, and more with CUDA.",
        explained_by="memory-budget",
        source="measured with torch 2.13",
    ),
    Cause(
        r"died by SIGBUS",
        "A file that is mapped is shorter than it was, or cannot be read",
        "An installation was cut short or is being replaced, or its disk or server has a fault.",
        (("Install it anew", "INSTALL --force-reinstall --no-cache-dir TORCH"),),
        source="mmap(2)",
    ),
    Cause(
        r"died by SIG(?:SEGV|ABRT)",
        "PyTorch crashes while it is imported",
        "Libraries of different builds in one process are the usual reason.",
        (("Try it in an environment of its own", "python3 -m venv /tmp/fresh && /tmp/fresh/bin/pip install torch"),),
        linked=True,
        source="signal(7)",
    ),
)
"""From the special to the general: the first that is found is told."""


def torch_imports(torch: TorchImport, files: TorchFiles, target: Target, environment: Environment | Unavailable) -> Verdict:
    """PyTorch can be imported

    ## What it checks
    Whether `import torch` works in the job's Python, in a process of its own, with the job's environment; and whether an array
    of NumPy becomes a tensor there.

    ## Why it matters
    Without it there is no job. It fails for reasons that have nothing to do with your code: a library of the wrong version found
    first, a C++ library that is too old, a CPU without the instructions, a second OpenMP.

    ## How it decides
    An exception, an exit, a death by a signal and a process that is stuck in the kernel fail, with the known cause where the text
    or the signal tells it. An import that takes longer than 45 s and could be ended is an error: it may be slow or hang. No torch
    installed is a skip.

    For example, "undefined symbol: __nvJitLinkComplete_12_4" with CUDA 12.1 in LD_LIBRARY_PATH fails, and the variable is named.

    ## How to fix
    By the cause: mostly unset LD_LIBRARY_PATH, or install PyTorch and its dependencies anew in an environment of their own.

    ## Known limits
    CUDA is not touched. One text can have several causes; the likely one is named, and the end of the output is shown with it.

    ## References
    pytorch/pytorch#111469, #123097, #37577, #13806; NVIDIA/DALI#5519; libffi/libffi#568
    """
    if torch.import_s is None:
        return broken(torch.ended, files, target, environment)
    seen = f"torch {torch.version} from {files.folder}, imported in {torch.import_s:.1f} s"
    if files.version is None:
        return Verdict(seen, [another(files)])
    return Verdict(seen, [without_numpy(torch, target)] if torch.numpy_error else [])


def broken(ended: Ended, files: TorchFiles, target: Target, environment: Environment | Unavailable) -> Verdict:
    if ended.how == "hung":
        return Verdict.unknown(f"{target.path} {ended.in_words}: it is very slow, or it hangs")
    if ended.how == "raised" and ended.step not in STEPS:
        return Verdict.unknown(f"the look at torch {ended.in_words}")
    seen = f"{target.path} {ended.in_words}"
    if ended.how == "stuck":
        return Verdict(seen, [stuck(ended)])
    text = f"{ended.in_words}\n{ended.output_tail}"
    cause, groups = known_cause(text)
    variables = linking(environment) if cause is None or cause.linked else {}
    return Verdict(seen, [fatal(ended, files, target, cause, groups, variables)])


def known_cause(text: str) -> tuple[Cause | None, tuple[str, ...]]:
    for cause in CAUSES:
        if found := re.search(cause.pattern, text):
            return cause, found.groups()
    return None, ()


def linking(environment: Environment | Unavailable) -> dict[str, str]:
    """The variables by which other libraries come first."""
    known = {} if isinstance(environment, Unavailable) else environment.variables
    return {name: known[name] for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if known.get(name)}


def fatal(
    ended: Ended, files: TorchFiles, target: Target, cause: Cause | None, groups: tuple[str, ...], variables: dict[str, str]
) -> Finding:
    told = cause.summary.format(*groups) if cause else f"{ended.step or 'import torch'} {first_line(ended)}"
    from_elsewhere = "".join(f" {name} is {value}." for name, value in variables.items())
    unset = f"env {' '.join(f'-u {name}' for name in variables)} {python(target)} -c 'import torch'"
    found = [shlex.quote(group) for group in groups]
    known = [fix(title, command.format(*found), files, target) for title, command in (cause.fixes if cause else ())]
    return Finding(
        level="fail",
        subject="torch",
        summary=told,
        why=f"{cause.why if cause else ''}{from_elsewhere} {last_words(ended)}".strip(),
        fixes=(
            *((Fix("Try it without other libraries first", (unset,)),) if variables else ()),
            *known,
            Fix("See the whole of it", (f"{python(target)} -X faulthandler -c 'import torch'",)),
        ),
        explained_by=cause.explained_by if cause else None,
    )


def fix(title: str, command: str, files: TorchFiles, target: Target) -> Fix:
    again = torch_again(files)
    if "TORCH" in command and again is None:
        return Fix(title, note="From where it came: its build is not in pip's indexes.")
    words = {"PYTHON": python(target), "INSTALL": pip_install(target, "").rstrip(), "TORCH": again or ""}
    command = re.sub("|".join(words), lambda found: words[found[0]], command)
    return Fix(title, (command,) if command else ())


def first_line(ended: Ended) -> str:
    """`raised ValueError: x`, without the lines that some errors go on for."""
    return ended.in_words.removesuffix(f" at: {ended.step}").partition("\n")[0]


def last_words(ended: Ended) -> str:
    """The error; else the last lines that were printed."""
    words = ended.error or "\n".join(ended.output_tail.strip().splitlines()[-4:])
    return f"It said: {words[-SHOWN:]}" if words else "It printed nothing."


def stuck(ended: Ended) -> Finding:
    return Finding(
        level="fail",
        subject="torch",
        summary=f"import torch {ended.in_words}",
        why="Not even SIGKILL ends it: it waits for a disk, a server or a driver that does not answer. The job would too.",
        owner="admin",
        fixes=(Fix("See what it waits for", (f"cat /proc/{ended.pid}/wchan", f"ls -l /proc/{ended.pid}/fd")),),
        explained_by="mount-responds",
    )


def another(files: TorchFiles) -> Finding:
    return Finding(
        level="fail",
        subject=files.origin,
        summary=f"What is imported as torch is {files.origin}, and that is not PyTorch",
        why="There is no torch/version.py beside it. The working directory and PYTHONPATH come before the installed packages.",
        fixes=(Fix("Rename it, or start from another folder"),),
        explained_by="environment-shadowing",
    )


def without_numpy(torch: TorchImport, target: Target) -> Finding:
    return Finding(
        level="fail",
        subject="numpy",
        summary="An array of NumPy cannot become a tensor",
        why=f"torch.from_numpy raised {torch.numpy_error}. Most datasets hand arrays over.",
        fixes=(Fix("Install versions that fit each other", (pip_install(target, "--upgrade numpy torch"),)),),
        explained_by="packages-consistent",
    )


CHECK = Check(torch_imports, essential=True)
