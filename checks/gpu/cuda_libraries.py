from dl_doctor.contract import Check
from dl_doctor.facts import CudaSmoke, TorchFiles
from dl_doctor.facts.cuda_errors import ERRORS
from dl_doctor.facts.cuda_smoke import SmokedGpu
from dl_doctor.model import Finding, Fix, Reason, Unavailable, Verdict

WITHOUT = Fix("Start without them", ("env -u LD_LIBRARY_PATH -u LD_PRELOAD ...",), note="To see whether that is it.")
AGAIN = Fix("Install PyTorch anew, with the packages that it asks for", ("pip install --force-reinstall torch ...",))

NOTHING = "no convolution was computed on a GPU; cuda-smoke says why"


def cuda_libraries(smoke: CudaSmoke, files: TorchFiles | Unavailable) -> Verdict:
    """PyTorch gets the CUDA libraries that it was built for

    ## What it checks
    Which files of NVIDIA's or AMD's libraries, and of PyTorch's own, are in a process that has imported torch and computed a
    convolution, and by which names the loader knows them.

    ## Why it matters
    LD_LIBRARY_PATH, which modules and images set for another CUDA, can put another cuDNN or cuBLAS in the place of the one that
    PyTorch brings. It is then slower, or ends in CUDNN_STATUS_NOT_INITIALIZED, a version mismatch or a missing symbol.

    ## How it decides
    A convolution that raises, where a product on the same GPU was right, fails. One name from two files warns: each half of the
    process uses its own. So does a cuDNN that is not of the release that PyTorch was built for, and a library that PyTorch's
    nvidia-* packages bring, where another of the same name was loaded from a folder of LD_LIBRARY_PATH or by LD_PRELOAD.
    Libraries of a distribution, of conda or of a module outside of site-packages are normal for a PyTorch that was built with
    them. Where no convolution was computed it is no pass: what it would have loaded was not seen.

    For example, libcudnn.so.9 from /usr/local/cuda/lib64, named by LD_LIBRARY_PATH, beside nvidia-cudnn-cu12 warns.

    ## How to fix
    Take the folder out of LD_LIBRARY_PATH, or start the job without it: `env -u LD_LIBRARY_PATH`.

    ## Known limits
    Libraries that are loaded later, by other packages or other operations, are not seen.

    ## References
    pytorch/pytorch#80637; ld.so(8) on the order of RPATH, LD_LIBRARY_PATH and RUNPATH
    """
    if not smoke.libraries:
        return Verdict.skip(NOTHING)
    seen = f"libraries of CUDA or ROCm and of PyTorch in the process: {len(smoke.libraries)}"
    cause = [*doubled(smoke), *displaced(smoke, files), *other_cudnn(smoke)]
    findings = [*(failed(gpu, cause) for gpu in smoke.gpus if only_convolution_fails(gpu)), *cause]
    reason = None if any(gpu.convolution for gpu in smoke.gpus) else Reason("absent", NOTHING)
    return Verdict(seen, findings, reason)


def only_convolution_fails(gpu: SmokedGpu) -> bool:
    """With a code that says what it is, it is another matter."""
    tried = gpu.convolution
    return bool(tried and tried.error and gpu.product and gpu.product.wrong == 0 and tried.code not in ERRORS)


def failed(gpu: SmokedGpu, cause: list[Finding]) -> Finding:
    error = ((gpu.convolution and gpu.convolution.error) or "").partition("\n")[0]
    why = " ".join(finding.summary + "." for finding in cause) or "A product on the same GPU was right."
    return Finding(
        level="fail",
        subject=gpu.label,
        summary=f"A convolution on GPU {gpu.index} raises {error}",
        why=why,
        fixes=(WITHOUT, AGAIN),
    )


def doubled(smoke: CudaSmoke) -> list[Finding]:
    return [
        Finding(
            level="warn",
            subject=name,
            summary=f"{name} was loaded from two places: {' and '.join(paths)}",
            why="Each part of the process uses its own, with its own state: what one of them makes the other does not know.",
            fixes=(WITHOUT,),
        )
        for name, paths in smoke.libraries.items()
        if len(paths) > 1
    ]


def displaced(smoke: CudaSmoke, files: TorchFiles | Unavailable) -> list[Finding]:
    if not (isinstance(files, TorchFiles) and files.pins):
        return []  # this PyTorch asks for none of NVIDIA's packages
    return [
        Finding(
            level="warn",
            subject=library.name,
            summary=f"{library.name} is {library.taken}, by {library.by}, and not PyTorch's own {library.own}",
            why="PyTorch was built and tested with the other one. Where both are of one release it makes no difference.",
            fixes=(WITHOUT,),
        )
        for library in smoke.passed_over
        if library.by
    ]


def other_cudnn(smoke: CudaSmoke) -> list[Finding]:
    if smoke.cudnn_error is None:
        return []
    return [
        Finding(
            level="warn",
            subject="cuDNN",
            summary=f"PyTorch does not take this cuDNN: {smoke.cudnn_error}",
            why="torch.backends.cudnn.version() raises it, and so does what asks for it, such as layers that are recurrent.",
            fixes=(WITHOUT, AGAIN),
        )
    ]


CHECK = Check(cuda_libraries)
