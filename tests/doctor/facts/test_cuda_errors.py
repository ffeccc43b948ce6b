"""CUDA's codes: each is found again in what torch says, and leads to something that can be done."""

import re

import pytest

from dl_doctor.checks import CHECKS
from dl_doctor.facts.cuda_errors import ERRORS, code_in


def test_the_codes_of_a_beginning_are_all_there() -> None:
    wanted = {3, 34, 35, 36, 46, 100, 101, 209, 214, 218, 222, 304, 719, *range(802, 811), 999}

    assert wanted <= ERRORS.keys()
    assert list(ERRORS) == sorted(ERRORS)


@pytest.mark.parametrize("code", ERRORS)
def test_a_row_is_plausible(code: int) -> None:
    error = ERRORS[code]

    assert re.fullmatch("[A-Z0-9_]+|[A-Z][A-Za-z]+", error.name)
    assert error.texts
    assert all(text == text.lower() for text in error.texts)
    assert error.meaning[0].islower() or error.meaning.startswith(("CUDA", "MPS"))
    assert not error.meaning.endswith(".")
    assert error.fixes
    assert error.cause in {None, *(check.id for check in CHECKS)}
    assert error.source.startswith(("CUDA driver API", "CUDA runtime API"))


def test_no_two_codes_say_the_same() -> None:
    texts = [text for error in ERRORS.values() for text in error.texts]
    names = [error.name for error in ERRORS.values()]

    assert len(set(texts)) == len(texts)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("code", ERRORS)
def test_torchs_messages_lead_back_to_the_code(code: int) -> None:
    for text in ERRORS[code].texts:
        assert code_in(f"AcceleratorError: CUDA error: {text.capitalize()}\nCompile with `TORCH_USE_CUDA_DSA`") == code


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", 802),
        ("Unexpected error from cudaGetDeviceCount(). Error 4711: ?", None),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", 2),
        ("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment", 999),
        ("RuntimeError: HIP error: invalid device function", 98),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", None),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", None),
    ],
)
def test_messages_as_people_see_them(message: str, code: int | None) -> None:
    assert code_in(message) == code
