"""Datasets that would take gigabytes, examined beside a job in a control group of 512 MiB: nothing is killed, and it is told."""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dl_doctor.model import Report
from tests.loaders import written

GROUPS = Path("/sys/fs/cgroup/memory")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not (GROUPS / "memory.limit_in_bytes").exists(), reason="needs the memory controller of cgroup v1"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]

LIMIT = 512 << 20

TAKES = "b'x' * (2 << 30)"

SHARES = "torch.UntypedStorage._new_shared"
WRITES = "open('/dev/shm/cache', 'wb', 0).writelines(b'x' * (1 << 20) for _ in range(2048))"

HEAVY = """
class Heavy(Data):
    {body}
def make(): return DataLoader(Heavy(), batch_size=4, num_workers=2{more})
"""

DATASETS = {
    "in its constructor": HEAVY.format(body=f"def __init__(self): self.held = {TAKES}", more=""),
    "bit by bit": HEAVY.format(body="def __init__(self): self.held = [str(n) * 8 for n in range(20_000_000)]", more=""),
    "in a sample": HEAVY.format(body=f"def __getitem__(self, index): return len({TAKES})", more=""),
    "in a worker": HEAVY.format(
        body=f"def __getitem__(self, index): return len({TAKES}) if torch.utils.data.get_worker_info() else index", more=""
    ),
    "in its pickle": HEAVY.format(
        body="def __reduce__(self): return Heavy, (), {'held': b'x' * (3 << 30)}", more=", multiprocessing_context='spawn'"
    ),
    "in shared memory": HEAVY.format(body=f"def __init__(self): {SHARES}(2 << 30).fill_(1)", more=""),
    "in many tensors": HEAVY.format(
        body=f"def __init__(self): self.held = [{SHARES}(1 << 20).fill_(1) for _ in range(900)]", more=""
    ),
    "in a file of a tmpfs": HEAVY.format(body=f"def __init__(self): {WRITES}", more=""),
}


MAPS = "torch.from_file(os.path.dirname(__file__) + '/file', size=2 << 30, dtype=torch.uint8)"
DATASETS["in a mapping of a file that it writes to"] = HEAVY.format(
    body=f"def __init__(self): self.held = {MAPS}; [part.fill_(1) for part in self.held.split(1 << 20)]", more=""
)


class Group:
    """A control group of its own, with a job in it that holds some memory."""

    def __init__(self) -> None:
        self.folder = GROUPS / f"dl-doctor-lab-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir()
        (self.folder / "memory.limit_in_bytes").write_text(str(LIMIT))
        self.job = self.start([sys.executable, "-c", "import time; held = b'x' * (40 << 20); time.sleep(600)"], Path("/"))

    def start(self, command: list[str], cwd: Path) -> subprocess.Popen[bytes]:
        entered = f'echo $$ >{self.folder}/cgroup.procs; mount -t tmpfs -o size=4g shm /dev/shm; exec "$@"'
        return subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc", entered, "sh", *command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def kills(self) -> int:
        lines = (self.folder / "memory.oom_control").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("oom_kill ")))

    def close(self) -> None:
        self.job.kill()
        self.job.communicate()
        end_s = time.monotonic() + 5
        while (self.folder / "cgroup.procs").read_text() and time.monotonic() < end_s:
            time.sleep(0.02)  # the guard ends some ms after the doctor
        self.folder.rmdir()


@pytest.fixture
def pod() -> Iterator[Group]:
    group = Group()
    yield group
    group.close()


@pytest.mark.parametrize("dataset", DATASETS)
def test_nothing_is_killed(pod: Group, torch_python: str, tmp_path: Path, dataset: str) -> None:
    spec = written(tmp_path, DATASETS[dataset])
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2 << 30)
    doctor = [
        sys.executable,
        "-m",
        "dl_doctor",
        "check",
        "--no-plugins",
        "-f",
        "json",
        "--python",
        torch_python,
        "--loader",
        spec,
    ]
    out, err = pod.start(doctor, Path(__file__).parents[2]).communicate(timeout=120)
    report = msgspec.json.decode(out, type=Report)
    told = [f"{result.id}: {finding.summary}" for result in report.results for finding in result.findings]
    told += [f"{result.id}: {result.reason.detail}" for result in report.results if result.reason]

    assert err == b""
    assert pod.kills == 0
    assert pod.job.poll() is None
    assert [line for line in told if "a quarter of" in line], told
