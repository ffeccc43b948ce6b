"""A rank takes the GPU of its own number; it must be there, and nobody else's."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.gpu_per_rank import CHECK
from dl_doctor.facts import Ranks
from dl_doctor.facts.environment import Environment
from dl_doctor.model import Unavailable, Verdict
from tests.facts import gpu, nvml, nvml_error, slurm, visible_gpus

NO_SLURM = Unavailable.absent("no Slurm")
STEP, BATCH = slurm(gpus=("0", "1", "2", "3")), slurm(gpus=("0",), in_step=False)
FOUR = nvml(count=4)


def judge(ranks: int, known: Any = FOUR, job: Any = NO_SLURM, *, devices: str | None = None, **variables: str) -> Verdict:
    counted = Ranks(on_node=ranks, in_task=1, source="a test")
    return CHECK.judge(counted, Environment(variables), known, visible_gpus(known, devices), job)


@pytest.mark.parametrize(
    ("ranks", "known", "job", "variables", "levels"),
    [
        (4, FOUR, NO_SLURM, {"LOCAL_RANK": "3"}, []),
        (4, nvml(count=1), STEP, {"SLURM_LOCALID": "3"}, ["fail"]),  # --gpus-per-task=1
        (4, nvml(count=1), STEP, {"SLURM_LOCALID": "0"}, []),  # the first one has what it takes
        (4, FOUR, STEP, {"SLURM_LOCALID": "3"}, []),
        (8, FOUR, NO_SLURM, {"LOCAL_RANK": "1"}, ["fail"]),
        (8, FOUR, NO_SLURM, {"LOCAL_RANK": "7"}, ["fail", "fail"]),
        (8, FOUR, NO_SLURM, {"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, ["fail"]),
        (8, FOUR, NO_SLURM, {}, ["fail"]),  # PET_NPROC_PER_NODE: torchrun is told
        (8, nvml(count=1), BATCH, {"SLURM_LOCALID": "0"}, ["note"]),  # --ntasks=8 is often meant as eight CPUs
        (4, FOUR, NO_SLURM, {"LOCAL_RANK": "x"}, []),
    ],
)
def test_ranks_against_gpus(ranks: int, known: Any, job: Any, variables: dict[str, str], levels: list[str]) -> None:
    assert [finding.level for finding in judge(ranks, known, job, **variables).findings] == levels


def test_the_fix_for_slurm() -> None:
    (finding,) = judge(4, nvml(count=1), STEP, SLURM_LOCALID="3").findings

    assert finding.fix_for("slurm").commands[0] == "srun --gpu-bind=none ..."
    assert finding.summary == "SLURM_LOCALID is 3, and this process sees 1 GPU"


@pytest.mark.parametrize(
    ("ranks", "known", "devices"),
    [
        (1, FOUR, None),
        (4, nvml_error("LIBRARY_NOT_FOUND"), None),
        (4, FOUR, "-1"),  # ranks that work on CPUs
        (4, nvml(gpu(0, mig=True)), None),
    ],
)
def test_what_is_not_judged(ranks: int, known: Any, devices: str | None) -> None:
    assert judge(ranks, known, devices=devices).status == "skip"


def test_what_cuda_shows_counts() -> None:
    assert judge(4, FOUR, LOCAL_RANK="1", devices="0").status == "fail"
