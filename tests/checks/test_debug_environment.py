"""What is left over of a search for a bug, and settings of torch's allocator that it cannot read."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.debug_environment import CHECK, VARIABLES
from dl_doctor.facts.environment import ALLOWED, Environment
from dl_doctor.model import Unavailable, Verdict
from tests.facts import allocator_settings, gpu_grant, nvidia_driver

NONE_SET = allocator_settings(variable=None, value=None)


def judge(variables: dict[str, str], allocator: Any = NONE_SET, driver: Any = None, grant: Any = None) -> Verdict:
    return CHECK.judge(Environment(variables), allocator, driver or nvidia_driver(), grant or gpu_grant())


@pytest.mark.parametrize(
    ("variables", "subjects"),
    [
        ({}, []),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, ["CUDA_LAUNCH_BLOCKING"]),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, []),
        ({"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}, ["CUDA_INJECTION64_PATH"]),
        ({"NSYS_PROFILING_SESSION_ID": "42"}, ["NSYS_PROFILING_SESSION_ID"]),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}, ["PYTORCH_NO_CUDA_MEMORY_CACHING"]),  # torch asks whether it is set
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, ["TORCH_DISTRIBUTED_DEBUG"]),
        ({"TORCH_DISTRIBUTED_DEBUG": "INFO"}, []),
        ({"NCCL_DEBUG": "INFO"}, []),  # many jobs have it on for good
        ({"NCCL_DEBUG": "TRACE"}, ["NCCL_DEBUG"]),
        ({"PYTORCH_JIT": "0"}, ["PYTORCH_JIT"]),
        ({"PYTORCH_JIT": "1"}, []),
        ({"LD_PRELOAD": "/opt/nsys/libToolsInjectionProxy64.so:/usr/lib/libjemalloc.so.2"}, ["LD_PRELOAD"]),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, []),
        ({"AMD_SERIALIZE_KERNEL": "3", "HIP_LAUNCH_BLOCKING": "1"}, ["HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"]),
    ],
)
def test_what_is_left_over_warns(variables: dict[str, str], subjects: list[str]) -> None:
    findings = judge(variables).findings

    assert [(finding.level, finding.subject) for finding in findings] == [("warn", subject) for subject in subjects]


@pytest.mark.parametrize(
    ("allocator", "levels"),
    [
        (allocator_settings(), []),
        (allocator_settings("expandable_segments is true, and not True or False"), ["fail"]),
        (allocator_settings("'next_year' is no setting of it", certain=False), ["warn"]),
    ],
)
def test_settings_of_the_allocator(allocator: Any, levels: list[str]) -> None:
    assert [finding.level for finding in judge({}, allocator).findings] == levels


def test_each_variable_gets_into_the_facts() -> None:
    assert {row.name for row in VARIABLES} <= ALLOWED
    assert all(row.effect and row.source for row in VARIABLES)


@pytest.mark.parametrize(
    ("driver", "grant", "status"),
    [
        (nvidia_driver(0), gpu_grant(), "skip"),  # who computes on CPUs is slowed down by none of it
        (nvidia_driver(0), gpu_grant(nodes=("kfd",)), "warn"),
        (nvidia_driver(0), gpu_grant(promised=1), "warn"),
        (Unavailable.failed("a test"), gpu_grant(), "skip"),
    ],
)
def test_where_there_is_no_gpu(driver: Any, grant: Any, status: str) -> None:
    assert judge({"CUDA_LAUNCH_BLOCKING": "1"}, driver=driver, grant=grant).status == status
