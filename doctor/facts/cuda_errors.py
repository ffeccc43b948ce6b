"""CUDA's error codes as data: what they mean where CUDA begins and for a first small computation, and what mends that.

HIP gives the same numbers for what both have. The texts are those of cudaGetErrorString as public bindings
quote them, lower case; torch's messages hold them.
"""

import re

import msgspec

from dl_doctor.model import Fix

OUT_OF_MEMORY = 2
BUSY = 46
NOT_READY = 802
DRIVER_MISMATCH = 803
COMPAT_NOT_SUPPORTED = 804

HOST = ("bare", "slurm", "container")

NUMBERED = re.compile(r"\bError ([0-9]{1,3}):", re.ASCII)
"""In torch's own words: `Unexpected error from cudaGetDeviceCount() ... Error 802: system not yet initialized`."""

DRIVER_API = "CUDA driver API, data types, CUresult"
RUNTIME_API = "CUDA runtime API, data types, cudaError"

RESET = Fix("Reset the GPUs, or restart the node", ("nvidia-smi --gpu-reset", "reboot"), HOST, "needs-root")
REINSTALL = Fix(
    "Install a PyTorch that has code for this GPU",
    ("pip install torch --index-url https://download.pytorch.org/whl/...",),
    note="pytorch.org/get-started names the index; older GPUs need an older release.",
)
NEWER_DRIVER = Fix("Have the driver updated", (), risk="needs-root", note="It is the host's, also in a container.")
WITHOUT_MPS = Fix("Start the daemon, or do without it", ("nvidia-cuda-mps-control -d", "unset CUDA_MPS_PIPE_DIRECTORY"))
RESTART_MPS = Fix(
    "End the daemon, with all that uses it, and start it anew",
    ("echo quit | nvidia-cuda-mps-control", "nvidia-cuda-mps-control -d"),
)


class CudaError(msgspec.Struct, frozen=True):
    """One code."""

    name: str
    """As in cuda.h without CUDA_ERROR_, or in the runtime's cudaError where the driver has none of this number."""

    texts: tuple[str, ...]
    """How messages say it; of today's CUDA first."""

    meaning: str
    """What it means where it comes of beginning or of a first computation, to go on with after "CUDA gives 802, "."""

    cause: str | None
    """The check that knows more."""

    fixes: tuple[Fix, ...]
    source: str
    """Where code and meaning come from; what mends it is of public threads, named there."""


ERRORS = {
    2: CudaError(
        "OUT_OF_MEMORY",
        ("out of memory",),
        "no memory is left on the GPU, or the process may have no more addresses (ulimit -v)",
        None,
        (Fix("See what takes the GPU's memory", ("nvidia-smi",)),),
        f"{DRIVER_API}; NVIDIA/cuda-python#2458",
    ),
    3: CudaError(
        "NOT_INITIALIZED",
        ("initialization error", "driver initialization failed"),
        "CUDA cannot begin, most often because nvidia-uvm is of no use, or does not fit this kernel",
        "gpu-device-access",
        (
            Fix(
                "Where the kernel's heterogeneous memory management is the matter, do without it",
                ("echo options nvidia_uvm uvm_disable_hmm=1 > /etc/modprobe.d/nvidia-uvm.conf", "reboot"),
                HOST,
                "needs-root",
            ),
        ),
        f"{DRIVER_API}; NVIDIA/open-gpu-kernel-modules#797, ollama/ollama#11593",
    ),
    34: CudaError(
        "STUB_LIBRARY",
        ("cuda driver is a stub library",),
        "libcuda is a stub that programs are linked against",
        "gpu-libraries",
        (Fix("Drop the folder of the stub from the loader's path", ("echo $LD_LIBRARY_PATH",)),),
        DRIVER_API,
    ),
    35: CudaError(
        "InsufficientDriver",
        ("cuda driver version is insufficient for cuda runtime version", "nvidia driver on your system is too old"),
        "the driver is older than the CUDA that PyTorch was built with",
        "gpu-driver-floor",
        (NEWER_DRIVER, REINSTALL),
        RUNTIME_API,
    ),
    36: CudaError(
        "CALL_REQUIRES_NEWER_DRIVER",
        ("api call is not supported in the installed cuda driver",),
        "a call needs a newer driver than this one",
        "gpu-driver-floor",
        (NEWER_DRIVER, REINSTALL),
        DRIVER_API,
    ),
    46: CudaError(
        "DEVICE_UNAVAILABLE",
        ("cuda-capable device(s) is/are busy or unavailable", "all cuda-capable devices are busy or unavailable"),
        "the GPU is held by another process, forbids computing, or needs a reset",
        "gpu-mode",
        (Fix("See who holds it, and its compute mode", ("nvidia-smi -q -d COMPUTE,PIDS",)), RESET),
        f"{DRIVER_API}; NVIDIA/DIGITS#2005, scitix/sichek#121",
    ),
    98: CudaError(
        "InvalidDeviceFunction",
        ("invalid device function",),
        "this PyTorch has no code for this kind of GPU",
        "torch-arch-list",
        (REINSTALL,),
        f"{RUNTIME_API}; pytorch/pytorch#53738",
    ),
    100: CudaError(
        "NO_DEVICE",
        ("no cuda-capable device is detected",),
        "CUDA finds no device that it may use",
        "gpu-device-access",
        (RESET,),
        DRIVER_API,
    ),
    101: CudaError(
        "INVALID_DEVICE",
        ("invalid device ordinal",),
        "there is no GPU of this number",
        "gpu-per-rank",
        (Fix("See what this process is shown", ("echo $CUDA_VISIBLE_DEVICES $LOCAL_RANK",)),),
        DRIVER_API,
    ),
    102: CudaError(
        "DEVICE_NOT_LICENSED",
        ("device doesn't have valid grid license",),
        "this virtual GPU has no licence",
        "gpu-mode",
        (Fix("Have the virtual GPU licensed", ("nvidia-smi -q | grep -i -A1 licen",), risk="needs-root"),),
        DRIVER_API,
    ),
    209: CudaError(
        "NO_BINARY_FOR_GPU",
        ("no kernel image is available for execution on the device",),
        "this PyTorch has no code for this kind of GPU",
        "torch-arch-list",
        (REINSTALL,),
        f"{DRIVER_API}; pytorch/pytorch#31285, pytorch/pytorch#167244",
    ),
    214: CudaError(
        "ECC_UNCORRECTABLE",
        ("uncorrectable ecc error encountered",),
        "the GPU's memory has an error that cannot be corrected",
        "gpu-health",
        (RESET,),
        DRIVER_API,
    ),
    218: CudaError(
        "INVALID_PTX",
        ("a ptx jit compilation failed",),
        "code that was to be compiled for this GPU could not be",
        "torch-arch-list",
        (REINSTALL,),
        DRIVER_API,
    ),
    220: CudaError(
        "NVLINK_UNCORRECTABLE",
        ("uncorrectable nvlink error detected during the execution",),
        "a link between GPUs has an error that cannot be corrected",
        "gpu-health",
        (RESET,),
        DRIVER_API,
    ),
    221: CudaError(
        "JIT_COMPILER_NOT_FOUND",
        ("ptx jit compiler library not found",),
        "the driver's compiler (libnvidia-ptxjitcompiler.so.1) is not here, and this PyTorch has no code for this GPU as it is",
        "torch-arch-list",
        (REINSTALL,),
        DRIVER_API,
    ),
    222: CudaError(
        "UNSUPPORTED_PTX_VERSION",
        ("the provided ptx was compiled with an unsupported toolchain",),
        "the driver is too old to compile code of this CUDA, though it runs what is compiled already",
        "gpu-driver-floor",
        (NEWER_DRIVER, REINSTALL),
        DRIVER_API,
    ),
    304: CudaError(
        "OPERATING_SYSTEM",
        ("os call failed or operation not supported on this os",),
        "a call to the operating system fails",
        "gpu-device-access",
        (RESET,),
        DRIVER_API,
    ),
    700: CudaError(
        "ILLEGAL_ADDRESS",
        ("an illegal memory access was encountered",),
        "code that is right asked for an address that is not there: the GPU or the driver is ill",
        "gpu-health",
        (RESET,),
        DRIVER_API,
    ),
    719: CudaError(
        "LAUNCH_FAILED",
        ("unspecified launch failure",),
        "code that is right died on the GPU: it, or the driver, is ill",
        "gpu-health",
        (RESET,),
        DRIVER_API,
    ),
    802: CudaError(
        "SYSTEM_NOT_READY",
        ("system not yet initialized",),
        "the fabric manager, without which GPUs behind NVSwitches do not begin, does not run or is not done",
        "gpu-fabric",
        (Fix("Start the fabric manager", ("systemctl start nvidia-fabricmanager",), risk="needs-root", note="On the host."),),
        f"{DRIVER_API}; pytorch/pytorch#35710",
    ),
    803: CudaError(
        "SYSTEM_DRIVER_MISMATCH",
        ("system has unsupported display driver / cuda driver combination",),
        "libcuda and the kernel module are of different versions",
        "gpu-compat-library",
        (RESET,),
        f"{DRIVER_API}; NVIDIA/nvidia-docker#1515",
    ),
    804: CudaError(
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        ("forward compatibility was attempted on non supported hw",),
        "a library of CUDA's compatibility package was loaded, which these cards may not use",
        "gpu-compat-library",
        (Fix("Drop the folder of the compatibility package from the loader's path", ("echo $LD_LIBRARY_PATH",)),),
        f"{DRIVER_API}; NVIDIA/nvidia-docker#1515, microsoft/onnxruntime#21435",
    ),
    805: CudaError(
        "MPS_CONNECTION_FAILED",
        ("mps client failed to connect to the mps control daemon or the mps server",),
        "the daemon that shares GPUs among processes (MPS) does not answer",
        "gpu-mode",
        (WITHOUT_MPS,),
        f"{DRIVER_API}; NVIDIA/nvidia-container-toolkit#714",
    ),
    806: CudaError(
        "MPS_RPC_FAILURE",
        ("the remote procedural call between the mps server and the mps client failed",),
        "the server that shares GPUs among processes (MPS) broke off",
        "gpu-mode",
        (RESTART_MPS,),
        DRIVER_API,
    ),
    807: CudaError(
        "MPS_SERVER_NOT_READY",
        ("mps server is not ready to accept new mps client requests",),
        "the server that shares GPUs among processes (MPS) takes nobody now: a client of it has died on the GPU",
        "gpu-mode",
        (RESTART_MPS,),
        DRIVER_API,
    ),
    808: CudaError(
        "MPS_MAX_CLIENTS_REACHED",
        ("the hardware resources required to create mps client have been exhausted",),
        "the server that shares GPUs among processes (MPS) has as many clients as it can",
        "gpu-mode",
        (Fix("Start fewer processes for each GPU"),),
        DRIVER_API,
    ),
    809: CudaError(
        "MPS_MAX_CONNECTIONS_REACHED",
        ("the hardware resources required to support device connections have been exhausted",),
        "the server that shares GPUs among processes (MPS) has as many connections as it can",
        "gpu-mode",
        (Fix("Ask for fewer connections", ("export CUDA_DEVICE_MAX_CONNECTIONS=2",)),),
        DRIVER_API,
    ),
    810: CudaError(
        "MPS_CLIENT_TERMINATED",
        ("the mps client has been terminated by the server",),
        "the server that shares GPUs among processes (MPS) has ended this one",
        "gpu-mode",
        (RESTART_MPS,),
        DRIVER_API,
    ),
    999: CudaError(
        "UNKNOWN",
        ("unknown error",),
        "most often /dev/nvidia-uvm is missing or of no use",
        "gpu-device-access",
        (RESET,),
        f"{DRIVER_API}; pytorch/pytorch#49081",
    ),
}
"""By number."""


def code_in(message: str) -> int | None:
    """The code of an exception's message; None where it holds none of these."""
    if numbered := NUMBERED.search(message):
        return int(numbered[1])
    lower = message.lower()
    found = [(len(text), code) for code, error in ERRORS.items() for text in error.texts if text in lower]
    return max(found)[1] if found else None
