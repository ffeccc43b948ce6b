import shlex

from dl_doctor.contract import Check
from dl_doctor.facts import FittingLoader, LoaderPlan, SharedMemory
from dl_doctor.facts.batches import SpareViews
from dl_doctor.fixes import ask_for_less, for_containers
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import MIB, binary_size, round_up

BLIND_MINIMUM = 512 * MIB
"""Wanted where the need is unknown: the line below which DeepSpeed's ds_report warns."""

SPARE_MINIMUM = 1 * MIB
"""Of a batch, what travels and is not used, to be worth a change of the dataset. Proposal."""

STALE_MINIMUM = 1 * MIB
"""Left-over segments below this are no more than untidy. Proposal."""

PATH = "/dev/shm"  # noqa: S108 (it is the subject)


def shm_size(shm: SharedMemory | Unavailable, plan: LoaderPlan, fitting: FittingLoader | Unavailable) -> Verdict:
    """Shared memory holds the batches in flight

    ## What it checks
    Whether what is free in /dev/shm is enough for the batches that all workers have under way at once, and whether killed
    programs have left segments in it.

    ## Why it matters
    A worker hands each batch over through /dev/shm. Containers get 64 MiB of it unless told otherwise. When it runs out,
    current PyTorch raises "No space left on device", older PyTorch dies with a bus error, and a loader with a collate_fn of
    its own can wait for ever. NCCL takes its share of it too.

    ## How it decides
    The need is (workers x prefetch_factor + 2) batches for every rank that shares the mount. Less free than the need fails;
    less than one and a half times warns, and so does less than the need and 10 MiB for each pair of ranks where GPUs are
    expected. Without workers, and with one rank or no GPU, nothing is needed. Where the need cannot be known, less than 512 MiB
    warns. Fewer free inodes than locks and tensors take at best fail. Segments of shared-memory libraries that are yours, whose
    maker has ended and that no process uses, warn from 1 MiB on. So do tensors of which a batch shows a quarter or less, while
    their storages travel whole, from 1 MiB on.

    For example, 8 workers and batches of 24 MiB need (8 x 2 + 2) x 24 MiB = 432 MiB: with 64 MiB it fails.

    ## How to fix
    Give the container more, or ask for less: fewer workers, a smaller prefetch_factor, uint8 instead of float32.

    ## Known limits
    A Kubernetes emptyDir with a sizeLimit can be smaller than it looks from inside. In a container, segments are not called
    left over, because processes out of sight may use them.

    ## References
    pytorch/pytorch#5040, moby/moby#2606, kubernetes/kubernetes#125852, NVIDIA/nccl#1518
    """
    if isinstance(shm, Unavailable):
        return missing(shm, plan)
    size = "no limit of its own" if shm.size_bytes is None else f"a size of {binary_size(shm.size_bytes)}"
    free = "" if shm.free_bytes is None else f", {binary_size(shm.free_bytes)} free"
    need = plan.shm_need_bytes
    wanted = "what the loader needs is not known" if need is None else f"the loader needs {binary_size(need)}"
    fewer = ask_for_less(fitting)
    return Verdict(
        f"{PATH} has {size}{free}; {wanted}",
        [
            *left_over(shm),
            *too_small(shm, plan, fewer),
            *too_few_files(shm, plan),
            *whole_storages(plan),
            *unknown_need(plan),
        ],
    )


def missing(shm: Unavailable, plan: LoaderPlan) -> Verdict:
    if shm.kind != "absent" or shm.needs is not None:  # a system without /proc shares memory in another way
        return Verdict.lacking("shared_memory", shm)
    if plan.num_workers == 0 and not plan.nccl_bytes:
        return Verdict(f"{shm.detail}; without workers none is needed")
    finding = Finding(
        level="fail",
        subject=PATH,
        summary=f"There is no {PATH}, and {'ranks share memory' if plan.num_workers == 0 else 'workers hand their batches over'}"
        " through it",
        why="Already a lock of multiprocessing lives there: a DataLoader with workers ends in FileNotFoundError.",
        fixes=enlarge(plan.comfortable_shm(plan.shm_need_bytes) if plan.shm_need_bytes else BLIND_MINIMUM),
    )
    return Verdict(shm.detail, [finding])


def too_small(shm: SharedMemory, plan: LoaderPlan, fewer: tuple[Fix, ...]) -> list[Finding]:
    need = plan.shm_need_bytes
    if shm.free_bytes is None or (plan.num_workers == 0 and not plan.nccl_bytes):
        return []
    if need is None:
        return blind(shm.free_bytes, used(shm))
    comfort = plan.comfortable_shm(need)
    if shm.free_bytes >= comfort:
        return []
    tight = shm.free_bytes >= need
    wanted = f"this loader needs {binary_size(need)}" if need else f"NCCL may need {binary_size(plan.nccl_bytes)}"
    little = ", little more than enough" if need and tight else ""
    return [
        Finding(
            level="warn" if tight else "fail",
            subject=PATH,
            summary=f"{PATH} has {binary_size(shm.free_bytes)} free{little}: {wanted}",
            measured=Quantity(shm.free_bytes, "bytes", f"statvfs {PATH}"),
            expected=Quantity(comfort if tight else need, "bytes", plan.arithmetic or "what NCCL shares between ranks"),
            relation="at_least",
            why=" ".join(filter(None, (plan.arithmetic, symptom(tight=tight, plan=plan), occupied(shm)))),
            fixes=(*enlarge(comfort + used(shm)), *fewer),
        )
    ]


def too_few_files(shm: SharedMemory, plan: LoaderPlan) -> list[Finding]:
    need = plan.shm_files_needed
    if shm.free_files is None or shm.free_files >= need:
        return []
    return [
        Finding(
            level="fail",
            subject=PATH,
            summary=f"In {PATH} {shm.free_files} more files can be made, and the loaders need at least {need}",
            measured=Quantity(shm.free_files, "files", f"statvfs {PATH}"),
            expected=Quantity(need, "files", "one for each lock, and for each tensor that is handed over"),
            relation="at_least",
            why='It ends in "No space left on device (28)" with space left: the mount limits the number of files (nr_inodes).',
            fixes=(
                Fix(
                    "Mount it anew without the limit, or have its admin do so",
                    ("mount -o remount,nr_inodes=0 /dev/shm",),
                    risk="needs-root",
                ),
            ),
        )
    ]


def whole_storages(plan: LoaderPlan) -> list[Finding]:
    """Tensors that show a small part of what travels with them."""
    if plan.num_workers == 0:
        return []
    return [spare(views) for views in plan.spare_views if views.storage_bytes - views.tensor_bytes >= SPARE_MINIMUM]


def spare(views: SpareViews) -> Finding:
    more = f" and {views.views - 1} more" if views.views > 1 else ""
    return Finding(
        level="warn",
        subject=views.path,
        summary=f"{views.path}{more} take {binary_size(views.storage_bytes)} of {PATH}, to hand over "
        f"{binary_size(views.tensor_bytes)}",
        measured=Quantity(views.storage_bytes, "bytes", "the storages of these tensors in one batch"),
        expected=Quantity(views.tensor_bytes, "bytes", "the tensors themselves"),
        relation="at_most",
        why="A view of a larger tensor, such as a crop, takes all of its storage along when a worker hands it over.",
        fixes=(Fix("Copy what is cropped, in the dataset", ("crop = image[..., top:bottom, left:right].clone()",)),),
    )


def blind(free: int, used: int) -> list[Finding]:
    if free >= BLIND_MINIMUM:
        return []
    return [
        Finding(
            level="warn",
            subject=PATH,
            summary=f"{PATH} has only {binary_size(free)} free",
            measured=Quantity(free, "bytes", f"statvfs {PATH}"),
            expected=Quantity(BLIND_MINIMUM, "bytes", "the usual minimum with workers"),
            relation="at_least",
            why="Batches of images fill it at once; small tables may be fine.",
            fixes=enlarge(BLIND_MINIMUM + used),
        )
    ]


def unknown_need(plan: LoaderPlan) -> list[Finding]:
    if plan.shm_need_bytes is not None:
        return []
    missing = "--batch-bytes" if plan.num_workers is not None else "--num-workers and --batch-bytes"
    return [
        Finding(
            level="note",
            subject="batch-bytes",
            summary=f"What your loader needs is not known: {missing}, or --loader, would have memory judged by it",
            why="The size of one collated batch: 32 images of 3 x 224 x 224 in float32 are 18.4MiB.",
        )
    ]


def left_over(shm: SharedMemory) -> list[Finding]:
    stale = shm.stale or ()
    total = sum(segment.used_bytes for segment in stale)
    if not total:
        return []
    names = [segment.name for segment in stale[:3]]
    more = f" and {len(stale) - 3} more" if len(stale) > 3 else ""
    return [
        Finding(
            level="warn" if total >= STALE_MINIMUM else "note",
            subject=PATH,
            summary=f"{binary_size(total)} of {PATH} are left over: {', '.join(names)}{more}",
            measured=Quantity(total, "bytes", f"files in {PATH} that no process maps or holds open"),
            expected=Quantity(0, "bytes", "a program removes its segments when it ends"),
            relation="equal",
            why="The programs that made these segments were killed. They take memory until somebody removes them.",
            fixes=(
                Fix(
                    "Remove them",
                    tuple(f"rm {shlex.quote(f'{PATH}/{segment.name}')}" for segment in stale[:20]),
                    risk="disruptive",
                    note="Make sure that no program of yours is about to use them.",
                ),
            ),
        )
    ]


def symptom(*, tight: bool, plan: LoaderPlan) -> str:
    if tight and plan.nccl_bytes:
        return f"NCCL takes up to {binary_size(plan.nccl_bytes)} on top where GPUs cannot reach each other directly."
    if tight:
        return "With less than one and a half times the need, a second loader or one slow step takes the rest."
    if plan.collate_fn:
        return (
            f"When it is full, a batch of this loader's own collate_fn ({plan.collate_fn}) is lost in a thread of the worker's, "
            "and the loader waits for ever; with DataLoader(..., timeout=60) it ends in an error. Where it calls torch's "
            'default_collate, PyTorch raises "No space left on device (28)".'
        )
    return (
        'When it is full, current PyTorch raises "No space left on device (28)", older PyTorch dies with a bus error, and a '
        "loader with a collate_fn of its own may wait for ever."
    )


def occupied(shm: SharedMemory) -> str:
    """Who holds it, where that is a good part of it."""
    if shm.size_bytes is None or used(shm) < shm.size_bytes / 10 or not shm.tenants:
        return ""
    largest = shm.tenants[0]
    return f"Of its {binary_size(shm.size_bytes)}, files named {largest.prefix}… hold {binary_size(largest.used_bytes)}."


def used(shm: SharedMemory) -> int:
    return (shm.size_bytes or 0) - (shm.free_bytes or 0)


def enlarge(size_bytes: int) -> tuple[Fix, ...]:
    """Ways to at least this size."""
    target = round_up(size_bytes)
    size, quantity = binary_size(target, short=True), binary_size(target).replace(" ", "").removesuffix("B")
    return (
        *for_containers(
            "Start the container with more shared memory",
            run=f"--shm-size={size}",
            compose=(f"shm_size: {size}b",),
            kubernetes=(
                "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: " + quantity + "}}]",
                "volumeMounts: [{name: shm, mountPath: /dev/shm}]",
                "# raise the pod's memory limit by as much: files in /dev/shm count against it",
            ),
            note="Or --ipc=host, which shares the host's; never both, and never --ipc=none. It counts as the container's memory.",
        ),
        Fix(
            "Give the task more shared memory",
            (f'"linuxParameters": {{"sharedMemorySize": {target // MIB}}}',),
            runtimes=("ecs",),
            note="Fargate has no such setting: use fewer workers there.",
        ),
        Fix("Give the job's container more", (f"options: --shm-size={size}",), runtimes=("github-actions",)),
        Fix(
            "Enlarge the mount on the node, or have its admin do so",
            (f"mount -o remount,size={size} /dev/shm",),
            runtimes=("bare", "slurm", "apptainer", "enroot", "container", "lxc"),
            risk="needs-root",
        ),
    )


CHECK = Check(shm_size, essential=True)
