"""How tensors travel between processes: by descriptors, or by names in /dev/shm."""

import msgspec

from dl_doctor.facts.examination import Examination
from dl_doctor.facts.loader import Loader
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.model import Ended
from dl_doctor.probing import Probes
from dl_doctor.settings import Settings

DEADLINE_S = 25.0


class SharingStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """Source: torch.multiprocessing.get_sharing_strategy() in the process that made the dataset, and in a worker."""

    ended: Ended
    method: str
    available: tuple[str, ...] = ()
    here: str | None = None
    worker: str | None = None
    """In a worker that has got the dataset; None where none was asked, because both have the default."""


async def collect(
    probes: Probes, settings: Settings, examination: Examination, loader: Loader, methods: StartMethods
) -> SharingStrategy:
    method = methods.in_force(settings.start_method or loader.start_method)
    arguments = {"method": method, "workers": examination.num_workers != 0, "allowed_bytes": examination.allowed_bytes}
    probed = await probes.run("sharing_strategy", arguments, deadline_s=DEADLINE_S, place="loaded")
    return msgspec.convert({"method": method, **(probed.answer or {}), "ended": probed.ended}, SharingStrategy)
