"""Whether a worker process answers, for each start method of the target's Python."""

from typing import Any

import msgspec

from dl_doctor.facts.target import Target
from dl_doctor.model import Ended
from dl_doctor.probing import Probes, signal_name

PATIENCE_S = 15
"""How long a child of one method may take. With a healthy disk it answers within a quarter of a second."""

DEADLINE_S = 55


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """A child that was started by one method and asked for one answer."""

    method: str
    ended: Ended
    """`raised`: it could not be started; otherwise what became of the child."""

    duration_s: float
    """From before it was started until its answer was there."""


class WorkerRoundtrip(msgspec.Struct, frozen=True, kw_only=True):
    """Source: a real child of each method that multiprocessing offers in the target's Python; it sends one message back."""

    ended: Ended
    """What became of the process that started them, with what they printed."""

    trips: tuple[Trip, ...]


async def collect(probes: Probes, target: Target) -> WorkerRoundtrip:
    probed = await probes.run("worker_roundtrip", {"patience_s": PATIENCE_S}, python=target.path, deadline_s=DEADLINE_S)
    trips = (probed.answer or {}).get("trips", ())
    return WorkerRoundtrip(ended=probed.ended, trips=tuple(map(trip, trips)))


def trip(told: dict[str, Any]) -> Trip:
    """What the probe tells of one child."""
    code = told["exit_code"]
    killed = told["how"] == "exited" and code is not None and code < 0
    ended = Ended(
        how="killed" if killed else told["how"],
        exit_code=None if killed else code,
        signal=signal_name(-code) if killed else None,
        error=told["error"],
    )
    return Trip(method=told["method"], ended=ended, duration_s=told["duration_s"])
