"""A command in a real OCI container, by runc and from a hand-written config.json.

No image is needed: the root is a skeleton that borrows this machine's /usr, and the interpreter and the packages of the running
test are bound at the paths that they have here. Nothing of pytest is imported, because a guest runs this file too.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

DEADLINE_S = 60.0
"""A container is done in half a second here, in a guest within five."""

HIERARCHIES = Path("/sys/fs/cgroup")

CPU_PERIOD_US = 100_000

COPIED = ("/etc/group", "/etc/ld.so.cache", "/etc/os-release", "/etc/passwd")

PACKAGES = ("dl_doctor", "dl_doctor.checks", "dl_doctor.reports")

CgroupNamespace = Literal["host", "private"]


@dataclass(frozen=True)
class Recipe:
    """What `docker run` would be told; sizes are in bytes."""

    shm: int | None
    """None for no /dev/shm at all, as with --ipc=none."""

    cpus: float
    memory: int
    nofile: int
    pids: int | None = None
    uid: int = 0
    """Beyond the machine's own users it is one without an entry in /etc/passwd."""

    shm_mode: str = "1777"
    read_only: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of PATH, and of HOME, which runc sets."""

    cgroup_namespace: CgroupNamespace = "private"
    sys: bool = True
    """Without /sys no control group can be read, and its limits are in force all the same."""

    def to_json(self) -> str:
        """What this file takes as its first argument when it is run."""
        return json.dumps(asdict(self))


def run(command: Sequence[str], recipe: Recipe, deadline_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; TimeoutExpired past the deadline. However it ends, nothing of the container is left."""
    with tempfile.TemporaryDirectory(prefix="dl-doctor-lab-") as bundle:
        name = Path(bundle).name
        lay_root(Path(bundle, "root"))
        Path(bundle, "config.json").write_text(json.dumps(config(command, recipe, name)), encoding="utf-8")
        runc = ("runc", "--root", f"{bundle}/state")
        try:
            return subprocess.run(
                [*runc, "run", "--bundle", bundle, name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=deadline_s,
                check=False,
            )
        finally:
            subprocess.run([*runc, "delete", "--force", name], capture_output=True, check=False)
            for group in groups(name):  # runc was killed before it wrote down what it had made
                group.rmdir()


def groups(name: str) -> list[Path]:
    """The folders of a container's control group that are there: one in each hierarchy of v1, a single one of v2."""
    return [*HIERARCHIES.glob(name), *HIERARCHIES.glob(f"*/{name}")]


def lay_root(root: Path) -> None:
    """Lay out what an image would hold."""
    for name in ("dev", "etc", "proc", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for path in COPIED:
        shutil.copyfile(path, f"{root}{path}")
    (root / ".dockerenv").touch()  # as docker leaves one


def config(command: Sequence[str], recipe: Recipe, name: str) -> dict[str, Any]:
    """The container as opencontainers/runtime-spec wants it written."""
    variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **recipe.environment}
    namespaces = ["pid", "ipc", "uts", "mount", "network", *(["cgroup"] if recipe.cgroup_namespace == "private" else [])]
    return {
        "ociVersion": "1.0.2",
        "hostname": "lab",
        "root": {"path": "root", "readonly": recipe.read_only},
        "mounts": [*mounts(recipe), *({"destination": path, "source": path, "options": ["rbind", "ro"]} for path in borrowed())],
        "process": {
            "args": [*command],
            "cwd": "/",
            "env": [f"{variable}={value}" for variable, value in variables.items()],
            "user": {"uid": recipe.uid, "gid": recipe.uid},
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": recipe.nofile, "hard": recipe.nofile}],
            "noNewPrivileges": True,
        },
        "linux": {
            "cgroupsPath": f"/{name}",
            "namespaces": [{"type": kind} for kind in namespaces],
            "resources": {
                "cpu": {"quota": round(recipe.cpus * CPU_PERIOD_US), "period": CPU_PERIOD_US},
                "memory": {"limit": recipe.memory},
                **({"pids": {"limit": recipe.pids}} if recipe.pids else {}),
            },
        },
    }


def mounts(recipe: Recipe) -> list[dict[str, Any]]:
    """The filesystems that docker mounts."""
    guarded = ("nosuid", "noexec", "nodev")
    found = [mount("/proc", "proc", guarded), mount("/dev", "tmpfs", ("nosuid", "mode=755", "size=65536k"))]
    if recipe.shm is not None:
        found.append(mount("/dev/shm", "tmpfs", (*guarded, f"mode={recipe.shm_mode}", f"size={recipe.shm}")))
    if recipe.sys:
        found += [mount("/sys", "sysfs", (*guarded, "ro")), mount("/sys/fs/cgroup", "cgroup", (*guarded, "ro"))]
    return found


def mount(destination: str, kind: str, options: Sequence[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": kind, "options": [*options]}


def borrowed() -> list[str]:
    """Folders of this machine that are bound read-only, outer ones first.

    The folders above them are the container's own, so that any user gets to them, also where they lie in root's home here.
    """
    packages = [folder for name in PACKAGES if (spec := find_spec(name)) for folder in spec.submodule_search_locations or ()]
    return sorted({"/usr", sys.base_prefix, sys.prefix, *packages})


if __name__ == "__main__":
    ended = run(sys.argv[2:], Recipe(**json.loads(sys.argv[1])))
    sys.stdout.write(ended.stdout)
    sys.stderr.write(ended.stderr)
    sys.exit(ended.returncode)
