"""Matrix products on a GPU: types, shapes that fit time and memory, and one product to compare bit by bit."""

import ctypes
import hashlib

from .gpu_race import Run

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 2}
"""Of a number; FP8's matrices are made of bf16 and give bf16."""

LENGTHS = (8192, 6144, 4096, 3072, 2048, 1024, 512, 256, 128, 64)
"""Of square matrices, the largest first: the larger, the nearer a GPU comes to what it can."""

TRIAL = {"cpu": 64}
TRIAL_OF_GPUS = 2048
"""Length of a first product, by which time is told before memory is filled."""

SHAPES = ((1, 1, 1), (1 / 2, 1, 1 / 2), (1 / 4, 1 / 4, 13 / 8))
"""Rows, columns and what is summed over, as parts of the length: which is best differs from GPU to GPU. At 8192 these are the
cube, 4096 x 8192 x 4096, and 2048 x 2048 x 13312, which was the best of an H100 (Bekman, Machine Learning Engineering)."""

DIGEST_LENGTH = 2048
"""Of the product to compare: with tiles of 128 x 128 every multiprocessor has some."""


def main_type(device):
    """bf16; fp16 on NVIDIA's GPUs before Ampere, which have bf16 in software only."""
    return "bf16" if device.told["capability"] is None or device.supports(8, 0) else "fp16"


def other_types(device, deep):
    """In the order in which they are measured. TF32 is NVIDIA's from Ampere on, FP8 from Ada on."""
    types = ["fp32"]
    if device.supports(8, 0):
        types.append("tf32")
    if deep and main_type(device) != "fp16":
        types.append("fp16")
    if deep and device.supports(8, 9):
        types.append("fp8")
    return types


def dtype_of(torch, what):
    names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn"}
    return getattr(torch, names[what])


def product(device, what, rows, columns, inner):
    """A Run of this product. Its numbers are normally distributed: constant ones take less power, and promise too much."""
    torch = device.torch
    dtype = dtype_of(torch, what)
    if what == "fp8":
        left = torch.randn(rows, inner, device=device.place, dtype=torch.bfloat16).to(dtype)
        right = torch.randn(columns, inner, device=device.place, dtype=torch.bfloat16).to(dtype).t()
        one = torch.ones((), device=device.place)

        def work():
            torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    else:
        left = torch.randn(rows, inner, device=device.place, dtype=dtype)
        right = torch.randn(inner, columns, device=device.place, dtype=dtype)
        result = torch.empty(rows, columns, device=device.place, dtype=dtype)

        def work():
            torch.mm(left, right, out=result)

    return Run(device, what, work, 2 * rows * columns * inner)


def length_for(device, what, most_s):
    """The largest of LENGTHS whose product takes no more than this and fits the memory; None where even a small one fails."""
    trial = min(TRIAL.get(device.kind, TRIAL_OF_GPUS), largest(device, what))

    def timed():
        return product(device, what, trial, trial, trial).time_once()

    once_s = Run(device, what, None, 0).guarded(timed)
    if once_s is None:
        return None
    fitting = [length for length in LENGTHS if length <= largest(device, what) and (length / trial) ** 3 * once_s <= most_s]
    return fitting[0] if fitting else trial


def largest(device, what):
    """The length at which the three matrices of a product fill what may be taken."""
    fitting = [length for length in LENGTHS if 3 * BYTES[what] * length**2 <= device.budget]
    return fitting[0] if fitting else LENGTHS[-1]


def products(devices, what_of, seconds, shape=SHAPES[0]):
    """A Run for each GPU on which that works, of the same length on equal GPUs, tried once; `what_of` gives the type for each."""
    lengths = {}
    for device in devices:
        length = length_for(device, what_of(device), seconds / 16)
        if length is not None:
            lengths[device] = length
    runs = []
    for device in lengths:
        length = min(lengths[other] for other in lengths if other.told["name"] == device.told["name"])
        sizes = [max(16, int(part * length)) for part in shape]

        def begun(device=device, sizes=sizes):
            run = product(device, what_of(device), *sizes)
            return run if run.calibrate(seconds) is not None else None

        run = Run(device, what_of(device), None, 0).guarded(begun)
        if run is not None:
            runs.append(run)
    return runs


def matrices(torch, length=DIGEST_LENGTH):
    """The same two each time: made on the CPU, from a seed."""
    random = torch.Generator().manual_seed(7)
    return [torch.randn(length, length, generator=random) for _ in range(2)]


def digest(device, pair):
    """Of the bits of their product."""
    dtype = dtype_of(device.torch, main_type(device))
    left, right = (one.to(device.place).to(dtype) for one in pair)
    device.use()
    result = device.torch.mm(left, right).cpu().contiguous()
    held = ctypes.string_at(result.data_ptr(), result.numel() * result.element_size())
    return hashlib.sha256(held).hexdigest()[:16]
