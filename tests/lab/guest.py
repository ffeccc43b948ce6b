"""A script in a User-Mode Linux guest (Debian's user-mode-linux): another kernel, which has cgroup v2 and no v1.

It boots in two seconds and needs neither an image nor virtualization: its root is this machine's, read-only. It has one CPU.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

KERNEL = shutil.which("linux.uml") or shutil.which("linux")

PROJECT = Path(__file__).parents[2]

DEADLINE_S = 120.0

INIT = """\
#!/bin/sh
export PATH={path} TMPDIR=/run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs scratch /run
mkdir /run/host
mount -t hostfs -o {folder} host /run/host
cd {project}
sh -eu /run/host/script >/run/host/stdout 2>/run/host/stderr
echo $? >/run/host/returncode
sync
echo o >/proc/sysrq-trigger
sleep 10
"""
"""The guest's first process; it is not to end before the machine is off."""


def run(script: str, deadline_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
    """Run a shell script in the project's folder, in a guest of its own; TimeoutExpired past the deadline."""
    with tempfile.TemporaryDirectory(prefix="dl-doctor-lab-") as temporary:
        folder = Path(temporary)
        init = folder / "init"
        init.write_text(INIT.format(path=shlex.quote(os.environ["PATH"]), folder=folder, project=shlex.quote(f"{PROJECT}")))
        init.chmod(0o755)
        (folder / "script").write_text(script)
        boot(folder, init, deadline_s)
        if not (folder / "returncode").exists():
            raise RuntimeError(f"the guest went down before its script had ended:\n{(folder / 'console').read_text()}")
        stdout, stderr, returncode = ((folder / name).read_text() for name in ("stdout", "stderr", "returncode"))
        return subprocess.CompletedProcess(script, int(returncode), stdout, stderr)


def boot(folder: Path, init: Path, deadline_s: float) -> None:
    """From power on to power off; what the kernel says goes to a file."""
    kernel = f"{KERNEL} mem=2048M quiet con=null con0=null,fd:1 uml_dir={folder}/uml/"
    root = f"root=/dev/root rootfstype=hostfs ro init={init}"
    with (folder / "console").open("wb") as console:
        guest = subprocess.Popen(
            f"{kernel} {root}".split(),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its processes are processes of this machine: one group, to be ended together
        )
        try:
            guest.wait(deadline_s)
        except BaseException:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
            raise
