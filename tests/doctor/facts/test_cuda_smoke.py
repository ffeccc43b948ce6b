"""Computing on GPUs, for real: by a torch of ours over a libcuda of ours, in processes that can break."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import CudaSmoke, TorchGpus, cuda_smoke
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_left_alone import why_not_begun
from dl_doctor.facts.gpu_states import GpuProcess, GpuState, GpuStates
from dl_doctor.facts.ranks import Ranks
from dl_doctor.facts.target import Target
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probes.mapped import mapped_files, soname
from dl_doctor.probing import Probed, Probes
from dl_doctor.units import GIB
from tests import facts
from tests.collected import collected
from tests.facts import ANSWERED
from tests.fakes import Fakes, lay_torch

NONE = Unavailable.absent("a test")
AMD = {"driver": facts.nvidia_driver(0), "grant": facts.gpu_grant(nodes=("kfd",)), "asked": NONE}
OF_ROCM = facts.torch_files("2.8.0+rocm6.3", cuda=None, hip="6.3")


@pytest.fixture
def machine(fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with a torch of ours, and GPUs as these lines describe them."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib")))
    monkeypatch.setenv("PYTHONPATH", str(lay_torch(tmp_path / "packages")))

    def described(*lines: str) -> None:
        (tmp_path / "gpus").write_text("".join(f"{line}\n" for line in lines))
        monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus"))

    return described


def tried(python: str = sys.executable, **given: Any) -> Any:
    known = {
        "driver": facts.nvidia_driver(),
        "grant": facts.gpu_grant(nodes=("nvidia0",)),
        "asked": facts.torch_gpus(),
        "target": Target(path=python, why="a test", has_torch=True),
        "files": facts.torch_files(),
        "memory": facts.memory_budget(),
        "environment": Environment({}),
        "visible": facts.visible_gpus(facts.nvml()),
        "nvml": facts.nvml(),
        "own": facts.own_gpus(0, 1),
        "ranks": Ranks(on_node=1, in_task=1, source="a test"),
        "states": NONE,
        "slurm": NONE,
        **given,
    }
    return collected(cuda_smoke.collect, *sorted(known.values(), key=lambda fact: isinstance(fact, Unavailable)))


def test_each_gpu_is_tried(machine: Any, tmp_path: Path) -> None:
    machine("count=2", "0.capability=120", "1.wrong.convolution=1", "1.compute_mode=3", "init_ms=30")
    found = tried()

    assert (found.ended.how, found.backend, found.init_code, found.count, found.stopped) == ("answered", "cuda", 0, 2, False)
    assert found.init_s >= 0.03
    assert found.arch_list == ("sm_80", "sm_90", "compute_90")
    assert [(gpu.index, gpu.pci, gpu.capability, gpu.exclusive, gpu.right) for gpu in found.gpus] == [
        (0, "0000:01:00.0", (12, 0), False, True),
        (1, "0000:02:00.0", (9, 0), True, False),
    ]
    assert found.gpus[1].convolution.wrong == 0.25
    assert found.libraries == {"libcuda.so.1": (str(tmp_path / "lib" / "libcuda.so.550.90.07"),)}
    assert found.passed_over == ()


def test_after_an_error_another_process_goes_on(machine: Any) -> None:
    machine("count=3", "1.error.product=719")
    found = tried()

    assert [gpu.right for gpu in found.gpus] == [True, False, True]
    assert (found.gpus[1].product.code, found.gpus[1].convolution) == (719, None)
    assert "unspecified launch failure" in found.gpus[1].product.error
    assert not found.stopped


def test_after_a_crash_too(machine: Any) -> None:
    machine("count=2", "0.crash.convolution=1")
    found = tried()

    assert (found.gpus[0].ended.signal, found.gpus[0].ended.step) == ("SIGSEGV", "convolution on GPU 0")
    assert (found.gpus[1].right, found.stopped) == (True, False)


def test_one_that_hangs_is_named_and_the_others_are_left(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_smoke, "DEADLINE_S", 1.0)
    machine("count=3", "1.hang.copy=1")
    found = tried()

    (gpu,) = found.gpus
    assert (gpu.index, gpu.ended.how, gpu.ended.step, found.stopped) == (1, "hung", "copy on GPU 1", True)
    assert gpu.ended.pid
    assert gpu.ended.state


def test_older_torchs_give_their_codes_in_words(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NO_CODES", "1")
    machine("count=1", "error.copy=46")
    (gpu,) = tried().gpus

    assert (gpu.copy.number, gpu.copy.code) == (None, 46)


def test_a_cudnn_of_another_release(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OTHER_CUDNN", "1")
    machine("count=1")
    found = tried()

    assert found.gpus[0].right
    assert found.cudnn_error.startswith("cuDNN version incompatibility")


def test_what_is_loaded_in_the_place_of_a_packages_library(machine: Any, tmp_path: Path) -> None:
    machine("count=1")
    own = tmp_path / "packages" / "nvidia" / "cuda" / "lib" / "libcuda.so.1"
    own.parent.mkdir(parents=True)
    own.touch()
    (library,) = tried().passed_over

    assert (library.name, library.own, library.by) == ("libcuda.so.1", str(own), "LD_LIBRARY_PATH")
    assert library.taken == str(tmp_path / "lib" / "libcuda.so.550.90.07")


@pytest.mark.parametrize(("count", "rank", "index"), [(2, "1", 1), (1, "3", 0)])  # Slurm may show each task its own GPU only
def test_a_rank_takes_its_own(machine: Any, count: int, rank: str, index: int) -> None:
    machine(f"count={count}", "0.crash.copy=1" if index else "1.crash.copy=1")
    found = tried(environment=Environment({"LOCAL_RANK": rank}), ranks=Ranks(on_node=4, in_task=1, source="a test"))

    assert ([gpu.index for gpu in found.gpus], found.rank) == ([index], int(rank))
    assert found.gpus[0].right


def test_a_rank_that_is_alone_takes_all(machine: Any) -> None:
    """One task for a node's GPUs, which starts their ranks itself."""
    machine("count=2")

    assert len(tried(environment=Environment({"LOCAL_RANK": "0"})).gpus) == 2


def test_one_of_another_job_is_not_touched(machine: Any) -> None:
    """As in a prolog, where Slurm says which ones are the job's, and CUDA shows all."""
    machine("count=2", "0.crash.copy=1")
    found = tried(nvml=facts.nvml(count=2), own=facts.own_gpus(1))

    assert [(gpu.index, gpu.right) for gpu in found.gpus] == [(1, True)]


def test_one_that_somebody_computes_on_is_not_touched(machine: Any) -> None:
    machine("count=2", "0.crash.copy=1")
    stranger = GpuProcess(pid=4711, kind="compute", name="python", uid=7)
    states = GpuStates(ended=ANSWERED, gpus=(GpuState(index=0, pci="0000:01:00.0", processes=(stranger,)),))
    found = tried(states=states)

    assert [(gpu.skipped, gpu.right) for gpu in found.gpus] == [("python (pid 4711) computes on it", False), (None, True)]


def test_of_amd_torch_alone_is_asked(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("count=1")
    monkeypatch.setenv("PYTHONPATH", str(lay_torch(tmp_path / "rocm", None, "6.3")))
    found = tried(**AMD, files=OF_ROCM)

    assert (found.backend, found.init_code, found.arch_list) == ("hip", None, ("gfx90a", "gfx942"))
    assert [(gpu.arch, gpu.capability, gpu.right) for gpu in found.gpus] == [("gfx942:sramecc+:xnack-", None, True)]


def test_the_real_torch_computes_so_on_a_cpu(torch_python: str) -> None:
    """The same code as on a GPU."""

    async def on_cpu(probes: Probes) -> Probed:
        return await probes.run("cuda_smoke", {"on_cpu": True}, python=torch_python, deadline_s=60, place="apart")

    answer = collected(on_cpu).answer
    (gpu,) = answer["gpus"]

    assert {what: gpu[what]["wrong"] for what in ("copy", "product", "convolution")} == dict.fromkeys(
        ("copy", "product", "convolution"), 0
    )
    assert len(answer["libraries"]["libtorch_cpu.so"]) == 1


NO_PROCESS = "/nonexistent"
"""An interpreter that does not start: what is not tried needs none."""


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"driver": facts.nvidia_driver(0), "grant": facts.gpu_grant()}, "absent", "no GPU here"),
        ({"driver": facts.nvidia_driver(0), "grant": facts.gpu_grant(), "files": NONE}, "absent", "no GPU here"),
        ({"files": Unavailable.failed("torch cannot be looked for")}, "failed", "torch cannot be looked for"),
        ({"files": facts.torch_files(version=None)}, "absent", "is not PyTorch"),
        ({"files": facts.torch_files("2.8.0+cpu", cuda=None)}, "absent", "built for other hardware than NVIDIA's GPUs"),
        ({"files": OF_ROCM}, "absent", "built for other hardware than NVIDIA's GPUs"),
        (AMD, "absent", "built for other hardware than AMD's GPUs"),
        ({"slurm": facts.slurm()}, "absent", "granted no GPU"),
        ({"grant": facts.gpu_grant(promised=0)}, "absent", "hidden"),
        ({"visible": facts.visible_gpus(facts.nvml(), "-1")}, "absent", "hidden"),
        ({"asked": Unavailable.absent("NVML lists no GPU")}, "absent", "NVML lists no GPU"),
        ({"asked": TorchGpus(ended=Ended(how="hung", step="cuInit", pid=7, state="S"))}, "failed", "at: cuInit (pid 7, state S)"),
        ({"asked": TorchGpus(ended=Ended(how="killed", signal="SIGSEGV", step="cuInit"))}, "failed", "died by SIGSEGV"),
        ({"memory": facts.memory_budget(GIB)}, "not_asked", "torch with CUDA takes about"),
        ({}, "failed", "cannot be started"),
        ({"driver": facts.nvidia_driver(0, platform="jetson"), "asked": NONE}, "failed", "cannot be started"),  # it is tried
    ],
)
def test_when_nothing_is_tried(given: dict[str, Any], kind: str, words: str) -> None:
    found = tried(NO_PROCESS, **given)

    assert isinstance(found, Unavailable)
    assert found.kind == kind
    assert words in found.detail


def test_where_cuda_does_not_begin_no_second_process_tries() -> None:
    asked = facts.torch_gpus(0, init_code=802, said=("Error 802: system not yet initialized",))

    assert tried(NO_PROCESS, asked=asked) == CudaSmoke(
        ended=ANSWERED, backend="cuda", init_code=802, count=0, said=("Error 802: system not yet initialized",)
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"memory_used_bytes": 78 * GIB, "memory_total_bytes": 80 * GIB}, None),
        ({"memory_used_bytes": 79 * GIB + GIB // 2, "memory_total_bytes": 80 * GIB}, "only 512 MiB of its memory are free"),
        ({"utilisation": (0.9, 0.95, 0.8)}, "something keeps it busy: at least 80 % of the time"),
        ({"utilisation": (0.9, 0.0, 0.8)}, None),  # a desktop
        ({"processes": (GpuProcess(pid=7, kind="graphics", name="Xorg", uid=0),)}, None),
        ({"processes": (GpuProcess(pid=7, kind="compute", name="python", uid=0, ours=True),)}, None),
        ({"processes": (GpuProcess(pid=7, kind="compute"),)}, "pid 7 computes on it"),
        ({"mig": True, "mig_instances": 2, "processes": (GpuProcess(pid=7, kind="compute"),)}, None),  # on another instance
    ],
)
def test_what_is_in_the_way_on_a_gpu(fields: dict[str, Any], why: str | None) -> None:
    assert why_not_begun(GpuState(index=0, **fields)) == why


def test_libraries_go_by_the_names_that_the_loader_knows(fakes: Fakes, tmp_path: Path) -> None:
    folder = fakes.install(tmp_path / "lib")
    (tmp_path / "libcut.so.1").write_bytes((folder / "libcuda.so.550.90.07").read_bytes()[:100])
    (tmp_path / "libtext.so.1").write_text("GROUP ( libc.so.6 )")

    assert soname(str(folder / "libcuda.so.550.90.07")) == "libcuda.so.1"
    assert soname(str(tmp_path / "libcut.so.1")) == "libcut.so.1"
    assert soname(str(tmp_path / "libtext.so.1")) == "libtext.so.1"
    assert any(Path(path).name.startswith("libc.so") for path in mapped_files("libc."))
