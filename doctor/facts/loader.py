"""The dataset or the loader that the user names: how making it ended, and what it is."""

from typing import Literal

import msgspec

from dl_doctor.facts.allowance import Allowance
from dl_doctor.facts.target import Target
from dl_doctor.facts.trouble import refused_memory
from dl_doctor.model import Ended, Unavailable
from dl_doctor.probing import HERE, Probes
from dl_doctor.settings import Settings, StartMethod

EXAMPLE = f"{HERE / 'example' / 'dl_doctor_example.py'}:make_loader"
"""What `--example` stands for."""

THREADS_OF_THEIR_OWN = {
    "nvidia.dali": "DALI loads with threads of its own; its own setting is num_threads of the pipeline",
    "ffcv": "FFCV loads with threads of its own; its own setting is num_workers of ffcv.loader.Loader, which counts threads",
    "spdl": "SPDL loads with threads of its own; its own setting is num_threads of the pipeline, and concurrency of each stage",
    "torchdata.nodes": "torchdata's nodes load with threads or processes of their own; their own setting is num_workers of "
    "ParallelMapper",
    "tensorflow": "tf.data loads with threads of its own; its own setting is num_parallel_calls of map() and interleave()",
}
"""By the package of a loader's type, which nobody needs to import to see it. Source: the documentation of each."""

DEADLINE_S = 45.0


class LoaderArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the attributes of a torch.utils.data.DataLoader."""

    batch_size: int | None
    """None where a batch sampler of its own decides, or nothing is batched."""

    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    drop_last: bool
    timeout_s: float
    start_method: StartMethod | None
    """By its multiprocessing_context; None where the default decides."""

    collate_fn: str | None
    """None where it is torch's default."""

    worker_init_fn: str | None
    sampler: str
    batch_sampler: str | None
    batches: int | None
    """Of one epoch; None where that is not known."""

    rank_aware: bool = False
    """Whether the loader or a sampler of it knows how many ranks there are."""

    dataset_has_set_epoch: bool = False
    in_order: bool = True
    """Whether batches come in the sampler's order; always, before torch 2.6."""


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """Source: the object that --dataset or --loader names, made in a process of the job's Python."""

    spec: str
    ended: Ended
    allowed_bytes: int
    """What making it might take of memory, on top of torch."""

    wrong: str | None = None
    """Why what is named cannot be examined, and what to write instead; None where it can."""

    kind: Literal["map", "iterable", "other"] | None = None
    """By torch's distinction; `other`: a loader of another library. None where it was not made."""

    type: str | None = None
    length: int | None = None
    """Samples; None where it does not say."""

    packages: tuple[str, ...] = ()
    """That its type, and the types it is derived from, come from."""

    shards: int | None = None
    """Parts of an iterable dataset, each of which one worker reads; None where it does not say."""

    options: tuple[str, ...] = ()
    """Parameters of torch's DataLoader there that not every version has: in_order, worker_method."""

    make_s: float | None = None
    """Importing its module and making it, without importing torch."""

    called: bool = False
    choices: tuple[str, ...] = ()
    """What was taken out of what: a split, the first of several loaders."""

    opened: tuple[str, ...] = ()
    """Files that were opened meanwhile and still are."""

    threads: tuple[str, ...] = ()
    """Names of Python's threads that run now, without the main one."""

    unsafe_at_fork: tuple[str, ...] = ()
    """Libraries whose threads or state are alive now and break in forked children: jax, tensorflow, grpc, opencv, fsspec,
    tokenizers."""

    daemonic: bool = False
    """Whether the process is a daemon of multiprocessing, which may have no children."""

    default_method: StartMethod | None = None
    """What its module, or what the interpreter imports at its start, has set."""

    cuda_used: bool = False
    arguments: LoaderArguments | None = None
    """None of a dataset without a loader."""

    @property
    def made(self) -> bool:
        return self.kind is not None

    @property
    def not_examined(self) -> Unavailable | None:
        """Why nothing can be said of what is loaded, if so."""
        if not self.made:
            return Unavailable.absent("the dataset could not be made: see dataset-loads")
        if self.kind == "other":
            return Unavailable.absent(f"{self.type} is no Dataset and no DataLoader of torch")
        return None

    @property
    def own_threads(self) -> str | None:
        """Of a loader that has threads of its own: whose it is, and what is set instead of num_workers."""
        known = [told for package, told in THREADS_OF_THEIR_OWN.items() if package in self.packages]
        return known[0] if self.kind == "other" and known else None

    @property
    def num_workers(self) -> int | None:
        return self.arguments.num_workers if self.arguments else None

    @property
    def start_method(self) -> StartMethod | None:
        """What its workers are started by; None where Python's default decides."""
        return (self.arguments and self.arguments.start_method) or self.default_method

    @property
    def out_of_memory(self) -> bool:
        """Whether making it was refused more memory than it was allowed."""
        return self.ended.how == "raised" and refused_memory(self.ended.error)


async def collect(probes: Probes, settings: Settings, target: Target, allowance: Allowance) -> Loader | Unavailable:
    spec = EXAMPLE if settings.example else settings.loader or settings.dataset
    if spec is None:
        return Unavailable.not_asked("needs --dataset or --loader")
    if settings.example and not target.has_torch:
        return Unavailable.failed(f"the example needs torch, and {target.path} has none; --python names another one")
    arguments = {"spec": spec, "allowed_bytes": allowance.allowed_bytes, "start_method": settings.start_method}
    probed = await probes.run("loader", arguments, python=target.path, deadline_s=DEADLINE_S, place="loading")
    return msgspec.convert(
        {"spec": spec, "allowed_bytes": allowance.allowed_bytes, "ended": probed.ended, **(probed.answer or {})}, Loader
    )
