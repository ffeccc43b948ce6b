"""GPUs that nothing is run on."""

from typing import Any

import pytest

from dl_doctor.facts.gpu_left_alone import why_left_alone
from dl_doctor.facts.gpu_states import MPS_SERVER
from dl_doctor.units import GIB, MIB
from tests import facts

THEIRS = facts.gpu_process(memory=200 * MIB)
OURS = facts.gpu_process(4712, memory=200 * MIB, ours=True)
FAMILY = facts.gpu_process(4713, memory=20 * GIB, ours=True, related=True)
LARGE_FAMILY = facts.gpu_process(4713, memory=int(79.4 * GIB), ours=True, related=True)
UNSEEN = facts.gpu_process(815, uid=None, name=None, age_s=None)
DESKTOP = facts.gpu_process(900, kind="graphics", memory=300 * MIB, uid=0, name="Xorg")
MPS = facts.gpu_process(901, kind="compute", memory=30 * MIB, uid=0, name=MPS_SERVER)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"processes": (DESKTOP,), "display_active": True}, None),
        ({"processes": (OURS,)}, None),  # small and quiet
        ({"processes": (MPS,)}, None),  # it computes for its clients only
        ({"processes": (THEIRS,)}, "python (pid 4711) computes on it"),
        ({"processes": (UNSEEN,)}, "pid 815 computes on it"),
        ({"memory_used_bytes": 12 * GIB}, "12 GiB of its memory are in use"),  # whoever it is, he is out of sight
        ({"utilisation": (0.9, 0.8, 0.95)}, "something keeps it busy: at least 80 % of the time"),
        ({"utilisation": (0.9, 0.0, 0.95)}, None),  # a monitor's look, or a screen that was drawn
        ({"processes": (FAMILY,), "memory_used_bytes": 20 * GIB}, None),  # the notebook that calls the doctor, and waits
        ({"processes": (FAMILY,), "memory_used_bytes": 20 * GIB, "utilisation": (0.9, 0.9, 0.9)}, "something keeps it busy"),
        ({"processes": (LARGE_FAMILY,), "memory_used_bytes": int(79.5 * GIB)}, "only 512 MiB of its memory are free"),
        ({"memory_total_bytes": 2 * GIB, "memory_used_bytes": 300 * MIB}, None),  # a small one, and a screen
        ({"memory_total_bytes": None, "memory_used_bytes": None, "utilisation": ()}, None),  # nothing speaks against it
        ({"compute_mode": "prohibited"}, "its compute mode is prohibited"),
        ({"compute_mode": "exclusive_process"}, None),
        ({"compute_mode": "exclusive_process", "processes": (OURS,)}, "python (pid 4712) holds it"),
        ({"compute_mode": "exclusive_process", "processes": (DESKTOP, MPS)}, None),  # how MPS is meant to be set up
        ({"mig": True, "mig_instances": 3, "memory_used_bytes": 60 * GIB, "processes": (THEIRS,)}, None),  # in other instances
        ({"errors": {"nvmlDeviceGetMemoryInfo": "GPU_IS_LOST"}}, "NVML has lost it"),
    ],
)
def test_why(fields: dict[str, Any], why: str | None) -> None:
    told = why_left_alone(facts.gpu_state(**fields))

    assert told is None if why is None else why in (told or ""), told
