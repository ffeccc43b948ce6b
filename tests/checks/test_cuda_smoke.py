"""What came of computing on the GPUs, against what is to be said of it."""

from typing import Any

import pytest

from dl_doctor.checks.gpu.cuda_smoke import CHECK
from dl_doctor.facts.cuda_smoke import Tried
from dl_doctor.model import Ended, Verdict
from tests.facts import cuda_smoke, gpu_grant, limits, no_smoke, smoked, smoked_until

DIED = Ended(how="killed", signal="SIGSEGV", step="product on GPU 1")
OUT_OF_MEMORY = Ended(how="killed", signal="SIGKILL", step="product on GPU 1")
HUNG = Ended(how="hung", step="copy on GPU 1", pid=7, state="S", wait_channel="futex_wait_queue")
STUCK = Ended(how="stuck", step="copy on GPU 1", pid=7, state="D", wait_channel="os_acquire_mutex")
WELL = smoked()
BUSY, NO_MEMORY, ILL, NO_CODE = 46, 2, 719, 209


def judge(*gpus: Any, grant: Any = None, address_space: int | None = None, **fields: Any) -> Verdict:
    smoke = no_smoke(**fields) if "count" in fields else cuda_smoke(*gpus, **fields)
    return CHECK.judge(smoke, grant or gpu_grant(), limits(address_space_bytes=address_space))


def wrong(what: str, part: float, index: int = 0) -> Any:
    return smoked(index, **{what: Tried(wrong=part, took_s=0.1)})


@pytest.mark.parametrize(
    ("gpus", "status", "subjects"),
    [
        ([WELL], "pass", []),
        ([WELL, smoked(1)], "pass", []),
        ([wrong("product", 0.001)], "fail", ["gpu:0"]),
        ([wrong("copy", 1.0)], "fail", ["gpu:0"]),
        ([WELL, wrong("convolution", 0.5, 1)], "fail", ["gpu:1"]),
        ([smoked_until("product", number=ILL)], "fail", ["gpu:0"]),
        ([smoked_until("copy", error="RuntimeError: something that no code says")], "fail", ["gpu:0"]),
        ([smoked_until("copy", number=BUSY)], "fail", ["gpu:0"]),  # not exclusive: it needs a reset
        ([smoked_until("copy", number=BUSY, compute_mode=3)], "skip", []),  # held, perhaps by this very job
        ([smoked_until("copy", number=BUSY, compute_mode=1)], "skip", []),  # of an old driver
        ([smoked_until("copy", number=BUSY, compute_mode=2)], "fail", ["gpu:0"]),  # prohibited
        ([smoked_until("product", number=NO_MEMORY)], "error", []),  # it filled up meanwhile, or is ill
        ([WELL, smoked_until("product", number=NO_MEMORY, index=1)], "error", []),
        ([WELL, smoked(1, skipped="it is 97 % busy", copy=None, product=None, convolution=None)], "skip", []),  # not all computed
        ([WELL, smoked_until("product", 1, number=NO_CODE)], "fail", ["gpu:1"]),
        ([WELL, smoked_until("product", 1, number=NO_CODE, integrated=True)], "warn", ["gpu:1"]),  # a processor's own graphics
        ([smoked_until("product", number=NO_CODE, integrated=True)], "fail", ["gpu:0"]),  # it is all there is
        ([WELL, smoked(1, ended=DIED, convolution=None)], "fail", ["gpu:1"]),
        ([WELL, smoked(1, ended=STUCK, convolution=None)], "fail", ["gpu:1"]),
        ([WELL, smoked(1, ended=HUNG, convolution=None)], "error", []),
        ([WELL, smoked(1, ended=OUT_OF_MEMORY, convolution=None)], "error", []),  # the host's
    ],
)
def test_by_what_came_of_each(gpus: list[Any], status: str, subjects: list[str]) -> None:
    verdict = judge(*gpus)

    assert (verdict.status, [finding.subject for finding in verdict.findings]) == (status, subjects)


def test_one_that_hangs_is_told_with_its_process() -> None:
    reason = judge(smoked(1, ended=HUNG), ended=HUNG, stopped=True).reason

    assert reason is not None
    assert "did not come back in time (waiting in futex_wait_queue) at: copy on GPU 1 (pid 7, state S)" in reason.detail


def test_gpus_that_were_not_tried_any_more_are_no_pass() -> None:
    assert judge(WELL, stopped=True).status == "error"


@pytest.mark.parametrize(
    ("code", "words", "cause"),
    [
        (209, "this PyTorch has no code for this kind of GPU (code 209)", "torch-arch-list"),
        (214, "the GPU's memory has an error that cannot be corrected (code 214)", "gpu-health"),
        (222, "too old to compile", "gpu-driver-floor"),
        (4711, "fails at a product: it raises RuntimeError: the error itself", None),
    ],
)
def test_a_code_is_explained(code: int, words: str, cause: str | None) -> None:
    (finding,) = judge(
        smoked_until("product", error="RuntimeError: the error itself\nCompile with `TORCH_USE_CUDA_DSA`", number=code)
    ).findings

    assert words in finding.summary
    assert finding.explained_by == cause
    assert finding.why == "RuntimeError: the error itself."
    assert finding.fixes


def test_a_convolution_alone_is_a_matter_of_libraries() -> None:
    error = "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"

    assert judge(smoked_until("convolution", error=error)).findings[0].explained_by == "cuda-libraries"


def test_no_memory_may_be_a_limit_on_addresses() -> None:
    (finding,) = judge(smoked_until("copy", number=NO_MEMORY), address_space=20_000_000_000).findings

    assert finding.fixes[0].commands == ("ulimit -v unlimited",)


def test_a_wrong_value_is_told_with_how_many() -> None:
    (finding,) = judge(wrong("product", 0.0312)).findings

    assert "3.12 % of the values of a product" in finding.summary
    assert finding.owner == "admin"


def test_what_is_seen_of_a_pass() -> None:
    assert judge(WELL, smoked(1)).seen == "2 of 2 GPUs tried computed right; beginning took 0.3 s at most"
    assert judge(smoked(3), rank=3).seen.startswith("1 of 1 GPU tried (that of rank 3)")


@pytest.mark.parametrize(
    ("fields", "grant", "status", "words"),
    [
        ({"init_code": 802}, None, "fail", "cuInit gives 802, the fabric manager"),
        ({"init_code": 4711}, None, "fail", "cuInit gives 4711, which is none of the usual codes"),
        ({"init_code": 0, "said": ("The NVIDIA driver is too old",)}, None, "fail", "PyTorch sees no GPU"),
        ({"init_code": None}, None, "fail", "PyTorch sees no GPU"),  # libcuda does not load
        ({"backend": "hip"}, None, "skip", "none was promised"),  # a laptop's graphics, which /dev/kfd shows too
        ({"backend": "hip"}, gpu_grant(promised=1), "fail", "PyTorch sees no GPU"),
        ({"ended": Ended(how="killed", signal="SIGSEGV", step="cuInit")}, None, "fail", "died by SIGSEGV at: cuInit"),
        ({"ended": Ended(how="hung", step="cuInit", pid=7, state="S")}, None, "error", "at: cuInit (pid 7, state S)"),
        ({"ended": Ended(how="killed", signal="SIGKILL", step="cuInit")}, None, "error", "SIGKILL"),
    ],
)
def test_where_nothing_was_tried(fields: dict[str, Any], grant: Any, status: str, words: str) -> None:
    verdict = judge(count=0, grant=grant, **fields)
    told = verdict.findings[0].summary if verdict.findings else verdict.reason.detail if verdict.reason else ""

    assert verdict.status == status
    assert words in told
