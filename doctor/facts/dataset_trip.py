"""Whether the dataset reaches a worker: what its pickle weighs, what in it cannot be pickled, and how real trips ended."""

from typing import Literal

import msgspec

from dl_doctor.facts.examination import Examination
from dl_doctor.facts.loader_plan import LoaderPlan
from dl_doctor.facts.memory_budget import MAIN_PROCESS_BYTES
from dl_doctor.facts.start_methods import StartMethods
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import Probes, signal_name

PATIENCE_S = 20
"""How long a child may take, which imports torch where the dataset holds tensors. With a healthy disk that takes 2 s."""

DEADLINE_S = 45.0


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot travel."""

    path: str
    """Such as `dataset.transform.transforms[2].fn`."""

    type: str
    """`class` where it is not the object itself but its class."""

    name: str | None
    """Of a function or class: `make.<locals>.Data`; None of other objects."""

    module: str | None
    line: str | None
    """`/code/train.py:12`, where a function or class is defined."""


class Heaviest(msgspec.Struct, frozen=True):
    """The attribute of the dataset that weighs most."""

    path: str
    type: str
    bytes: int


class DatasetTravel(msgspec.Struct, frozen=True, kw_only=True):
    """One trip to a real child of one method."""

    method: str
    ended: Ended
    where: Literal["parent", "child"] | None
    """Where it failed: when it was pickled or the child started, or in the child that received it."""

    duration_s: float


class DatasetTrip(msgspec.Struct, frozen=True, kw_only=True):
    """Source: dataset, collate_fn and worker_init_fn as arguments of a process of multiprocessing, as a DataLoader gives them.
    Sampler and generator never travel.
    """

    ended: Ended
    error: str | None = None
    """The exception of pickling, with multiprocessing's own pickler."""

    culprit: Culprit | None = None
    pickle_bytes: int = 0
    """What goes through a pipe to each worker; counted, not kept."""

    storage_bytes: int = 0
    """Tensors beside it, which move into shared memory and are there once."""

    stopped: Literal["size", "time", "memory"] | None = None
    """Why counting stopped: there is more of it than that."""

    heaviest: Heaviest | None = None
    """Looked for from 16 MiB on."""

    not_tried: Literal["size", "time", "memory", "storages", "device", "child"] | None = None
    """Why no child was started that gets it by pickle: the dataset, or a child that imports torch alone, could take more memory
    than the examination may, or it lies on a GPU."""

    trips: tuple[DatasetTravel, ...] = ()

    def trip_by(self, method: str) -> DatasetTravel | None:
        return next((trip for trip in self.trips if trip.method == method), None)


async def collect(probes: Probes, examination: Examination, plan: LoaderPlan, methods: StartMethods) -> DatasetTrip | Unavailable:
    method = methods.in_force(plan.start_method)
    if method not in methods.available:
        return Unavailable.absent(f"the job's Python cannot start workers by {method}: see start-method")
    others = ["spawn"] if method == "fork" and "spawn" in methods.available else []
    arguments = {
        "methods": [method, *others],
        "allowed_bytes": examination.allowed_bytes,
        "child_bytes": MAIN_PROCESS_BYTES,
        "patience_s": PATIENCE_S,
    }
    probed = await probes.run("dataset_trip", arguments, deadline_s=DEADLINE_S, place="loaded")
    told = probed.answer or {}
    trips = [travel(one) for one in told.pop("trips", ())]
    return msgspec.convert({"ended": probed.ended, **told, "trips": trips}, DatasetTrip)


def travel(told: dict[str, object]) -> DatasetTravel:
    """What the probe tells of one trip."""
    code = told["exit_code"]
    killed = isinstance(code, int) and code < 0
    ended = Ended(
        how="killed" if killed else told["how"],  # type: ignore[arg-type]
        exit_code=code if isinstance(code, int) and not killed else None,
        signal=signal_name(-code) if isinstance(code, int) and killed else None,
        error=told["error"],  # type: ignore[arg-type]
        output_tail=str(told["printed"]),
    )
    return msgspec.convert(
        {"method": told["method"], "ended": ended, "where": told["where"], "duration_s": told["duration_s"]}, DatasetTravel
    )
