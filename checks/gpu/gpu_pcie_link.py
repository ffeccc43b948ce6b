from collections.abc import Iterator

from dl_doctor.contract import Check
from dl_doctor.facts import GpuProbe, GpuYardsticks
from dl_doctor.facts.gpu_probe import ProbedGpu
from dl_doctor.facts.gpu_yardsticks import Link, Yardstick
from dl_doctor.model import Finding, Fix, Quantity, Verdict

REPLAYS = 80
"""Packets sent again during the probe from which on it is told: DCGM's PCIe test allows so many."""


def gpu_pcie_link(probe: GpuProbe, yardsticks: GpuYardsticks) -> Verdict:
    """Each GPU's link to the host is as wide and fast as it can be

    ## What it checks
    Lanes and generation of each GPU's PCI Express link, by NVML while copies run through it, against what the card can and what
    card and slot can together; and how many packets had to be sent again.

    ## Why it matters
    All batches go through this link. With 4 of 16 lanes they take four times as long, which looks like a slow data loader. A card
    that is not seated well, or a broken riser, loses lanes without a word.

    ## How it decides
    Fewer lanes than both card and slot have fail. A lower generation than both have, while copies run, warns. So do more than 80
    packets that were sent again. A slot with fewer lanes than the card is a note. A card that was built with 8 lanes is whole
    with 8. Nothing is judged of an idle link, which slows down to save power; in a virtual machine, which shows a link of its own
    making; and where CPU and GPU are joined by NVLink-C2C or share their memory.

    For example, an A100 that runs at 4 lanes in a slot with 16 fails.

    ## How to fix
    Have the card seated again, riser and cables looked at, and the slot's settings in the BIOS. Plug a card that shares its lanes
    with an NVMe drive elsewhere.

    ## Known limits
    Of a path with switches only the GPU's own link is seen, not the hop between switch and CPU; what is slow there shows in
    gpu-throughput. Where the slot's lanes are not known, fewer than the card's only warn. A port that says that it has lanes
    which the board has given to another slot fails wrongly.

    ## References
    NVIDIA's NVML reference on nvmlDeviceGetCurrPcieLinkWidth, DCGM's PCIe test, NVIDIA/open-gpu-kernel-modules#1010
    """
    if probe.ended.how != "answered":
        return Verdict.skip("the probe of the GPUs' speed gave no answer: see gpu-throughput")
    measured = [(gpu, yardsticks.of(gpu.gpu)) for gpu in probe.gpus if gpu.skipped is None]
    if not measured:
        return Verdict.skip("no GPU was measured: " + "; ".join(f"{gpu.gpu}: {gpu.skipped}" for gpu in probe.gpus))
    judged = [(gpu, yardstick.link) for gpu, yardstick in measured if yardstick.link and not unjudged(yardstick)]
    if not judged:
        reasons = dict.fromkeys(unjudged(yardstick) for _, yardstick in measured)
        return Verdict.skip("the link to the host is not judged: " + "; ".join(filter(None, reasons)))
    findings = [finding for gpu, link in judged for finding in trouble(gpu, link)]
    alike: dict[str, list[str]] = {}
    for gpu, yardstick in measured:
        why_not = unjudged(yardstick)
        alike.setdefault(f"not judged: {why_not}" if why_not or not yardstick.link else seen(yardstick.link), []).append(gpu.gpu)
    return Verdict("; ".join(f"{', '.join(gpus)}: {words}" for words, gpus in alike.items()), findings)


def unjudged(yardstick: Yardstick) -> str:
    if yardstick.no_link:
        return yardstick.no_link
    if yardstick.link is None or yardstick.link.width is None:
        return "NVML told nothing of it while copies ran"
    return ""


def seen(link: Link) -> str:
    at_best = f"at best {link.best_width or '?'} of {link.best_gen or '?'}"
    return f"{link.width} lanes of generation {link.gen or 'unknown'} while copying, {at_best}"


def trouble(gpu: ProbedGpu, link: Link) -> Iterator[Finding]:
    if link.lacks_lanes:
        yield narrow(gpu, link)
    elif link.card_width and link.slot_width and link.slot_width < link.card_width:
        yield short_slot(gpu, link)
    if link.lacks_generation:
        yield slow(gpu, link)
    if link.replays is not None and link.replays > REPLAYS:
        yield repeated(gpu, link.replays)


def narrow(gpu: ProbedGpu, link: Link) -> Finding:
    both = link.slot_width is not None
    others = "card and slot have" if both else "the card has"
    return Finding(
        level="fail" if both else "warn",
        subject=gpu.gpu,
        summary=f"{gpu.gpu}: the link has {link.width} lanes, {others} {link.best_width}",
        measured=Quantity(link.width or 0, "lanes", "NVML while copies ran"),
        expected=Quantity(link.best_width or 0, "lanes", "card and slot" if both else "the card; the slot's are not known"),
        relation="at_least",
        why=f"Copies to and from it take {(link.best_width or 0) / (link.width or 1):.3g} times as long.",
        owner="admin",
        fixes=(
            Fix("Have the card seated again, and riser and cables looked at", risk="disruptive"),
            Fix("See which hop is narrow: LnkSta below LnkCap", (f"sudo lspci -vv -s {gpu.pci or '...'}",), risk="needs-root"),
        ),
    )


def short_slot(gpu: ProbedGpu, link: Link) -> Finding:
    return Finding(
        level="note",
        subject=gpu.gpu,
        summary=f"{gpu.gpu}: the slot has {link.slot_width} lanes for a card of {link.card_width}",
        measured=Quantity(link.slot_width or 0, "lanes", "NVML and /sys, of card and slot together"),
        expected=Quantity(link.card_width or 0, "lanes", "the card"),
        relation="at_least",
        why="The machine is built so, or another card takes the slot's other lanes.",
        owner="admin",
        fixes=(Fix("Use a slot with all lanes, if the board has one", risk="disruptive"),),
    )


def slow(gpu: ProbedGpu, link: Link) -> Finding:
    return Finding(
        level="warn",
        subject=gpu.gpu,
        summary=f"{gpu.gpu}: the link stays at generation {link.gen} while copies run, card and slot can {link.best_gen}",
        measured=Quantity(link.gen or 0, "PCI Express generation", "NVML while copies ran"),
        expected=Quantity(link.best_gen or 0, "PCI Express generation", "card and slot"),
        relation="at_least",
        why=f"Each generation below halves what goes through: {2 ** ((link.best_gen or 0) - (link.gen or 0))} times as long.",
        owner="admin",
        fixes=(
            Fix("Set the slot to its generation (or to auto) in the BIOS, and look at riser and cables", risk="disruptive"),
            Fix("Have the driver updated: some kept cards at generation 1", risk="needs-root"),
        ),
    )


def repeated(gpu: ProbedGpu, replays: int) -> Finding:
    return Finding(
        level="warn",
        subject=gpu.gpu,
        summary=f"{gpu.gpu}: {replays} packets had to be sent again while copies ran",
        measured=Quantity(replays, "packets", "NVML's counter of replays"),
        expected=Quantity(REPLAYS, "packets", "DCGM's PCIe test"),
        relation="at_most",
        why="The signal is bad: the link works, slowly, and may lose lanes or the GPU.",
        owner="admin",
        fixes=(Fix("Have the card seated again, and riser and cables looked at", risk="disruptive"),),
    )


CHECK = Check(gpu_pcie_link, scope="node")
"""Lanes do not come and go with load, so that fewer are a fault; the generation does."""
