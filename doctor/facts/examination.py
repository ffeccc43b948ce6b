"""That there is a dataset to examine, and how: what its probes may take of memory, and the workers that they play."""

import msgspec

from dl_doctor.facts.loader import Loader
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """Source: Loader, StartMethods and the options."""

    allowed_bytes: int
    """What one probe, with its children, may take of memory."""

    num_workers: int | None
    """As the job will have them, per rank; None where that is not known."""

    like_the_job: bool
    """Whether what hangs or dies in a process that was forked from the one with the dataset does so in the job's: its workers
    are forked too, or nothing is alive there (threads, open files, libraries) that a fork is known to break."""


def collect(settings: Settings, loader: Loader, methods: StartMethods | Unavailable) -> Examination | Unavailable:
    if missing := loader.not_examined:
        return missing
    said = settings.num_workers
    workers = loader.num_workers if said is None else said
    method = settings.start_method or loader.start_method
    forked = workers != 0 and (methods.in_force(method) if isinstance(methods, StartMethods) else method) == "fork"
    breakable = bool(loader.threads or loader.opened or loader.unsafe_at_fork)
    return Examination(allowed_bytes=loader.allowed_bytes, num_workers=workers, like_the_job=forked or not breakable)
