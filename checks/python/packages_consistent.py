import re

from dl_doctor.contract import Check
from dl_doctor.facts import Target, TorchFiles
from dl_doctor.facts.torch_files import Companion, Pin
from dl_doctor.fixes import pip_install, python, torch_again
from dl_doctor.model import Finding, Fix, Verdict

TORCHVISION = {
    # torch: torchvision. Source: the table in pytorch/vision's README, and the wheels' own requirements on PyPI
    (1, 8): (0, 9),
    (1, 9): (0, 10),
    (1, 10): (0, 11),
    (1, 11): (0, 12),
    (1, 12): (0, 13),
    (1, 13): (0, 14),
    (2, 0): (0, 15),
    (2, 1): (0, 16),
    (2, 2): (0, 17),
    (2, 3): (0, 18),
    (2, 4): (0, 19),
    (2, 5): (0, 20),
    (2, 6): (0, 21),
    (2, 7): (0, 22),
    (2, 8): (0, 23),
    (2, 9): (0, 24),
    (2, 10): (0, 25),
    (2, 11): (0, 26),
    (2, 12): (0, 27),
    (2, 13): (0, 28),
}

TORCHAUDIO = {
    # torch: torchaudio. Source: docs.pytorch.org/audio/2.11.0/installation.html
    (1, 8): (0, 8),
    (1, 9): (0, 9),
    (1, 10): (0, 10),
    (1, 11): (0, 11),
    (1, 12): (0, 12),
    (1, 13): (0, 13),
    **{(2, minor): (2, minor) for minor in range(11)},
}

TORCHAUDIO_FOR_ALL = (2, 11)
"""From this release on torchaudio uses torch's stable interface, and works with all later ones (same source)."""

NUMPY_2 = (2, 3)
"""The first release of torch that is built for NumPy 2, which older ones do not work with (pytorch/pytorch#107302)."""


def packages_consistent(torch: TorchFiles, target: Target) -> Verdict:
    """The packages around PyTorch fit it

    ## What it checks
    NVIDIA's packages against the versions that this torch was built with, torchvision and torchaudio against their torch, NumPy
    against the interface that torch was built for, and whether torch's files and its metadata are of one version.

    ## Why it matters
    pip installs what one package asks for and breaks another. What follows has other names: undefined symbols at import,
    "operator torchvision::nms does not exist", "Numpy is not available", cuDNN errors after an hour.

    ## How it decides
    NumPy 2 with a release of torch before 2.3 fails: no array can be handed over. Everything else warns: one of NVIDIA's
    packages in another version or missing, two of them that overwrite each other, a torchvision or torchaudio for another torch,
    by its own metadata or else by PyTorch's table. Builds of a site or of NVIDIA's images are judged by their metadata alone.

    For example, torch 2.5.1 with torchvision 0.19.1 warns: that one is for torch 2.4.

    ## How to fix
    Install the packages in one command, from one index, so that pip finds versions that fit.

    ## Known limits
    Files are read and nothing is loaded. A pair that does not fit does no harm where the job never imports it.

    ## References
    pytorch/vision#8985, #9174; pytorch/pytorch#107302, #132179, #186591; docs.pytorch.org/audio/2.11.0/installation.html
    """
    if torch.version is None:
        return Verdict.skip(f"{torch.origin} is not PyTorch")
    beside = [*(f"{other.name} {other.version}" for other in torch.companions)]
    beside += [f"numpy {torch.packages['numpy']}"] if "numpy" in torch.packages else []
    beside += [f"{len(torch.pins)} pinned packages of NVIDIA"] if torch.pins else []
    return Verdict(
        f"torch {torch.version} with {', '.join(beside) or 'nothing that depends on its version'}",
        [
            *numpy(torch, target),
            *two_versions(torch, target),
            *(finding for companion in torch.companions for finding in companions(companion, torch, target)),
            *nvidia(torch, target),
            *overwritten(torch, target),
        ],
    )


def numpy(torch: TorchFiles, target: Target) -> list[Finding]:
    version = torch.packages.get("numpy", "")
    interface = release_of(version) or (1, 0)
    if torch.release is None or torch.release >= NUMPY_2 or interface < (2, 0):
        return []
    return [
        Finding(
            level="fail" if is_release(torch.version) else "warn",
            subject="numpy",
            summary=f"PyTorch {torch.version} is built for NumPy 1, and NumPy {version} is installed",
            why='torch can be imported, and then "Numpy is not available" where an array becomes a tensor, as DataLoaders do.',
            fixes=(
                Fix("Install NumPy 1", (pip_install(target, "'numpy<2'"),)),
                Fix("Or a newer PyTorch", (pip_install(target, "'torch>=2.3'"),)),
            ),
        )
    ]


def two_versions(torch: TorchFiles, target: Target) -> list[Finding]:
    if torch.metadata_version is None or public(torch.metadata_version) == public(torch.version or ""):
        return []
    return [
        Finding(
            level="warn",
            subject="torch",
            summary=f"The files of torch are of {torch.version}, its metadata of {torch.metadata_version}",
            why=f"Two installations lie over each other or one hides the other: {torch.folder} is what would be imported.",
            fixes=(
                Fix(
                    "Install it anew",
                    (f"{python(target)} -m pip uninstall -y torch", pip_install(target, "torch")),
                    risk="disruptive",
                ),
            ),
        )
    ]


def companions(companion: Companion, torch: TorchFiles, target: Target) -> list[Finding]:
    if fits(companion, torch) and same_variant(companion, torch):
        return []
    other = f"is for torch {companion.wanted_torch}" if companion.wanted_torch else "is for another torch"
    again = torch_again(torch, companion.name)
    if fits(companion, torch):
        other = "is built for another kind of device"
    return [
        Finding(
            level="warn",
            subject=companion.name,
            summary=f"{companion.name} {companion.version} {other}, and torch {torch.version} is installed",
            why="Its compiled part is linked against one release: it fails where the job imports it, or where it first uses it.",
            fixes=(Fix("Install both in one command, from one index", (pip_install(target, again),) if again else ()),),
        )
    ]


def fits(companion: Companion, torch: TorchFiles) -> bool:
    """By its own metadata, else by the table; builds that are no releases, and what the table does not know, fit."""
    if companion.wanted_torch:
        return public(companion.wanted_torch) == public(torch.version or "")
    version = release_of(companion.version)
    if torch.release is None or version is None or not is_release(torch.version) or not is_release(companion.version):
        return True
    if companion.name == "torchaudio" and version >= TORCHAUDIO_FOR_ALL:
        return torch.release >= TORCHAUDIO_FOR_ALL
    table = TORCHVISION if companion.name == "torchvision" else TORCHAUDIO
    return table.get(torch.release, version) == version


def same_variant(companion: Companion, torch: TorchFiles) -> bool:
    """`+cu124` beside `+cu124`. A version without a tag can be anything."""
    ours, theirs = torch.local_tag or "", companion.version.partition("+")[2]
    known = all(re.fullmatch(r"cpu|(cu|rocm)[0-9.]+", tag) for tag in (ours, theirs))
    return not known or ours == theirs


def nvidia(torch: TorchFiles, target: Target) -> list[Finding]:
    wrong = [pin for pin in torch.pins if pin.installed is None or not same(pin.installed, pin.wanted)]
    if not wrong:
        return []
    names = " ".join(f"{pin.name}=={pin.wanted}" for pin in wrong)
    return [
        Finding(
            level="warn",
            subject=wrong[0].name,
            summary=f"Of {len(torch.pins)} packages that torch {torch.version} is built with, {len(wrong)} differ: "
            f"{', '.join(told(pin) for pin in wrong[:3])}{' and more' if len(wrong) > 3 else ''}",
            why="Another package has changed them, or they were left out. torch looks for these first; some other versions work.",
            fixes=(Fix("Install what it was built with", (pip_install(target, names),)),),
        )
    ]


def told(pin: Pin) -> str:
    return f"{pin.name} {pin.installed} instead of {pin.wanted}" if pin.installed else f"{pin.name} {pin.wanted} is missing"


def overwritten(torch: TorchFiles, target: Target) -> list[Finding]:
    findings = []
    for stem in ("nvidia-cudnn", "nvidia-nccl"):
        found = {name: version for name, version in torch.packages.items() if name.startswith(f"{stem}-cu")}
        wanted = next((pin.name for pin in torch.pins if pin.name in found), None)
        majors = [version.partition(".")[0] for version in found.values()]
        if wanted is None or len(set(majors)) == len(majors):
            continue
        extra = sorted(found.keys() - {wanted})
        findings.append(
            Finding(
                level="warn",
                subject=wanted,
                summary=f"{' and '.join(sorted(found))} write the same files, and torch is built with {wanted}",
                why="They are for different CUDA versions and lie in one folder: the one that was installed last is there.",
                fixes=(
                    Fix(
                        "Keep the one for this torch",
                        (
                            f"{python(target)} -m pip uninstall -y {' '.join(extra)}",
                            f"{python(target)} -m pip install --force-reinstall --no-deps {wanted}=={found[wanted]}",
                        ),
                        risk="disruptive",
                    ),
                ),
            )
        )
    return findings


def is_release(version: str | None) -> bool:
    """`2.6.0+cu124`, and not `2.6.0a0+ecf3bae.nv25.01` or `2.7.0.dev20250310`."""
    return all(part.isdecimal() for part in (version or "").partition("+")[0].split("."))


def release_of(version: str) -> tuple[int, int] | None:
    parts = version.partition("+")[0].split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdecimal() and parts[1].isdecimal() else None


def public(version: str) -> str:
    """Without the tag behind the plus."""
    return version.partition("+")[0]


def same(installed: str, wanted: str) -> bool:
    """2.21.5 is 2.21.5.0; a local tag does not count."""
    return trimmed(installed) == trimmed(wanted)


def trimmed(version: str) -> list[str]:
    parts = public(version).split(".")
    while parts and parts[-1] == "0":
        parts.pop()
    return parts


CHECK = Check(packages_consistent)
