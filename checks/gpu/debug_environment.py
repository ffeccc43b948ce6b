import re
from typing import NamedTuple

from dl_doctor.contract import Check
from dl_doctor.facts import AllocatorSettings, Environment, GpuGrant, NvidiaDriver
from dl_doctor.model import NO_GPU, Finding, Fix, Unavailable, Verdict


class Row(NamedTuple):
    name: str
    effect: str
    harmless: str
    """A pattern of values that do nothing; nothing matches an empty one."""

    source: str


OFF = "0|false|off|no"

PROGRAMMING_GUIDE = "CUDA C++ Programming Guide, CUDA Environment Variables"
TORCH_CUDA = "PyTorch, page CUDA Environment Variables"

VARIABLES = (
    Row("CUDA_LAUNCH_BLOCKING", "the CPU waits for each kernel, and no longer runs ahead of the GPU", OFF, PROGRAMMING_GUIDE),
    Row("CUDA_DEVICE_WAITS_ON_EXCEPTION", "a job that fails on the GPU hangs there, for a debugger", OFF, PROGRAMMING_GUIDE),
    Row("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "a job that fails writes the GPU's memory to disk", OFF, "CUDA-GDB's manual"),
    Row("CUDA_INJECTION64_PATH", "a profiler's or checker's library is loaded into every CUDA program", "", "CUPTI's manual"),
    Row("CUDA_INJECTION32_PATH", "a profiler's or checker's library is loaded into every CUDA program", "", "CUPTI's manual"),
    Row("NVTX_INJECTION64_PATH", "a profiler's library hears every marker of NVTX", "", "NVTX's README"),
    Row("NSYS_PROFILING_SESSION_ID", "Nsight Systems records this program", "", "from memory: set by nsys"),
    Row("NV_SANITIZER_INJECTION_PORT_BASE", "compute-sanitizer checks every access, many times slower", "", "from memory"),
    Row("CUDNN_LOGLEVEL_DBG", "cuDNN writes a log of its calls", "0|1", "cuDNN's manual, Error Reporting and API Logging"),
    Row("CUDNN_LOGINFO_DBG", "cuDNN writes a log of its calls", OFF, "cuDNN's manual, up to version 8"),
    Row("CUBLAS_LOGINFO_DBG", "cuBLAS writes a log of its calls", OFF, "cuBLAS' manual, Logging"),
    Row("CUBLASLT_LOG_LEVEL", "cuBLASLt writes a log of its calls", "0|1|2", "cuBLAS' manual, Logging"),
    Row("NCCL_DEBUG", "NCCL writes a line for each of its calls", "(?!TRACE).*", "NCCL's manual, NCCL_DEBUG"),
    Row("HIP_LAUNCH_BLOCKING", "the CPU waits for each kernel", OFF, "HIP's manual, Debugging"),
    Row("AMD_SERIALIZE_KERNEL", "kernels wait for each other", OFF, "HIP's manual, Debugging"),
    Row("AMD_SERIALIZE_COPY", "copies wait for each other", OFF, "HIP's manual, Debugging"),
    Row("HSA_TOOLS_LIB", "a profiler's library is loaded into every ROCm program", "", "ROCm's manual, from memory"),
    Row("ROCP_TOOL_LIBRARIES", "a profiler's library is loaded into every ROCm program", "", "rocprofiler-sdk, from memory"),
    Row("PYTORCH_NO_CUDA_MEMORY_CACHING", "each tensor is taken from the driver and given back: slow", "", TORCH_CUDA),
    Row("TORCH_DISTRIBUTED_DEBUG", "ranks compare each collective before they do it", "OFF|INFO", "PyTorch, torch.distributed"),
    Row("TORCH_SHOW_DISPATCH_TRACE", "torch writes a line per operator", OFF, "PyTorch, Miscellaneous Environment Variables"),
    Row("TORCH_COMPILE_DEBUG", "torch.compile writes what it does to disk", OFF, "PyTorch, page torch.compile Troubleshooting"),
    Row("TORCH_COMPILE_DISABLE", "torch.compile compiles nothing", OFF, "PyTorch, torch/_dynamo/config.py, from memory"),
    Row("TORCHDYNAMO_DISABLE", "torch.compile compiles nothing", OFF, "PyTorch, torch/_dynamo/config.py, from memory"),
    Row("PYTORCH_JIT", "torch.jit compiles nothing", "1|true|on|yes", "PyTorch, page TorchScript, Debugging"),
)
"""Variables of debuggers, profilers and logs that slow a job down when they are left over."""

PRELOADED = re.compile(r"ToolsInjection|InterceptorInjection|libcupti|sanitizer-collection|librocprofiler")
"""Names of libraries of profilers, as LD_PRELOAD brings them."""


def debug_environment(
    environment: Environment,
    allocator: AllocatorSettings,
    driver: NvidiaDriver | Unavailable,
    grant: GpuGrant | Unavailable,
) -> Verdict:
    """No debugger is left in the environment

    ## What it checks
    Variables of debuggers, profilers and logs of CUDA, ROCm and PyTorch, and whether PyTorch can read what it is told of giving
    out the GPU's memory (PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF).

    ## Why it matters
    CUDA_LAUNCH_BLOCKING=1 from last week's search for a bug makes a training step half as fast, and nothing says so. Settings of
    the allocator that cannot be read end the job at its first tensor on the GPU.

    ## How it decides
    A variable that is set to something that slows a job down warns; a value that does nothing, such as 0, is passed over.
    Settings of the allocator fail where no PyTorch reads them: `expandable_segments:true` (it must be True), a size below the
    least, a word that is no setting. A word that this version of the doctor does not know warns where PyTorch is newer. Where
    two names are set, the one that this PyTorch reads is judged.

    For example, PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb=128 fails: it wants a colon.

    ## How to fix
    Unset the variable, where it is set: the shell, the image, the job's script.

    ## Known limits
    Which settings of the allocator an older PyTorch has is not told apart. A profiler that was attached without a variable is not
    seen.

    ## References
    PyTorch's pages "CUDA semantics" and "CUDA Environment Variables", the CUDA C++ Programming Guide, pytorch/pytorch#123063
    """
    nvidia = isinstance(driver, NvidiaDriver) and driver.there
    expected = isinstance(grant, GpuGrant) and grant.expected
    if not nvidia and not expected:
        return Verdict.skip(NO_GPU)
    active = [(row, value) for row in VARIABLES if (value := environment.get(row.name)) and not harmless(row, value)]
    findings = [*map(left_over, active), *preloaded(environment), *unreadable(allocator)]
    seen = f"{len(active)} of {len(VARIABLES)} variables of debuggers and profilers are set"
    if allocator.variable:
        seen += f", {allocator.variable}={allocator.value}"
    return Verdict(seen, findings)


def harmless(row: Row, value: str) -> bool:
    return bool(row.harmless) and re.fullmatch(row.harmless, value.strip(), re.IGNORECASE) is not None


def left_over(active: tuple[Row, str]) -> Finding:
    row, value = active
    return Finding(
        level="warn",
        subject=row.name,
        summary=f"{row.name}={value} is set: {row.effect}",
        why="It is meant for a search, and slows down or changes every job that inherits it.",
        fixes=(Fix("Unset it, where it is set", (f"unset {row.name}",)),),
    )


def preloaded(environment: Environment) -> list[Finding]:
    told = environment.get("LD_PRELOAD") or ""
    names = [path.rpartition("/")[2] for path in re.split("[ :]", told) if PRELOADED.search(path)]
    return [
        Finding(
            level="warn",
            subject="LD_PRELOAD",
            summary=f"LD_PRELOAD brings a profiler into every program: {', '.join(names)}",
            fixes=(Fix("Unset it, where it is set", ("unset LD_PRELOAD",)),),
        )
    ][: len(names)]


def unreadable(allocator: AllocatorSettings) -> list[Finding]:
    if allocator.trouble is None or allocator.variable is None:
        return []
    return [
        Finding(
            level="fail" if allocator.certain else "warn",
            subject=allocator.variable,
            summary=f"{allocator.variable}={allocator.value} cannot be read: {allocator.trouble}",
            why="The job ends at its first tensor on the GPU."
            if allocator.certain
            else "Unless this PyTorch, which is newer than this version of the doctor, knows it.",
            fixes=(
                Fix(
                    "Write it as key:value, with commas between, True and False with a capital",
                    (f"export {allocator.variable}=expandable_segments:True,max_split_size_mb:128",),
                ),
            ),
        )
    ]


CHECK = Check(debug_environment)
