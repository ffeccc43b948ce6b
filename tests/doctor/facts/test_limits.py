"""What examining the job's code may take of memory: what is filled counts, and what is mapped only does not."""

import json
import subprocess

import pytest

from dl_doctor.probing import HERE

RUN = """
import json, mmap, numpy, os, sys, torch
sys.path.insert(0, sys.argv[1])
import limits

os.truncate(os.open("file", os.O_CREAT | os.O_RDWR), 1 << 30)
file = open("file", "r+b")
torch.save(torch.zeros(1 << 25), "tensor.pt")

def compute():
    for _ in range(3_000_000): pass

def fill(held):
    for at in range(0, len(held), 4096): held[at] = 1

def mapped(**how): return mmap.mmap(file.fileno(), 0, **how)

for name, code in json.loads(sys.argv[2]).items():
    if not os.fork():
        raised = ""
        try:
            limits.limit_memory(64 << 20)
            exec(code)
        except Exception as error:
            raised = repr(error)
        limits.resource.setrlimit(limits.resource.RLIMIT_DATA, (-1, -1))
        print(json.dumps([name, raised]), flush=True)
        os._exit(0)
    os.wait()
"""

LEFT_ALONE = {
    # more than is allowed in size, and not in memory
    "a memmap, copied where it is written": "numpy.memmap(file, mode='c')",
    "and read": "numpy.memmap(file, mode='c').max()",
    "many, one after another": "for _ in range(50): numpy.memmap(file, mode='c')",
    "many at once": "held = [numpy.memmap(file, mode='c') for _ in range(50)]; compute(); held += [numpy.memmap(file, mode='c')]",
    "a memmap that is written to": "held = numpy.memmap(file, mode='c'); held[: 16 << 20] = 1; compute()",
    "mmap's own copies": "mapped(access=mmap.ACCESS_COPY)",
    "by the kernel's names": "mapped(flags=mmap.MAP_PRIVATE)",
    "tensors of a file": "torch.from_file('file', size=1 << 28)",
    "by names": "torch.from_file(filename='file', shared=False, size=1 << 28)",
    "a storage of a file": "torch.UntypedStorage.from_file('file', False, 1 << 30)",
    "a checkpoint": "torch.load('tensor.pt', mmap=True)",
    "shared": "mapped(); torch.from_file('file', True, 1 << 28)",
    "what is allowed": "bytearray(b'x') * (48 << 20)",
}

REFUSED = {
    "what is allocated": "bytearray(1 << 30)",
    "beside a mapping": "held = numpy.memmap(file, mode='c'); bytearray(1 << 29)",
    "after a mapping": "numpy.memmap(file, mode='c'); compute(); bytearray(1 << 29)",
    "a mapping that is filled": "fill(mapped(access=mmap.ACCESS_COPY))",
    "a tensor that is filled": "fill(torch.from_file('file', size=1 << 30, dtype=torch.uint8).numpy())",
    "without a file": "mmap.mmap(-1, 1 << 29, flags=mmap.MAP_PRIVATE)",
}


@pytest.fixture(scope="module")
def raised(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each of them raises, in a process forked for it from one that has torch and NumPy."""
    command = [torch_python, "-c", RUN, str(HERE / "probes"), json.dumps(LEFT_ALONE | REFUSED)]
    done = subprocess.run(command, cwd=tmp_path_factory.mktemp("limits"), stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_it_is_left_alone(raised: dict[str, str], name: str) -> None:
    assert raised[name] == ""


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(raised: dict[str, str], name: str) -> None:
    assert raised[name].startswith(("MemoryError(", "OSError(12, "))
