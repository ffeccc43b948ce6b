"""That samples can be read at all: who reads more of them need not find out again what dataset-sample tells."""

import msgspec

from dl_doctor.facts.dataset_samples import DatasetSamples
from dl_doctor.facts.examination import Examination
from dl_doctor.model import Unavailable


class ReadableDataset(Examination, frozen=True, kw_only=True):
    """Source: Examination and DatasetSamples. One sample that raises is no obstacle; one that ends the process, does not come or
    takes too much memory is, and so is that there is none.
    """


def collect(examination: Examination, samples: DatasetSamples) -> ReadableDataset | Unavailable:
    if samples.obstacle:
        return Unavailable.absent(f"{samples.obstacle}: see dataset-sample")
    return ReadableDataset(**msgspec.structs.asdict(examination))
