from dl_doctor.contract import Check
from dl_doctor.facts import LoaderPlan, SharedMemory, SharingStrategy
from dl_doctor.model import Finding, Fix, Quantity, Unavailable, Verdict
from dl_doctor.units import binary_size

DEFAULT = "file_descriptor"
"""What torch has on Linux."""


def sharing_strategy(strategy: SharingStrategy, plan: LoaderPlan, shm: SharedMemory | Unavailable) -> Verdict:
    """Tensors are shared by descriptors

    ## What it checks
    By which of torch's two ways tensors travel from a worker to the main process (`torch.multiprocessing.get_sharing_strategy`),
    where the dataset was made and in a worker that has got it.

    ## Why it matters
    By default a tensor travels as a descriptor, and what nobody holds is gone. With `file_system`, often set where descriptors
    run out, it is a file in /dev/shm with a name: what a killed worker had made stays there, and a name can be removed before
    its reader has opened it ("unable to open shared memory object").

    ## How it decides
    file_system is a note. With several ranks, or with segments that killed programs have left in /dev/shm, it warns. So does a
    setting that does not reach the workers: under spawn and forkserver it counts only where the worker itself sets it.

    For example, `set_sharing_strategy("file_system")` below a main guard reaches no worker by spawn.

    ## How to fix
    Allow more descriptors (`ulimit -n`) and leave the default. Otherwise set it at the top of the module that has the dataset,
    or in a worker_init_fn.

    ## Known limits
    What a worker_init_fn sets is not seen.

    ## References
    pytorch/pytorch#11201, pytorch/pytorch#30225, KatherLab/MediSwarm#574
    """
    if strategy.here is None:
        return Verdict.unknown(f"asking torch for its sharing strategy: it {strategy.ended.in_words}")
    worker = "" if strategy.worker is None else f"; in a worker by {strategy.method}: {strategy.worker}"
    seen = f"{strategy.here} where the dataset was made{worker}"
    if strategy.here == DEFAULT or len(strategy.available) < 2 or plan.num_workers == 0:
        return Verdict(seen)
    return Verdict(seen, [*does_not_reach(strategy), named_files(plan, shm)])


def does_not_reach(strategy: SharingStrategy) -> list[Finding]:
    if strategy.worker in (None, strategy.here):
        return []
    return [
        Finding(
            level="warn",
            subject="set_sharing_strategy",
            summary=f"{strategy.here} does not reach the workers: by {strategy.method} they have {strategy.worker}",
            why="Tensors of a batch travel as the worker's strategy has it, so descriptors are used up as before.",
            fixes=(
                Fix(
                    "Set it where each worker comes by, at the top of the module that has the dataset",
                    (f'torch.multiprocessing.set_sharing_strategy("{strategy.here}")',),
                ),
            ),
        )
    ]


def named_files(plan: LoaderPlan, shm: SharedMemory | Unavailable) -> Finding:
    stale = () if isinstance(shm, Unavailable) or shm.stale is None else [s for s in shm.stale if s.name.startswith("torch_")]
    left = sum(segment.used_bytes for segment in stale)
    reasons = [
        *([f"{plan.ranks} ranks use it"] if plan.ranks > 1 else []),
        *([f"killed programs have left {binary_size(left)} in /dev/shm"] if left else []),
    ]
    return Finding(
        level="warn" if reasons else "note",
        subject="set_sharing_strategy",
        summary="Tensors are shared by names in /dev/shm (file_system)" + (f", and {' and '.join(reasons)}" if reasons else ""),
        measured=Quantity(left, "bytes", "left over in /dev/shm") if left else None,
        why="A killed worker leaves its tensors there, and a name can be removed before its reader has opened it.",
        fixes=(
            Fix(
                "Leave the default, and allow more descriptors: dl-doctor explain fd-limit",
                ("ulimit -n 65536", 'torch.multiprocessing.set_sharing_strategy("file_descriptor")'),
            ),
        ),
    )


CHECK = Check(sharing_strategy)
