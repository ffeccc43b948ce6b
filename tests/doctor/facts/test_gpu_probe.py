"""The throughput probe: where nothing is run, what is made of what two processes tell, and once all of it, on the CPU."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.facts import GpuProbe, Ranks, gpu_probe
from dl_doctor.facts.environment import Environment
from dl_doctor.facts.gpu_probe import host_bytes, joined, likely_index, of_each
from dl_doctor.facts.ranks import local_rank
from dl_doctor.model import NO_GPU, Ended, Unavailable
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings
from dl_doctor.system import System
from dl_doctor.units import GIB, MIB
from tests import facts
from tests.fakes import Fakes

NO_SLURM = Unavailable.absent("no Slurm here")
LAUNCHED = {"LOCAL_RANK": "3"}
EIGHT_RANKS = Ranks(on_node=8, in_task=8, source="torchrun, LOCAL_WORLD_SIZE=8")


def asked(**given: Any) -> GpuProbe | Unavailable:
    """On a machine with two idle H100 that CUDA begins with, unless a test says otherwise; no interpreter is there to start."""
    known = {
        "settings": Settings(),
        "environment": Environment({}),
        "driver": facts.nvidia_driver(),
        "grant": facts.gpu_grant(nodes=("nvidia0", "nvidia1")),
        "own": facts.own_gpus(0, 1),
        "states": facts.gpu_states(),
        "seen": facts.torch_gpus(2),
        "smoke": facts.cuda_smoke(),
        "target": facts.target(path="/nonexistent/python"),
        "files": facts.torch_files(),
        "slurm": NO_SLURM,
        "ranks": Ranks(on_node=1, in_task=1, source="a test"),
        "allowance": facts.allowance(200 * GIB),
        "cpus": facts.cpu_budget(),
        **given,
    }

    async def run() -> GpuProbe | Unavailable:
        system = System()
        probes = Probes(system, system.clock_s() + 60)
        try:
            return await gpu_probe.collect(probes, **known)
        finally:
            probes.close()
            probes.see_off()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"seen": Unavailable.absent(NO_GPU)}, NO_GPU),  # before all else: then nothing of this area applies
        ({"seen": facts.torch_gpus(0, init_code=803)}, "PyTorch sees no GPU"),
        ({"states": Unavailable.timeout("no answer within 20 s")}, "no answer within 20 s"),
        ({"states": facts.gpu_states(gpus=(), error="UNKNOWN")}, "in use is not known: NVML gives UNKNOWN"),
        ({"files": facts.torch_files(None)}, "is not PyTorch"),
        ({"slurm": facts.slurm(gpus=())}, "this Slurm job was granted no GPU"),
        ({"allowance": Unavailable.failed("how much memory may be taken is not known")}, "how much memory"),
        (
            {"allowance": facts.allowance(2 * GIB)},
            "PyTorch takes about 1 GiB of memory, and a quarter of what is left is 512 MiB",
        ),
        (
            {"states": facts.gpu_states(*(facts.gpu_state(index, memory_used_bytes=30 * GIB) for index in (0, 1)))},
            "gpu:0, gpu:1: 30 GiB of its memory are in use",
        ),
        (  # the one that is this job's; what others do on theirs is no trouble, and nothing that may be measured
            {
                "own": facts.own_gpus(1),
                "states": facts.gpu_states(facts.gpu_state(0), facts.gpu_state(1, compute_mode="prohibited")),
            },
            "gpu:1: its compute mode is prohibited",
        ),
        (  # of a node where nobody hides the others from a job
            {"own": facts.own_gpus(source="Slurm's grant"), "states": facts.gpu_states(count=1)},
            "gpu:0: it is not this job's, by Slurm's grant",
        ),
        (  # one of two is in use, and cannot be told from the other one
            {"states": facts.gpu_states(facts.gpu_state(0), facts.gpu_state(1, pci=None, memory_used_bytes=30 * GIB))},
            "gpu:1: 30 GiB",
        ),
        (
            {"smoke": facts.cuda_smoke(facts.smoked(1, ended=Ended(how="hung", step="copy on GPU 1")))},
            "a process that computed on gpu:1 did not get over it",
        ),
        (
            {
                "states": facts.gpu_states(facts.gpu_state(0)),
                "smoke": facts.cuda_smoke(facts.smoked_until("product", number=719, pci=facts.gpu_state(0).pci)),
            },
            "gpu:0: it does not compute right",
        ),
        ({"environment": Environment(LAUNCHED), "ranks": EIGHT_RANKS}, "rank 3 has none of the 2 GPUs for itself"),
    ],
)
def test_where_nothing_is_begun(given: dict[str, Any], why: str) -> None:
    told = asked(**given)

    assert isinstance(told, Unavailable), told
    assert why in told.detail


def test_an_interpreter_that_is_not_there_is_no_trouble_of_a_gpu() -> None:
    told = asked()

    assert isinstance(told, Unavailable)
    assert (told.kind, "cannot be started" in told.detail) == ("failed", True)


def test_the_same_reason_is_told_once() -> None:
    assert of_each([("gpu:0", "busy"), ("gpu:1", "full"), ("gpu:2", "busy")]) == "gpu:0, gpu:2: busy; gpu:1: full"


@pytest.mark.parametrize(
    ("variables", "in_step", "rank"),
    [
        ({}, True, None),
        ({"LOCAL_RANK": "5", "SLURM_LOCALID": "0"}, True, 5),  # torchrun inside one task
        ({"SLURM_LOCALID": "3"}, True, 3),
        ({"SLURM_LOCALID": "0"}, False, None),  # the batch script
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "2"}, False, 2),
        ({"LOCAL_RANK": "-1"}, False, None),  # DeepSpeed's argument before anybody is a rank
    ],
)
def test_the_number_of_a_rank(variables: dict[str, str], in_step: bool, rank: int | None) -> None:
    assert local_rank(Environment(variables), facts.slurm(in_step=in_step)) == rank


@pytest.mark.parametrize(
    ("rank", "own", "index"), [(None, (0, 1), None), (1, (4, 5), 5), (0, (), None), (2, (0, 1), None), (1, None, None)]
)
def test_a_rank_looks_at_its_own_gpu(rank: int | None, own: tuple[int, ...] | None, index: int | None) -> None:
    told = Unavailable.absent("a test") if own is None else facts.own_gpus(*own)

    assert likely_index(rank, told) == index


@pytest.mark.parametrize(
    ("headroom", "length", "size"),
    [(200 * GIB, "short", 128 * MIB), (200 * GIB, "long", 256 * MIB), (5 * GIB, "short", 64 * MIB), (4 * GIB, "short", MIB)],
)
def test_buffers_in_the_hosts_memory_shrink_with_it(headroom: int, length: str, size: int) -> None:
    assert host_bytes(facts.allowance(headroom), length) == size


NAMES = ["at_s", "sm_mhz", "memory_mhz", "power_mw", "temperature_c", "reasons", "link_gen", "link_width", "replays"]


def measured(index: int, pci: str | None, **fields: Any) -> dict[str, Any]:
    """A GPU as the probe tells of it."""
    known = {"name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "multiprocessors": 132, "memory_bytes": 80 * GIB}
    told = {"integrated": False, "backend": "cuda", "raised": {}, "skipped": None, "digest": "a", "mask_numa": [0]}
    return {"index": index, "pci": pci, **known, **told, **fields}


def rate(index: int, what: str, achieved: float) -> dict[str, Any]:
    unit = "GB/s" if "host" in what or what == "copy" else "TFLOP/s"
    return {"index": index, "what": what, "unit": unit, "achieved": achieved, "best": achieved, "spread": 0.01, "blocks": 9}


def test_what_two_processes_tell_is_joined_by_address_and_time() -> None:
    """PyTorch counts the GPUs the other way round here, as it may without CUDA_DEVICE_ORDER."""
    told = {
        "gpus": [measured(0, "0000:02:00.0"), measured(1, "0000:01:00.0")],
        "rates": [rate(0, "bf16", 400.0), rate(1, "bf16", 790.0), rate(1, "host to device", 55.0), rate(1, "strange", 1.0)],
        "phases": [
            {"phase": "products", "index": None, "begin_s": 10.0, "end_s": 10.4},
            {"phase": "host copies", "index": 1, "begin_s": 11.0, "end_s": 11.2},
        ],
    }
    seen = {
        "gpus": [
            {
                "index": bus - 1,
                "pci": f"0000:0{bus}:00.0",
                "names": NAMES,
                "looks": [[at_s, mhz, *6 * [None], 0] for at_s in times],
            }
            for bus, mhz in ((1, 1755), (2, 900))
            for times in [(9.9, 10.1, 10.2, 11.1)]
        ]
    }
    gpus, rates = joined(told, seen, facts.gpu_states().gpus)

    assert [(gpu.gpu, gpu.nvml_index, gpu.uuid) for gpu in gpus] == [
        ("gpu:0", 1, "GPU-00000001-0000"),
        ("gpu:1", 0, "GPU-00000000-0000"),
    ]
    assert [[(load.phase, load.samples, load.sm_mhz) for load in gpu.loads] for gpu in gpus] == [
        [("products", 2, 900)],
        [("products", 2, 1755), ("host copies", 1, 1755)],
    ]
    assert [(rate.gpu, rate.what, rate.achieved, rate.basis) for rate in rates] == [
        ("gpu:0", "bf16", 400.0, "datasheet"),
        ("gpu:1", "bf16", 790.0, "datasheet"),
        ("gpu:1", "host to device", 55.0, "link"),
        ("gpu:1", "strange", 1.0, None),
    ]
    assert rates[2].possible == pytest.approx(63, abs=0.1)


def test_without_nvml_there_are_rates_and_nothing_else() -> None:
    """As with AMD's: no reference goes by NVML's address."""
    its = measured(0, None, backend="hip", capability=None, name="AMD Radeon Graphics", raised={"fp32": "out of memory"})
    gpus, rates = joined({"gpus": [its], "rates": [rate(0, "bf16", 500.0)], "phases": []}, {"error": "LIBRARY_NOT_FOUND"}, ())

    assert (gpus[0].nvml_index, gpus[0].loads, gpus[0].raised) == (None, (), {"fp32": "out of memory"})
    assert [(rate.achieved, rate.possible) for rate in rates] == [(500.0, None)]


def test_all_of_it_on_the_cpu(torch_python: str, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code as on GPUs, with the real PyTorch, hundredths of the times, and our NVML beside it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.install(tmp_path / "lib")))
    (tmp_path / "gpus").write_text("count=2\n")
    monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(gpu_probe, "DEVICE", "cpu")
    monkeypatch.setattr(gpu_probe, "SCALE", 0.03)
    monkeypatch.setattr(gpu_probe, "MOST_BYTES", 4 * MIB)
    little = facts.allowance(int(4.1 * GIB))  # for small buffers
    told = asked(target=facts.target(path=torch_python), settings=Settings(profile="deep"), allowance=little)

    assert isinstance(told, GpuProbe), told
    assert told.ended.how == "answered", told.ended
    assert told.watched is not None
    assert (told.watched.how, told.watch_error) == ("answered", None)
    (cpu,) = told.gpus
    assert (cpu.gpu, cpu.backend, cpu.skipped, cpu.raised) == ("gpu:0", "cpu", None, {})
    assert len(cpu.digest or "") == 16
    assert cpu.digest_repeated is None
    assert None not in (cpu.sustained, cpu.launch_us, cpu.wait_us)
    assert cpu.overlap is None  # there are no two queues
    names = ["bf16", "fp32", "fp16", "copy", "host to device", "device to host"]
    assert [rate.what for rate in told.rates] == [*names, "host to device, pageable", "device to host, pageable"]
    for rate in told.rates:
        assert 0 < rate.achieved <= rate.best, rate
        assert rate.blocks >= 1
        assert rate.possible is None
