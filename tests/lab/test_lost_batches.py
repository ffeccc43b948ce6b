"""A collate_fn of its own and too little shared memory: the loader would wait for ever without a word, and it is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dl_doctor.model import Report
from tests.loaders import written

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for mounts"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]

LARGE = """
class Large(Data):
    def __getitem__(self, index): return torch.ones(1 << 18)
def make(): return DataLoader(Large(), batch_size=4, num_workers=2{collate})
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(
    ("collate", "options", "status", "said"),
    [
        # the batch's size is said too small on purpose: otherwise nothing would be tried, as below
        (", collate_fn=collate", ("--batch-bytes=4096",), "fail", "the loader waits for ever: "),
        ("", ("--batch-bytes=4096",), "fail", "Loading raised RuntimeError: "),
        (", collate_fn=collate", ("--batch-bytes=4MiB",), "warn", "Loading was not tried: it would need 24.1 MiB of /dev/shm"),
    ],
)
def test_it_is_named(
    torch_python: str, tmp_path: Path, method: str, collate: str, options: tuple[str, ...], status: str, said: str
) -> None:
    spec = written(tmp_path, LARGE.format(collate=collate))
    doctor = [sys.executable, "-m", "dl_doctor", "check", "--no-plugins", "-f", "json", "-s", "smoke-load,shm-size"]
    script = 'mount -t tmpfs -o size=6m shm /dev/shm; exec "$@"'
    options = (*options, "--python", torch_python, "--loader", spec, "--start-method", method)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *doctor, *options],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
        check=False,
    )
    report = msgspec.json.decode(done.stdout, type=Report)
    (result,) = (result for result in report.results if result.id == "smoke-load")

    assert (done.stderr, result.status) == (b"", status), result
    assert said in result.findings[0].summary
    assert status == "warn" or "No space left on device (28)" in result.findings[0].summary
    assert result.findings[0].explained_by == ("shm-size" if status == "warn" else None)
