"""Whether the job needs a GPU that computes with bf16 itself."""

import msgspec

from dl_doctor.settings import Settings

REQUIRED = "gpu-precision"


class WantedPrecision(msgspec.Struct, frozen=True):
    """Source: --require gpu-precision."""

    bf16: bool


def collect(settings: Settings) -> WantedPrecision:
    return WantedPrecision(REQUIRED in (settings.require or ()))
