"""How torch is told to give out a GPU's memory (PYTORCH_ALLOC_CONF), and whether it can read that."""

import re
from collections.abc import Callable

import msgspec

from dl_doctor.facts.environment import Environment
from dl_doctor.facts.torch_files import TorchFiles
from dl_doctor.model import Unavailable

GENERAL_SINCE = (2, 9)
"""The release from which PYTORCH_ALLOC_CONF is read, and goes before the older names, which it calls deprecated. From memory."""

KNOWN_UNTIL = (2, 13)
"""The newest release whose keys are all below; a later one may have more."""

TOKEN = re.compile(r"[,:\[\]]|[^,:\[\]\s]+")
"""A list that is `key:value,key:[value,value]`. Blanks count for nothing, also within a word."""

DIGITS = re.compile("[0-9]+", re.ASCII)


class AllocatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Source: PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF, PYTORCH_HIP_ALLOC_CONF."""

    variable: str | None
    """The one that torch reads; None where none is set."""

    value: str | None
    trouble: str | None
    """What torch cannot read in it; None where it can."""

    certain: bool
    """Whether that is wrong for every torch; a key that is not known here may be one of a newer release."""

    passed_over: tuple[str, ...]
    """Others that are set too."""


def collect(environment: Environment, torch: TorchFiles | Unavailable) -> AllocatorSettings:
    release = torch.release if isinstance(torch, TorchFiles) else None
    names = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"]
    if isinstance(torch, TorchFiles) and torch.hip:
        names.append("PYTORCH_HIP_ALLOC_CONF")
    if release is not None and release < GENERAL_SINCE:
        names.remove("PYTORCH_ALLOC_CONF")
    found = [name for name in names if environment.get(name)]
    if not found:
        return AllocatorSettings(variable=None, value=None, trouble=None, certain=True, passed_over=())
    value = environment.variables[found[0]]
    trouble, certain = read(value)
    newer = release is None or release > KNOWN_UNTIL
    return AllocatorSettings(
        variable=found[0], value=value, trouble=trouble, certain=certain or not newer, passed_over=tuple(found[1:])
    )


def read(text: str) -> tuple[str | None, bool]:
    """What is wrong first, and whether it is for every release of torch."""
    tokens = tokens_of(text)
    place = 0
    while place < len(tokens):
        key = tokens[place]
        if key not in KEYS:
            return f"{key!r} is no setting of it", False
        if tokens[place + 1 : place + 2] != [":"]:
            return f"{key} is not followed by a colon", True
        value = tokens[place + 2 :]
        end = value.index("]") + 1 if value[:1] == ["["] and "]" in value else 1
        if trouble := KEYS[key](value[:end]):
            return f"{key} {trouble}", True
        place += 2 + end
        if place < len(tokens) and tokens[place] != ",":
            return f"{tokens[place]!r} stands where a comma would", True
        place += 1
    return None, True


def tokens_of(text: str) -> list[str]:
    return TOKEN.findall("".join(text.split()))


def megabytes(least: int) -> Callable[[list[str]], str | None]:
    def judged(value: list[str]) -> str | None:
        number = whole(value)
        if number is None:
            return "is no number"
        return f"is below {least}" if number < least else None

    return judged


def switch(value: list[str]) -> str | None:
    return None if value in (["True"], ["False"]) else f"is {''.join(value) or 'empty'}, and not True or False"


def between_0_and_1(value: list[str]) -> str | None:
    try:
        return None if 0 < float("".join(value)) < 1 else "is not between 0 and 1"
    except ValueError:
        return "is no number"


def share(value: list[str]) -> str | None:
    try:
        return None if 0 <= float("".join(value)) <= 1 else "is not between 0 and 1"
    except ValueError:
        return "is no number"


def divisions(value: list[str]) -> str | None:
    """`4`, or `[256:1,512:2,>:8]`."""
    if value[:1] != ["["]:
        number = whole(value)
        return None if number is not None and is_power_of_two(number) else "is no power of two"
    if value[-1] != "]":
        return "is a list without an end"
    for pair in "".join(value[1:-1]).split(","):
        size, _, number = pair.partition(":")
        parts = whole([number])
        if parts is None or not (parts == 0 or is_power_of_two(parts)):
            return "has an entry whose divisions are no power of two"
        if size != ">" and not is_power_of_two(whole([size]) or 0):
            return "has an entry whose size is no power of two"
    return None


def backend(value: list[str]) -> str | None:
    known = ("native", "cudaMallocAsync", "hipMallocAsync")
    return None if "".join(value) in known else f"is {''.join(value) or 'empty'}, and not native or cudaMallocAsync"


def threads(value: list[str]) -> str | None:
    number = whole(value)
    return None if number is not None and is_power_of_two(number) and number <= 128 else "is no power of two up to 128"


def whole(value: list[str]) -> int | None:
    """A number as strtoull(3) reads it, which stops at what is none: `128MB` is 128."""
    found = DIGITS.match("".join(value)) if len(value) == 1 else None
    return int(found[0][:18]) if found else None


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


KEYS: dict[str, Callable[[list[str]], str | None]] = {
    "max_split_size_mb": megabytes(20),
    "max_non_split_rounding_mb": megabytes(20),
    "large_segment_size_mb": megabytes(1),
    "garbage_collection_threshold": between_0_and_1,
    "roundup_power2_divisions": divisions,
    "expandable_segments": switch,
    "backend": backend,
    "per_process_memory_fraction": share,
    "throw_on_cudamalloc_oom": switch,
    "release_lock_on_cudamalloc": switch,
    "release_lock_on_hipmalloc": switch,
    "graph_capture_record_stream_reuse": switch,
    "pinned_use_cuda_host_register": switch,
    "pinned_use_hip_host_register": switch,
    "pinned_use_background_threads": switch,
    "pinned_num_register_threads": threads,
    "pinned_reserve_segment_size_mb": megabytes(1),
    "pinned_max_round_threshold_mb": megabytes(0),
    "pinned_max_cached_size_mb": megabytes(0),
}
"""What each of torch's settings takes: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp up to 2.13, and the page
"CUDA semantics", section "Optimizing memory usage with PYTORCH_ALLOC_CONF". The limits of sizes are those of the code."""
