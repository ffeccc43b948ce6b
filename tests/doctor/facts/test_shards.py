"""What a dataset says of its shards, and whose it is: libraries are played by types of the same shape, and never imported."""

from typing import Any

import pytest

from dl_doctor.probes.shards import packages_of, shards_of


def made(name: str, module: str = "train", *bases: type, **attributes: Any) -> Any:
    return type(name, bases, {"__module__": module, **attributes})()


def raising(_: Any) -> int:
    raise RuntimeError("not before setup()")


URLS = [f"shard-{number}.tar" for number in range(6)]
LISTED = made("SimpleShardList", "webdataset.shardlists", urls=URLS)
RESAMPLED = made("ResampledShards", "webdataset.shardlists", urls=URLS)


@pytest.mark.parametrize(
    ("dataset", "shards"),
    [
        (made("IterableDataset", "datasets.iterable_dataset", num_shards=4, n_shards=4), 4),
        (made("IterableDataset", "datasets.iterable_dataset", n_shards=4), 4),
        (made("WebDataset", "webdataset.compat", pipeline=[LISTED, print]), 6),
        (made("WebDataset", "webdataset.compat", pipeline=[RESAMPLED, print]), None),  # each worker draws from all
        (made("Records", urls=URLS), 6),
        (made("StreamingDataset", "streaming.base.dataset", num_shards=4), None),  # its workers share samples
        (made("Lines"), None),
        (made("Lines", num_shards=None), None),
        (made("Lines", num_shards=property(raising)), None),
        (made("Lines", urls="shard-{0..5}.tar"), None),  # a string is not its letters
    ],
)
def test_the_shards(dataset: Any, shards: int | None) -> None:
    assert shards_of(dataset) == shards


@pytest.mark.parametrize(
    ("loader", "packages"),
    [
        (made("DALIGenericIterator", "nvidia.dali.plugin.pytorch"), ["nvidia.dali"]),
        (made("Mine", "train", type(made("DALIGenericIterator", "nvidia.dali.plugin.pytorch"))), ["nvidia.dali", "train"]),
        (made("Loader", "ffcv.loader.loader"), ["ffcv"]),
        (made("Loader", "torchdata.nodes.loader"), ["torchdata.nodes"]),
        (made("Pipeline", "spdl.pipeline._components"), ["spdl"]),
    ],
)
def test_whose_it_is(loader: Any, packages: list[str]) -> None:
    assert packages_of(loader) == packages
