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

WHOLE = re.compile("([+-]?)([0-9]+)", re.ASCII)
FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)

SEGMENT, SEGMENT_MB = "large_segment_size_mb", 20
SPLIT = ("max_split_size_mb", "max_non_split_rounding_mb")


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
    """What is wrong first, and whether it is for every release of torch.

    As torch 2.13 does it, which looks neither for the colon nor for the comma, and takes whatever stands there for one; what is
    wrong then is most often the next word.
    """
    tokens = TOKEN.findall("".join(text.split()))
    place = 0
    while place < len(tokens):
        key = tokens[place]
        if key not in KEYS:
            return f"{key!r} is no setting of it", False
        value = tokens[place + 2 :]
        if not value:
            return f"{key} has no value", True
        length = value.index("]") + 1 if value[0] == "[" and "]" in value else 1
        if trouble := KEYS[key](value[:length]) or too_small(key, value, tokens):
            return f"{key} {trouble}", True
        place += 3 + length
    return None, True


def too_small(key: str, value: list[str], tokens: list[str]) -> str | None:
    """What is split, or rounded, must be no smaller than a large segment, which is of 20 MiB unless it is set."""
    if key not in SPLIT:
        return None
    named = tokens.index(SEGMENT) if SEGMENT in tokens else len(tokens)
    least = whole(tokens[named + 2 : named + 3]) or SEGMENT_MB
    return f"is below {least}" if (whole(value[:1]) or 0) < least else None


def number(value: list[str]) -> str | None:
    return "is no number" if whole(value) is None else None


def segment(value: list[str]) -> str | None:
    return "is not above 10" if (whole(value) or 0) <= 10 else None


def positive(value: list[str]) -> str | None:
    return None if whole(value) else "is no number above 0"


def switch(value: list[str]) -> str | None:
    return None if value in (["True"], ["False"]) else f"is {''.join(value)}, and not True or False"


def threshold(value: list[str]) -> str | None:
    return None if 0 < fraction(value) < 1 else "is not between 0 and 1"


def share(value: list[str]) -> str | None:
    return None if 0 <= fraction(value) <= 1 else "is not between 0 and 1"


def divisions(value: list[str]) -> str | None:
    """`4`, or `[256:1,512:2,>:8]`."""
    if value[0] != "[":
        return None if is_power_of_two(whole(value) or 0) else "is no power of two"
    if value[-1] != "]":
        return "is a list without an end"
    for pair in filter(None, "".join(value[1:-1]).split(",")):
        size, _, parts = pair.partition(":")
        divided = whole([parts])
        if divided is None or not (divided == 0 or is_power_of_two(divided)):
            return "has an entry whose divisions are no power of two"
        if size != ">" and not is_power_of_two(whole([size]) or 0):
            return "has an entry whose size is no power of two"
    return None


def backend(value: list[str]) -> str | None:
    known = ("native", "cudaMallocAsync", "hipMallocAsync")
    return None if "".join(value) in known else f"is {''.join(value)}, and not native or cudaMallocAsync"


def threads(value: list[str]) -> str | None:
    told = whole(value) or 0
    return None if is_power_of_two(told) and told <= 128 else "is no power of two up to 128"


def whole(value: list[str]) -> int | None:
    """A number as strtoull(3) reads it: it stops at what is no digit (`128MB` is 128), and takes -1 for the largest there is."""
    found = WHOLE.match("".join(value))
    if not found:
        return None
    return int(found[2][:18]) if found[1] != "-" else 1 << 64


def fraction(value: list[str]) -> float:
    """A number as strtod(3) reads it; nan where it is none."""
    found = FRACTION.match("".join(value))
    return float(found[0]) if found else float("nan")


def is_power_of_two(told: int) -> bool:
    return told > 0 and told & (told - 1) == 0


KEYS: dict[str, Callable[[list[str]], str | None]] = {
    "max_split_size_mb": number,
    "max_non_split_rounding_mb": number,
    "large_segment_size_mb": segment,
    "garbage_collection_threshold": threshold,
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
    "pinned_reserve_segment_size_mb": positive,
    "pinned_max_round_threshold_mb": number,
    "pinned_max_cached_size_mb": number,
}
"""What each of torch's settings takes: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp up to 2.13, and the page
"CUDA semantics", section "Optimizing memory usage with PYTORCH_ALLOC_CONF". Limits are those that torch 2.13 was seen to have;
those of settings of CUDA alone are read in its source, or (per_process_memory_fraction, throw_on_cudamalloc_oom) from memory."""
