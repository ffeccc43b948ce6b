from dl_doctor.contract import Check
from dl_doctor.facts import AppleGpu
from dl_doctor.facts.apple_gpu import PRODUCT
from dl_doctor.model import Finding, Fix, Verdict

OLDEST_MACOS = (12, 3)
"""Below it torch has no GPU on a Mac; PyTorch's page on the MPS backend. Newer releases want 14."""

UPDATE = (Fix("Update macOS and torch"),)


def mps_ready(apple: AppleGpu) -> Verdict:
    """PyTorch computes on the Mac's GPU

    ## What it checks
    On a Mac with Apple's own processor: what the examined Python is built for, whether torch was built with Metal (MPS), whether
    it is available, and a small product on the GPU against the CPU's.

    ## Why it matters
    A Python for Intel runs on Apple's processors too, translated by Rosetta: it installs and imports a torch that has no GPU,
    and computes several times slower.

    ## How it decides
    A translated Python fails. So do a torch without MPS, MPS that is not available outside a virtual machine, a product that
    raises, and one whose result is another than the CPU's. In a virtual machine, which most continuous integration is, there is
    often no GPU: a note. A Mac with Intel's processor is skipped, and so is every other machine.

    For example, `x86_64` with sysctl.proc_translated=1 fails, whatever torch says.

    ## How to fix
    Install a Python for arm64, and torch into that.

    ## Known limits
    Operators that MPS lacks are not looked for. Never tried on a Mac: the rules are tested on written answers.

    ## References
    pytorch/pytorch#78343, pytorch/pytorch#146236, pytorch/pytorch#125197, PyTorch's page on the MPS backend
    """
    if apple.system is None and apple.ended.step == PRODUCT:
        return Verdict("", [fails("gpu", f"A process that computes there {apple.ended.in_words}", UPDATE)])
    if apple.system is None:
        return Verdict.unknown(f"the Mac cannot be asked: a process of the examined Python {apple.ended.in_words}")
    seen = f"macOS {apple.macos or 'of an unknown version'}, {apple.machine}, "
    seen += f"MPS {'available' if apple.available else 'built in' if apple.built else 'not built in'}"
    if apple.translated:
        return Verdict(seen, [fails("python", "This Python is for Intel's processors, and Rosetta translates it", native())])
    if apple.machine != "arm64":
        return Verdict.skip("a Mac with Intel's processor")
    return Verdict(seen, judged(apple))


def judged(apple: AppleGpu) -> list[Finding]:
    if not apple.built:
        again = Fix("Install torch for this Mac", ("pip install --force-reinstall torch",))
        return [fails("torch", "The installed PyTorch was built without MPS", (again,))]
    if apple.virtual and (not apple.available or apple.raised):
        summary = f"No GPU in this virtual machine: {apple.raised or 'MPS is not available'}"
        return [Finding(level="note", subject="gpu", summary=summary, why="Most virtual machines on Macs have none.")]
    if not apple.available:
        old = release(apple.macos) is not None and (release(apple.macos) or ()) < OLDEST_MACOS
        reason = f": macOS {apple.macos} is older than {'.'.join(map(str, OLDEST_MACOS))}" if old else ""
        return [fails("gpu", f"MPS is built in and not available{reason}", (Fix("Update macOS"),))]
    if apple.raised:
        return [fails("gpu", f"A small product on the GPU raises {apple.raised}", UPDATE)]
    if apple.agrees is False:
        return [fails("gpu", "A small product on the GPU is another than the CPU's", UPDATE)]
    return []


def release(version: str | None) -> tuple[int, ...] | None:
    parts = (version or "").split(".")
    return tuple(int(part) for part in parts) if all(part.isascii() and part.isdigit() for part in parts) else None


def native() -> tuple[Fix, ...]:
    commands = ("arch -arm64 /bin/zsh", "python3 -c 'import platform; print(platform.machine())'  # is to say arm64")
    return (Fix("Install a Python for arm64, and torch into that", commands),)


def fails(subject: str, summary: str, fixes: tuple[Fix, ...]) -> Finding:
    why = "torch computes on the CPU then, or not at all."
    return Finding(level="fail", subject=subject, summary=summary, why=why, fixes=fixes)


CHECK = Check(mps_ready, scope="job")
