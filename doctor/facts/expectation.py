"""What the site expects of this node: [expect] in a settings file."""

import msgspec

from dl_doctor.model import Unavailable
from dl_doctor.settings import Settings
from dl_doctor.units import parse_size


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Source: [expect] of the settings files. None where nothing is expected."""

    gpus: int | None
    gpu_model: str | None
    """A part of each GPU's name."""

    driver: str | None
    """The oldest one."""

    free_bytes: dict[str, int]
    """Least room by path."""


def collect(settings: Settings) -> Expectation | Unavailable:
    expect = settings.expect
    if expect is None:
        return Unavailable.not_asked("needs [expect] in a settings file")
    return Expectation(
        gpus=expect.gpus,
        gpu_model=expect.gpu_model,
        driver=expect.driver,
        free_bytes={path: parse_size(str(size)) for path, size in (expect.free_space or {}).items()},
    )
