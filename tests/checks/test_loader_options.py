"""Arguments of a loader that leave nothing to do, wait for ever, or do nothing."""

from typing import Any

import pytest

from dl_doctor.checks.workers.loader_options import CHECK
from dl_doctor.facts.environment import Environment
from dl_doctor.model import Unavailable
from tests.facts import gpu_grant, loader, loader_arguments, runtime, slurm

NO_SLURM = Unavailable.absent("a test")
OWN = "job.collate"
SLURM, POD = slurm(), runtime("kubernetes")


def judged(
    arguments: dict[str, Any],
    *,
    length: int | None = 3200,
    where: Any = None,
    job: Any = NO_SLURM,
    gpus: Any = None,
    **variables: str,
) -> Any:
    made = loader(loader_arguments(**arguments), length=length)
    return CHECK.judge(made, Environment(variables), where or runtime("docker"), job, gpus or gpu_grant(nodes=("nvidia0",)))


@pytest.mark.parametrize(
    ("arguments", "rest", "levels"),
    [
        ({}, {}, []),
        ({"batches": 0, "drop_last": True}, {"length": 20}, ["fail"]),
        ({"batches": 0}, {"length": 0}, ["fail"]),
        ({"batches": None}, {"length": None}, []),  # a stream need not say
        ({"batches": 1, "drop_last": True}, {"length": 40, "WORLD_SIZE": "8"}, ["warn"]),  # Accelerate will deal 40 out to 8
        ({"batches": 1, "drop_last": True, "rank_aware": True}, {"length": 256, "WORLD_SIZE": "8"}, []),  # 32 for each already
        ({"batches": 2}, {"length": 40, "WORLD_SIZE": "8"}, []),  # without drop_last each has a small one
        ({"collate_fn": OWN}, {}, []),  # somebody may look at a docker container
        ({"collate_fn": OWN}, {"job": SLURM}, ["warn"]),
        ({"collate_fn": OWN}, {"job": SLURM, "SLURM_STEP_ID": "4294967290"}, []),  # the shell of salloc
        ({"collate_fn": OWN}, {"job": SLURM, "SLURM_STEP_ID": "0"}, ["warn"]),
        ({"collate_fn": OWN}, {"where": POD}, ["warn"]),
        ({"collate_fn": OWN, "timeout_s": 600.0}, {"where": POD}, []),
        ({"collate_fn": OWN, "num_workers": 0}, {"where": POD}, []),
        ({"pin_memory": True}, {}, []),
        ({"pin_memory": True}, {"gpus": gpu_grant()}, ["note"]),
        ({"persistent_workers": True}, {}, []),
        ({"persistent_workers": True, "dataset_has_set_epoch": True}, {}, ["note"]),
        ({"dataset_has_set_epoch": True}, {}, []),  # workers that are started anew see it
    ],
)
def test_options(arguments: dict[str, Any], rest: dict[str, Any], levels: list[str]) -> None:
    assert [finding.level for finding in judged(arguments, **rest).findings] == levels


def test_the_line_to_change_is_named() -> None:
    (finding,) = judged({"batches": 0, "drop_last": True}, length=20).findings

    assert finding.subject == "DataLoader.drop_last"
    assert finding.summary == "An epoch has no batch: the dataset has 20 samples, a batch 32, and drop_last drops what is less"


def test_a_dataset_without_a_loader_is_skipped() -> None:
    assert CHECK.judge(loader(), Environment({}), runtime(), NO_SLURM, gpu_grant()).status == "skip"
