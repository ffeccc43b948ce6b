import re

from dl_doctor.contract import Check
from dl_doctor.facts import DataPaths, UserIdentity
from dl_doctor.facts.data_paths import HOME_CACHE
from dl_doctor.fixes import for_containers
from dl_doctor.model import Finding, Fix, Unavailable, Verdict

NAMELESS_SINCE = (2, 13)
"""The first torch whose compiler does without a user's name (pytorch/pytorch#140765, vllm-project/vllm#46734)."""

AT_HOME = (("HF_HOME", "Hugging Face"), ("TORCH_HOME", "torch.hub"), ("TRITON_CACHE_DIR", "Triton"))
"""Caches that lie in the home folder unless a variable says otherwise."""

OUTSIDE = ("bare", "slurm", "apptainer", "enroot", "container")
"""Where a shell's own words do."""


def user_identity(user: UserIdentity, data_paths: DataPaths | Unavailable) -> Verdict:
    """The user has a name and a home

    ## What it checks
    Whether the user that the job runs as has a name that Python finds, and a home folder in which caches can be made.

    ## Why it matters
    Containers run with any number as user, often one that /etc/passwd does not know. Then `getpass.getuser()` raises, which
    torch.compile calls before torch 2.13, and `~` stays as it is: caches land in a folder of that name, or nowhere.

    ## How it decides
    No name warns with a torch before 2.13, or of unknown version, and is a note otherwise. A home that is not known, or in which
    caches cannot be made, warns, unless HF_HOME, TORCH_HOME and TRITON_CACHE_DIR all say where else. It never fails, because
    nobody knows here whether the job compiles or downloads.

    For example, `docker run --user 4242` has HOME=/ and no name: with torch 2.6 it warns twice.

    ## How to fix
    `-e USER=trainer -e HOME=/tmp`, or an entry in the image's /etc/passwd.

    ## Known limits
    Other libraries ask for the name too.

    ## References
    pytorch/pytorch#140765, vllm-project/vllm#44548, llm-d/llm-d-benchmark#1573, h2oai/h2o-llmstudio#974
    """
    name = "no name" if user.name_error else "a name"
    entry = "" if user.in_passwd else ", no entry in the user database"
    seen = f"user {user.uid} with {name}{entry}; home is {user.home}{'' if user.home_said else ' (HOME is not set)'}"
    return Verdict(seen, [*nameless(user), *homeless(user, data_paths)])


def nameless(user: UserIdentity) -> list[Finding]:
    if user.name_error is None:
        return []
    return [
        Finding(
            level="warn" if compiler_wants_a_name(user.torch_version) else "note",
            subject=f"uid:{user.uid}",
            summary=f"User {user.uid} has no name: getpass.getuser() raises {user.name_error}",
            why="torch.compile asks for it before torch 2.13, and so do other libraries. As root it does not show.",
            fixes=(
                *for_containers(
                    "Give the user a name",
                    run="-e USER=trainer",
                    compose=("environment: {USER: trainer}",),
                    kubernetes=("env: [{name: USER, value: trainer}]",),
                ),
                Fix(
                    "Give the user a name",
                    ("export USER=trainer",),
                    runtimes=OUTSIDE,
                ),
            ),
        )
    ]


def compiler_wants_a_name(version: str | None) -> bool:
    """Without torch there is nothing that compiles; of a version that cannot be read it is not known."""
    if version is None:
        return False
    found = re.match(r"([0-9]+)\.([0-9]+)", version)
    return found is None or (int(found[1]), int(found[2])) < NAMELESS_SINCE


def homeless(user: UserIdentity, data_paths: DataPaths | Unavailable) -> list[Finding]:
    entries = data_paths.entries if isinstance(data_paths, DataPaths) else ()
    said = {entry.said_by for entry in entries}
    caches = [name for variable, name in AT_HOME if variable not in said]
    refused = next((entry.write_refusal for entry in entries if entry.said_by == HOME_CACHE and entry.write_refusal), None)
    unknown = user.home.startswith("~")
    if not caches or not (unknown or (refused and refused.code in ("EACCES", "EPERM", "EROFS", "ENOENT"))):
        return []
    trouble = f"{refused.error} ({refused.code})" if refused else ""
    return [
        Finding(
            level="warn",
            subject="HOME",
            summary="There is no home folder: `~` stays as it is"
            if unknown
            else f"Caches cannot be made in the home folder {user.home}: {trouble}",
            why=f"{'They land in a folder named ~ of the working directory' if unknown else 'They land nowhere'}: "
            f"{', '.join(caches)}. Downloads then end, or begin anew each time.",
            fixes=(
                *for_containers(
                    "Name a folder that can be written to as home",
                    run="-e HOME=/tmp",
                    compose=("environment: {HOME: /tmp}",),
                    kubernetes=("env: [{name: HOME, value: /tmp}]",),
                    note="Or mount a volume for the caches and point HF_HOME and TORCH_HOME at it.",
                ),
                Fix(
                    "Name a folder that can be written to as home",
                    ("export HOME=...",),
                    runtimes=OUTSIDE,
                ),
            ),
        )
    ]


CHECK = Check(user_identity)
