"""NVML, the driver's libraries and the nodes, asked for real: of our own libraries, in processes of their own."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.catalogue import load
from dl_doctor.facts import TorchImport, gpu_access, gpu_libraries, nvml, torch_gpus
from dl_doctor.facts.gpu_access import GpuAccess, to_open
from dl_doctor.facts.gpu_libraries import GpuLibraries
from dl_doctor.facts.nvml import Nvml
from dl_doctor.facts.target import Target
from dl_doctor.facts.torch_gpus import TorchGpus
from dl_doctor.model import NO_GPU, Ended, Unavailable
from dl_doctor.units import GIB
from tests import facts
from tests.collected import collected
from tests.fakes import Fakes, lay_torch

LOST, NOT_SUPPORTED, FUNCTION_NOT_FOUND = 15, 3, "FUNCTION_NOT_FOUND"


def described(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    (folder / "gpus").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setenv("FAKE_GPUS", str(folder / "gpus"))


def asked() -> Nvml:
    told = collected(nvml.collect, facts.nvidia_driver(), facts.gpu_grant())
    assert isinstance(told, Nvml)
    return told


@pytest.fixture
def machine(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with the fake libraries, and GPUs as these lines describe them."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib")))
    return lambda *lines: described(tmp_path, monkeypatch, *lines)


def test_nvml_tells_of_each_gpu(machine: Any) -> None:
    machine("count=2", "1.name=NVIDIA A100-SXM4-80GB", "0.bus=0x0f", "1.mig=1", "driver_version=570.86.15", "cuda_version=12080")
    told = asked()

    assert (told.ended.how, told.error, told.driver_version, told.cuda_version) == ("answered", None, "570.86.15", "12.8")
    assert [(gpu.name, gpu.mig, gpu.minor) for gpu in told.gpus] == [
        ("NVIDIA H100 80GB HBM3", False, 0),
        ("NVIDIA A100-SXM4-80GB", True, 1),
    ]
    assert told.gpus[0].pci == "0000:0f:00.0"
    assert told.gpus[0].memory_bytes == 85520809984
    assert not told.gpus[0].errors


def test_each_error_is_kept_by_name(machine: Any) -> None:
    machine(
        "count=3",
        f"1.error.nvmlDeviceGetHandleByIndex_v2={LOST}",
        f"2.error.nvmlDeviceGetMigMode={NOT_SUPPORTED}",
        "0.error.nvmlDeviceGetMemoryInfo=4",
        "error.nvmlSystemGetDriverVersion=999",
    )
    told = asked()

    assert [gpu.errors for gpu in told.gpus] == [
        {"nvmlDeviceGetMemoryInfo": "NO_PERMISSION"},
        {"nvmlDeviceGetHandleByIndex": "GPU_IS_LOST"},
        {"nvmlDeviceGetMigMode": "NOT_SUPPORTED"},
    ]
    assert [gpu.usable for gpu in told.gpus] == [True, False, True]
    assert told.errors == {"nvmlSystemGetDriverVersion": "UNKNOWN"}


@pytest.mark.parametrize(
    ("code", "name"), [(18, "LIB_RM_VERSION_MISMATCH"), (9, "DRIVER_NOT_LOADED"), (999, "UNKNOWN"), (4711, "4711")]
)
def test_how_it_does_not_begin(machine: Any, code: int, name: str) -> None:
    machine(f"error.nvmlInitWithFlags={code}")

    assert asked().error == name


def test_an_old_driver_lacks_functions(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib", "384.81", old=True)))
    described(tmp_path, monkeypatch, "count=1")
    told = asked()

    assert told.errors == {"nvmlSystemGetCudaDriverVersion": FUNCTION_NOT_FOUND}
    assert told.gpus[0].errors == {"nvmlDeviceGetMigMode": FUNCTION_NOT_FOUND}
    assert told.gpus[0].usable


def test_a_name_that_is_no_text_takes_nothing_else_away(machine: Any, tmp_path: Path) -> None:
    machine("count=2")
    with (tmp_path / "gpus").open("ab") as file:
        file.write(b"1.name=NVIDIA \xff\xfe\n")

    assert [(gpu.name, gpu.errors) for gpu in asked().gpus] == [
        ("NVIDIA H100 80GB HBM3", {}),
        (None, {"nvmlDeviceGetName": "NO_TEXT"}),
    ]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)

    assert asked().error == "LIBRARY_NOT_FOUND"


def test_a_crash_is_told_with_the_call(machine: Any) -> None:
    machine("count=2", "1.crash.nvmlDeviceGetName=1")
    ended = asked().ended

    assert (ended.how, ended.signal, ended.step) == ("killed", "SIGSEGV", "nvmlDeviceGetName 1")


def test_a_call_that_never_returns_is_told(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "DEADLINE_S", 1.0)
    machine("count=2", "hang.nvmlDeviceGetCount_v2=1")
    begin = time.monotonic()
    ended = asked().ended

    assert (ended.how, ended.step) == ("hung", "nvmlDeviceGetCount")
    assert time.monotonic() - begin < 5


def test_a_users_pynvml_does_not_stand_in_for_ours(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("count=1")
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pynvml.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'there'}{os.pathsep}")

    assert asked().count == 1


def test_a_working_directory_that_was_deleted(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("count=1")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert asked().count == 1


def libraries(python: str) -> GpuLibraries:
    target = Target(path=python, why="a test", has_torch=False)
    told = collected(gpu_libraries.collect, facts.nvidia_driver(), facts.gpu_grant(), target)
    assert isinstance(told, GpuLibraries)
    return told


def test_where_the_libraries_come_from(machine: Any, tmp_path: Path) -> None:
    machine()
    told = libraries(sys.executable)

    assert told.cuda is not None
    assert told.nvml is not None
    assert told.cuda.path == str(tmp_path / "lib" / "libcuda.so.550.90.07")
    assert (told.cuda.version, told.nvml.version) == ("550.90.07", "550.90.07")


def test_a_library_that_is_missing_and_one_that_is_broken(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fakes.install(tmp_path / "lib")
    (folder / "libcuda.so.1").unlink()
    (folder / "libnvidia-ml.so.1").unlink()
    (folder / "libnvidia-ml.so.1").touch()  # what a mount into a container leaves when it goes wrong
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    told = libraries(sys.executable)

    assert told.cuda is not None
    assert told.nvml is not None
    assert told.cuda.missing
    assert told.nvml.error is not None
    assert not told.nvml.missing


def test_a_library_that_crashes_as_it_is_loaded(machine: Any) -> None:
    machine("crash.load_cuda=1")
    ended = libraries(sys.executable).ended

    assert (ended.how, ended.signal, ended.step) == ("killed", "SIGSEGV", "load libcuda.so.1")


NO_SLURM = Unavailable.absent("a test")


@pytest.fixture
def torch(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with a torch of ours."""
    monkeypatch.setenv("PYTHONPATH", str(lay_torch(tmp_path / "packages")))
    return machine


def seen(python: str | None = None, slurm: Any = NO_SLURM, files: Any = None, told: Any = None, headroom: int = 64 * GIB) -> Any:
    target = Target(path=python or sys.executable, why="a test", has_torch=True)
    given = (told or facts.nvml(), target, files or facts.torch_files(), facts.memory_budget(headroom), slurm)
    return collected(torch_gpus.collect, *given)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["count=2", "cuda_version=12080"], {"driver_cuda": "12.8", "init_code": 0, "count": 2, "usable": 2, "said": ()}),
        (
            ["count=2", "error.cuInit=803"],
            {"init_code": 803, "count": 0, "said": ("CUDA initialization: cudaGetDeviceCount() gave 803.",)},
        ),
        (["count=2", "cuda_version=11040"], {"driver_cuda": "11.4", "init_code": 0, "count": 0}),
        ([], {"init_code": 100, "count": 0}),
        (["count=1", "error.cuDriverGetVersion=34", "error.cuInit=34"], {"driver_cuda": None, "init_code": 34}),
        (["count=1", "cuda_version=0"], {"driver_cuda": None, "init_code": 0}),
    ],
)
def test_what_torch_sees(torch: Any, lines: list[str], told: dict[str, Any]) -> None:
    torch(*lines)
    found = seen()

    assert (found.ended.how, found.torch_cuda) == ("answered", "12.8")
    assert {name: getattr(found, name) for name in told} == told


def test_the_file_that_libcuda_is(torch: Any, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a compatibility package, where the loader finds it first; and what cuInit took."""
    torch("count=1", "init_ms=30", "error.cuInit=804")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "cuda-12.8" / "compat", "570.86.15")))
    found = seen()

    assert found.libcuda == (str(tmp_path / "cuda-12.8" / "compat" / "libcuda.so.570.86.15"),)
    assert (found.init_code, found.tries) == (804, 1)
    assert found.init_s >= 0.03


def test_a_fabric_manager_that_is_not_done_is_asked_twice(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_gpus, "PAUSE_S", 0.1)
    torch("count=1", "error.cuInit=802")
    found = seen()

    assert (found.init_code, found.tries) == (802, 2)


@pytest.mark.parametrize("function", ["cuDriverGetVersion", "cuInit"])
def test_a_crash_of_cuda_is_told_with_the_call(torch: Any, function: str) -> None:
    torch("count=1", f"crash.{function}=1")
    ended = seen().ended

    assert (ended.how, ended.signal, ended.step) == ("killed", "SIGSEGV", function)


def test_cuda_that_never_begins_is_told(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_gpus, "DEADLINE_S", 1.0)
    torch("count=1", "hang.cuInit=1")
    ended = seen().ended

    assert (ended.how, ended.step) == ("hung", "cuInit")


def test_torch_without_the_drivers_library(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch()
    monkeypatch.delenv("LD_LIBRARY_PATH")
    found = seen()

    assert (found.ended.how, found.driver_cuda, found.init_code, found.usable) == ("answered", None, None, 0)


def test_the_real_torch_for_cpus_sees_none(machine: Any, torch_python: str) -> None:
    machine("count=2")
    found = seen(torch_python)

    assert isinstance(found, TorchGpus)
    assert (found.ended.how, found.torch_cuda, found.init_code, found.usable) == ("answered", None, 0, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ImportError('a part is missing')", "ImportError"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV at: import torch"),
    ],
)
def test_an_import_that_ends_its_process_is_nothing_of_cudas(torch: Any, tmp_path: Path, text: str, words: str) -> None:
    torch("count=1")
    (tmp_path / "packages" / "torch" / "__init__.py").write_text(text)
    found = seen()

    assert isinstance(found, Unavailable)
    assert found.kind == "failed"
    assert words in found.detail


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ({"told": facts.nvml_error("LIB_RM_VERSION_MISMATCH")}, "absent", "NVML lists no GPU"),
        ({"told": Nvml(ended=Ended(how="hung", step="nvmlInit"))}, "absent", "NVML lists no GPU"),  # CUDA would hang too
        ({"slurm": facts.slurm()}, "absent", "granted no GPU"),
        ({"files": facts.torch_files(version=None)}, "absent", "is not PyTorch"),
        ({"headroom": 100 << 20}, "not_asked", "100 MiB of memory are left"),
        ({}, "failed", "cannot be started"),
    ],
)
def test_when_torch_is_not_asked(case: dict[str, Any], kind: str, words: str) -> None:
    """The interpreter is none: it does not start."""
    found = seen("/nonexistent", **case)

    assert isinstance(found, Unavailable)
    assert found.kind == kind
    assert words in found.detail


@pytest.mark.parametrize(
    ("job", "names"),
    [
        (None, ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"]),
        (("1",), ["nvidiactl", "nvidia-uvm", "nvidia1"]),  # GPU 0 may be another job's
        ((), ["nvidiactl", "nvidia-uvm"]),
    ],
)
def test_another_jobs_node_is_never_opened(job: tuple[str, ...] | None, names: list[str]) -> None:
    slurm = Unavailable.absent("a test") if job is None else facts.slurm(gpus=job)

    assert to_open(facts.gpu_nodes(2), slurm) == names


def tried(driver: Any) -> GpuAccess | Unavailable:
    told: GpuAccess | Unavailable = collected(gpu_access.collect, driver, facts.gpu_grant(), Unavailable.absent("a test"))
    return told


def test_a_node_that_went_away_is_told() -> None:
    access = tried(facts.nvidia_driver(1, nodes=("nvidia4711",)))

    assert isinstance(access, GpuAccess)
    assert [(node.name, node.error) for node in access.nodes] == [("nvidia4711", "ENOENT")]


def test_a_machine_without_gpus_pays_nothing() -> None:
    """Not even a process: probes that cannot run would raise."""
    nowhere, nothing = facts.nvidia_driver(0), facts.gpu_grant()
    target = Target(path="/nonexistent", why="a test", has_torch=False)
    unused: Any = None
    for collecting in (
        gpu_access.collect(unused, nowhere, nothing, Unavailable.absent("a test")),
        nvml.collect(unused, nowhere, nothing),
        gpu_libraries.collect(unused, nowhere, nothing, target),
    ):
        assert asyncio.run(collecting) == Unavailable.absent(NO_GPU)  # type: ignore[arg-type]


def test_torch_is_not_imported_to_learn_that_there_is_no_gpu() -> None:
    assert TorchImport not in load(plugins=False).closure([TorchGpus])
