"""Several ranks, and a loader that does not know it."""

from typing import Any

import pytest

from dl_doctor.checks.workers.rank_sharding import CHECK
from dl_doctor.facts import Ranks
from dl_doctor.facts.environment import Environment
from tests.facts import loader, loader_arguments


@pytest.mark.parametrize(
    ("world", "on_node", "arguments", "fields", "status", "levels"),
    [
        ("1", 1, {}, {}, "skip", []),
        ("8", 1, {}, {}, "warn", ["warn"]),  # one rank on each of eight nodes
        (None, 4, {}, {}, "warn", ["warn"]),  # Slurm's tasks, where nobody has set WORLD_SIZE yet
        ("8", 8, {"rank_aware": True}, {}, "pass", []),
        ("8", 8, {}, {"kind": "iterable"}, "skip", []),
        ("8", 8, {}, {"choices": ("train_dataloader()",)}, "pass", ["note"]),  # Lightning's Trainer deals them out
    ],
)
def test_ranks(
    world: str | None, on_node: int, arguments: dict[str, Any], fields: dict[str, Any], status: str, levels: list[str]
) -> None:
    made = loader(loader_arguments(**arguments), **fields)
    ranks = Ranks(on_node=on_node, in_task=on_node, source="a test")
    verdict = CHECK.judge(made, Environment({"WORLD_SIZE": world} if world else {}), ranks)

    assert (verdict.status, [finding.level for finding in verdict.findings]) == (status, levels)


def test_the_sampler_of_its_own_is_named() -> None:
    own = loader_arguments(batch_sampler="job.Buckets")
    (finding,) = CHECK.judge(loader(own), Environment({"WORLD_SIZE": "2"}), Ranks(on_node=2, in_task=2, source="a test")).findings

    assert "job.Buckets knows no ranks" in finding.summary
