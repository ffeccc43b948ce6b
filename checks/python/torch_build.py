from dl_doctor.contract import Check
from dl_doctor.facts import Environment, Target, TorchFiles, TorchImport
from dl_doctor.model import Finding, Fix, Unavailable, Verdict


def torch_build(torch: TorchImport, files: TorchFiles, target: Target, environment: Environment | Unavailable) -> Verdict:
    """PyTorch is the build that it is taken for

    ## What it checks
    What PyTorch says of its own build once it is imported: version, CUDA or ROCm, how it runs operations in parallel. And
    whether that is what the image's variables PYTORCH_VERSION and CUDA_VERSION promise.

    ## Why it matters
    `pip install` of some package can replace the tuned PyTorch of an image by one from PyPI, without a word. A build without
    OpenMP ignores OMP_NUM_THREADS and is slower on CPUs.

    ## How it decides
    A release other than PYTORCH_VERSION's warns, and so does a build without OpenMP on Linux. Another CUDA_VERSION is a note:
    wheels bring their own CUDA, and that is fine.

    For example, an image with PYTORCH_VERSION=2.6.0a0+ecf3bae in which torch says 2.7.1+cu126 warns.

    ## How to fix
    Install packages with `--no-deps` or a constraints file, so that torch stays, or begin from the image again.

    ## Known limits
    An image may set these variables for something else; then they prove nothing.

    ## References
    docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes; pytorch/pytorch#22260
    """
    if torch.import_s is None:
        return Verdict.skip(f"torch could not be imported (torch-imports says why): it {torch.ended.in_words}")
    if files.version is None:
        return Verdict.skip(f"{files.origin} is not PyTorch")
    kind = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "CPUs"
    parallel = f", parallel by {torch.parallel_backend}" if torch.parallel_backend else ""
    variables = {} if isinstance(environment, Unavailable) else environment.variables
    return Verdict(
        f"torch {torch.version} for {kind}{parallel}",
        [
            *other_version(torch.version or "", variables.get("PYTORCH_VERSION") or "", target),
            *other_cuda(torch.cuda, variables.get("CUDA_VERSION") or ""),
            *without_openmp(torch),
        ],
    )


def other_version(version: str, promised: str, target: Target) -> list[Finding]:
    if not promised[:1].isdigit() or public(version) == public(promised):
        return []
    return [
        Finding(
            level="warn",
            subject="torch",
            summary=f"The image says PyTorch {promised}, and {version} is imported",
            why=f"Something has replaced the image's PyTorch, or {target.path} is not the image's Python.",
            fixes=(
                Fix(
                    "Keep the image's torch when you install packages",
                    ("pip freeze | grep '^torch' > keep.txt", "pip install -c keep.txt ..."),
                    note="In an image that is begun anew.",
                ),
            ),
        )
    ]


def other_cuda(cuda: str | None, promised: str) -> list[Finding]:
    if cuda is None or not promised[:1].isdigit() or cuda.split(".")[:2] == promised.split(".")[:2]:
        return []
    return [
        Finding(
            level="note",
            subject="torch",
            summary=f"PyTorch is built for CUDA {cuda}, the image holds {promised}",
            why="Wheels bring their own CUDA. Extensions that are compiled here would be built with the image's.",
        )
    ]


def without_openmp(torch: TorchImport) -> list[Finding]:
    if torch.parallel_backend in (None, "OpenMP") or torch.affinity_before is None:  # macOS has neither
        return []
    return [
        Finding(
            level="warn",
            subject="torch",
            summary=f"PyTorch is built without OpenMP: it runs operations by its {torch.parallel_backend}",
            why="OMP_NUM_THREADS has no effect on it, and operations on CPUs are slower.",
            fixes=(Fix("Use a build from pytorch.org or conda-forge, or build with USE_OPENMP=1"),),
        )
    ]


def public(version: str) -> str:
    """`2.6.0` of `2.6.0a0+ecf3bae` and of `2.6.0+cu124`."""
    kept = version.partition("+")[0]
    return kept[: next((index for index, letter in enumerate(kept) if letter not in "0123456789."), len(kept))]


CHECK = Check(torch_build)
