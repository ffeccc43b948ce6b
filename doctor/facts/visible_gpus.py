"""Which of the GPUs CUDA would show this process, and in which order: CUDA_VISIBLE_DEVICES."""

import re

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.nvml import Nvml
from dl_doctor.model import Unavailable

HIDDEN = frozenset({"", "nodevfiles", "none", "void", "10000"})
"""Values that schedulers and people set so that a job sees no GPU: NoDevFiles is Slurm's, 10000 HTCondor's."""

ORDINAL = re.compile(r"\s*[+]?([0-9]{1,9})", re.ASCII)
"""Read as strtoul(3) does: `1gpu2` is 1 (torch/cuda/__init__.py, _parse_visible_devices)."""


class VisibleGpus(msgspec.Struct, frozen=True, kw_only=True):
    """Source: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, against the GPUs that NVML lists."""

    told: str | None
    """The variable; None where it is not set, and all are shown."""

    in_bus_order: bool
    """CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA counts like NVML; otherwise the fastest GPU comes first."""

    taken: tuple[str, ...]
    """The tokens that count: CUDA reads from the left and stops at the first invalid one."""

    stopped_at: str | None
    """The token that is invalid; None where the list is good to its end, or was ended on purpose."""

    repeated: str | None
    """A token that stands twice, which empties the list."""

    count: int | None
    """GPUs that CUDA shows; None where that cannot be known: NVML did not say, or GPUs are divided into instances."""

    @property
    def hidden(self) -> bool:
        """Whether all are hidden, and on purpose."""
        return self.told is not None and not self.taken and self.stopped_at is None and self.repeated is None


def collect(environment: Environment, nvml: Nvml | Unavailable) -> VisibleGpus:
    told = environment.variables.get("CUDA_VISIBLE_DEVICES")
    known = nvml if isinstance(nvml, Nvml) and nvml.count is not None else None
    taken, stopped_at, repeated = read(told or "", known)
    shown = len(taken) if told is not None else len(known.usable) if known else None
    certain = told is not None and not taken
    return VisibleGpus(
        told=told,
        in_bus_order=environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
        taken=taken,
        stopped_at=stopped_at,
        repeated=repeated,
        count=shown if certain or (known and not known.divided) else None,
    )


def read(told: str, nvml: Nvml | None) -> tuple[tuple[str, ...], str | None, str | None]:
    """The tokens that count, the one that ended them, and the one that stands twice."""
    if told.strip().lower() in HIDDEN:
        return (), None, None
    taken: list[str] = []
    stem = told.strip()[:4]
    for token in map(str.strip, told.split(",")):
        name = token if stem in ("GPU-", "MIG-") else ordinal(token)
        if token.startswith("-"):
            return tuple(taken), None, None
        if name is None or not valid(name, stem, nvml):
            return tuple(taken), token, None
        if name in taken:
            return (), None, token
        taken.append(name)
    return tuple(taken), None, None


def hides_all(environment: Environment) -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides all GPUs, and on purpose, which needs no NVML to tell."""
    told = environment.variables.get("CUDA_VISIBLE_DEVICES")
    return told is not None and read(told, None) == ((), None, None)


def ordinal(token: str) -> str | None:
    found = ORDINAL.match(token)
    return str(int(found[1])) if found else None


def valid(name: str, stem: str, nvml: Nvml | None) -> bool:
    """Whether it names a GPU, as far as that can be known; what is listed by UUID goes on by UUID."""
    if stem == "MIG-":
        return name.startswith(stem)
    if stem == "GPU-":
        return name.startswith(stem) and (nvml is None or sum((gpu.uuid or "").startswith(name) for gpu in nvml.gpus) == 1)
    return nvml is None or nvml.divided or int(name) < len(nvml.usable)
