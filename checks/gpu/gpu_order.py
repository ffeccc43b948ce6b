from dl_doctor.contract import Check
from dl_doctor.facts import Nvml, Slurm, VisibleGpus
from dl_doctor.model import Finding, Fix, Unavailable, Verdict


def gpu_order(nvml: Nvml, visible: VisibleGpus, slurm: Slurm | Unavailable) -> Verdict:
    """CUDA_VISIBLE_DEVICES names GPUs that are here

    ## What it checks
    The entries of CUDA_VISIBLE_DEVICES against the GPUs that NVML lists, and whether CUDA counts GPUs in the same order.

    ## Why it matters
    CUDA reads the list from the left and stops, without a word, at the first entry that names no GPU. In a container or a Slurm
    step that holds some of the GPUs, these are counted from 0 again, and a list that was right outside hides them all.

    ## How it decides
    A first entry that names no GPU, and an entry that stands twice, which empties the list, fail. A later entry that names none
    is a note: the GPUs before it can be used. An empty list, -1 and NoDevFiles hide GPUs on purpose; -1 also ends a list. UUIDs
    may be shortened. GPUs of different models are a note unless CUDA_DEVICE_ORDER is PCI_BUS_ID: CUDA puts the fastest first,
    and nvidia-smi does not.

    For example, CUDA_VISIBLE_DEVICES=3 in a container that was given one GPU fails: in there it is number 0.

    ## How to fix
    Unset the variable, or count from 0. Set CUDA_DEVICE_ORDER=PCI_BUS_ID where models are mixed.

    ## Known limits
    Names of instances of divided GPUs (MIG-...) are taken as they are.

    ## References
    pytorch/pytorch#90543, pytorch/pytorch#95784, unslothai/unsloth#8762, NVIDIA/pyxis#47, ollama/ollama#11356,
    ModelCloud/Device-SMI#40
    """
    if nvml.ended.how != "answered" or nvml.error is not None:
        return Verdict.skip("NVML lists no GPUs to compare with; gpu-visible says why")
    if not nvml.usable:
        return Verdict.skip("no GPU can be seen")
    told = "is not set" if visible.told is None else f"is {visible.told!r}"
    order = "in the bus's order" if visible.in_bus_order else "the fastest first"
    seen = f"CUDA_VISIBLE_DEVICES {told}, {len(nvml.usable)} GPUs, {order}"
    return Verdict(seen, [*invalid(nvml, visible, slurm), *mixed(nvml, visible)])


def invalid(nvml: Nvml, visible: VisibleGpus, slurm: Slurm | Unavailable) -> list[Finding]:
    token = visible.repeated if visible.repeated is not None else visible.stopped_at
    if token is None:
        return []
    number = len(nvml.usable)
    trouble = f"names {token or 'an empty entry'} twice" if visible.repeated is not None else f"names {token or 'an empty entry'}"
    here = "which empties the list" if visible.repeated is not None else f"and the GPUs here are 0 to {number - 1}"
    if visible.taken:
        here = f"which is none of the {number} GPUs here: CUDA shows the {len(visible.taken)} before it"
    unset = "Unset it" + (": Slurm has already given this job its own GPUs" if isinstance(slurm, Slurm) else "")
    return [
        Finding(
            level="note" if visible.taken else "fail",
            subject="CUDA_VISIBLE_DEVICES",
            summary=f"CUDA_VISIBLE_DEVICES={visible.told} {trouble}, {here}",
            why="CUDA stops reading at the first entry that names no GPU, and says nothing. In a container or a step GPUs are"
            " counted from 0.",
            fixes=(Fix(unset, ("unset CUDA_VISIBLE_DEVICES",)),),
        )
    ]


def mixed(nvml: Nvml, visible: VisibleGpus) -> list[Finding]:
    names = sorted({gpu.name for gpu in nvml.usable if gpu.name})
    if len(names) < 2 or visible.in_bus_order:
        return []
    return [
        Finding(
            level="note",
            subject="CUDA_DEVICE_ORDER",
            summary=f"GPUs of different models: CUDA and nvidia-smi may number them differently ({', '.join(names)})",
            why="CUDA counts the fastest GPU first, nvidia-smi by their place on the bus.",
            fixes=(Fix("Have both count by the bus", ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)),),
        )
    ]


CHECK = Check(gpu_order)
