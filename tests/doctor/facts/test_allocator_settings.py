"""What torch's allocator can read, by our reading and, where it has the setting, by torch's own."""

import json
import subprocess

import pytest

from dl_doctor.facts import allocator_settings
from dl_doctor.facts.allocator_settings import AllocatorSettings, read
from dl_doctor.facts.environment import Environment
from dl_doctor.model import Unavailable
from tests.facts import torch_files

GOOD = [
    "",
    "expandable_segments:True",
    " expandable_segments : False ",
    "max_split_size_mb:20",
    "max_split_size_mb:128,expandable_segments:True",
    "max_split_size_mb:128,",
    "max_split_size_mb,128",  # torch does not look what stands there
    "max_split_size_mb:-5",  # the largest number that there is
    "max_split_size_mb:128MB",  # read as 128
    "large_segment_size_mb:12,max_split_size_mb:15",
    "garbage_collection_threshold:0.8",
    "garbage_collection_threshold:1e-1",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "roundup_power2_divisions:[64:0,>:1],max_non_split_rounding_mb:32",
    "roundup_power2_divisions:[]",
    "pinned_use_background_threads:True",
    "pinned_max_cached_size_mb:0",
]

BAD = [
    ("expandable_segments", "expandable_segments has no value"),
    ("max_split_size_mb:", "has no value"),
    ("expandable_segments=True", "'expandable_segments=True' is no setting"),  # what people write first
    ("expandable_segments:true", "is true, and not True or False"),
    ("expandable_segments:1", "is 1, and not True or False"),
    ("max_split_size_mb:19", "is below 20"),
    ("max_split_size_mb:32,large_segment_size_mb:64", "is below 64"),
    ("large_segment_size_mb:64,max_non_split_rounding_mb:32", "is below 64"),
    ("large_segment_size_mb:10", "is not above 10"),
    ("max_split_size_mb:all", "is no number"),
    ("max_split_size_mb:128;expandable_segments:True", "'True' is no setting"),
    ("max_split_size_mb:64 max_non_split_rounding_mb:64", "'64' is no setting"),
    ("garbage_collection_threshold:1", "is not between 0 and 1"),
    ("garbage_collection_threshold:high", "is not between 0 and 1"),
    ("roundup_power2_divisions:3", "is no power of two"),
    ("roundup_power2_divisions:0", "is no power of two"),
    ("roundup_power2_divisions:[100:2]", "whose size is no power of two"),
    ("roundup_power2_divisions:[128:3]", "whose divisions are no power of two"),
    ("roundup_power2_divisions:[128:2", "is a list without an end"),
]

OF_CUDA = [
    ("backend:cudaMallocAsync", None),
    ("backend:native,pinned_num_register_threads:8", None),
    ("backend:cuda", "is cuda, and not native or cudaMallocAsync"),
    ("pinned_num_register_threads:3", "is no power of two up to 128"),
    ("pinned_num_register_threads:256", "is no power of two up to 128"),
    ("per_process_memory_fraction:1.5", "is not between 0 and 1"),
    ("pinned_reserve_segment_size_mb:0", "is no number above 0"),
    ("release_lock_on_cudamalloc:yes", "is yes, and not True or False"),
    ("max_split_size:128", "'max_split_size' is no setting"),
]
"""What a torch for CPUs does not look at: settings that only CUDA has, and words that are none."""


@pytest.mark.parametrize("text", GOOD)
def test_what_can_be_read(text: str) -> None:
    assert read(text) == (None, True)


@pytest.mark.parametrize(("text", "words"), [*BAD, *OF_CUDA])
def test_what_cannot_be_read(text: str, words: str | None) -> None:
    trouble, certain = read(text)

    assert (trouble is None) == (words is None)
    assert (words or "") in (trouble or "")
    assert certain or "is no setting" in (trouble or "")


def test_torch_agrees(torch_python: str) -> None:
    texts = [text for text in GOOD if text] + [text for text, _ in BAD]
    script = f"""
import json, torch
said = {{}}
for text in {texts!r}:
    torch._C._accelerator_setAllocatorSettings("large_segment_size_mb:20")  # what was set stays
    try:
        torch._C._accelerator_setAllocatorSettings(text)
        said[text] = True
    except Exception:
        said[text] = False
print(json.dumps(said))
"""
    ended = subprocess.run([torch_python, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(ended.stdout) == {text: read(text)[0] is None for text in texts}


NO_TORCH = Unavailable.absent("no torch")
BOTH = {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": "broken"}


@pytest.mark.parametrize(
    ("variables", "torch", "variable", "trouble", "passed_over"),
    [
        ({}, torch_files(), None, False, ()),
        ({"PYTORCH_CUDA_ALLOC_CONF": "broken"}, torch_files(), "PYTORCH_CUDA_ALLOC_CONF", True, ()),
        (BOTH, torch_files(version="2.13.0+cu130"), "PYTORCH_ALLOC_CONF", False, ("PYTORCH_CUDA_ALLOC_CONF",)),
        (BOTH, torch_files(version="2.6.0+cu124"), "PYTORCH_CUDA_ALLOC_CONF", True, ()),  # does not know the newer name
        (BOTH, NO_TORCH, "PYTORCH_ALLOC_CONF", False, ("PYTORCH_CUDA_ALLOC_CONF",)),
        ({"PYTORCH_HIP_ALLOC_CONF": "broken"}, torch_files(), None, False, ()),
        ({"PYTORCH_HIP_ALLOC_CONF": "broken"}, torch_files(hip="6.4"), "PYTORCH_HIP_ALLOC_CONF", True, ()),
    ],
)
def test_which_variable_counts(
    variables: dict[str, str], torch: object, variable: str | None, trouble: bool, passed_over: tuple[str, ...]
) -> None:
    told = allocator_settings.collect(Environment(variables), torch)  # type: ignore[arg-type]

    assert (told.variable, told.trouble is not None, told.passed_over) == (variable, trouble, passed_over)


@pytest.mark.parametrize(
    ("text", "version", "certain"),
    [
        ("of_tomorrow:1", "2.13.0", True),
        ("of_tomorrow:1", "2.14.0", False),  # it may know more
        ("expandable_segments:1", "2.14.0", True),
    ],
)
def test_a_newer_torch_may_know_more(text: str, version: str, certain: bool) -> None:
    told = allocator_settings.collect(Environment({"PYTORCH_ALLOC_CONF": text}), torch_files(version=version))

    assert isinstance(told, AllocatorSettings)
    assert told.certain is certain
