from dl_doctor.contract import Check
from dl_doctor.facts import DatasetObjects, DatasetSamples, Loader, LoaderPlan, StartMethods, WorkerCuda
from dl_doctor.model import Finding, Fix, Level, Unavailable, Verdict


def dataset_cuda(
    loader: Loader,
    objects: DatasetObjects,
    use: WorkerCuda | Unavailable,
    methods: StartMethods,
    plan: LoaderPlan,
    samples: DatasetSamples | Unavailable,
) -> Verdict:
    """Workers leave CUDA to the main process

    ## What it checks
    Whether the dataset or collate_fn hold tensors on a GPU, and whether making one sample and a batch of it uses CUDA. The
    sample is made in a process in which the beginning of torch.cuda is replaced by an exception: no GPU is touched.

    ## Why it matters
    CUDA cannot be used in a process that was forked from one that has used it: the first worker ends with "Cannot re-initialize
    CUDA in forked subprocess". Under spawn it works, and each worker takes some hundreds of MiB of GPU memory for its context.

    ## How it decides
    Under fork a tensor that is held on a GPU fails, and so does CUDA that is used for a sample. Under spawn and forkserver they
    warn. That the main process uses CUDA is fine as long as workers do not. Where it has used CUDA when the dataset is made, and
    samples do, start-method tells it.

    For example, `self.mean = torch.load("mean.pt")`, saved from a GPU, fails; with `map_location="cpu"` it passes.

    ## How to fix
    Keep all that workers touch on the CPU, and move whole batches: `batch = batch.to("cuda", non_blocking=True)`.

    ## Known limits
    Only one sample is made; what others do is not seen. CUDA by other libraries than torch is not seen.

    ## References
    pytorch/pytorch#40403, pytorch/pytorch#2971, docs.pytorch.org/docs/stable/notes/multiprocessing.html
    """
    method = methods.in_force(plan.start_method)
    if objects.ended.how != "answered":
        return Verdict.unknown(f"looking through what the dataset holds {objects.ended.in_words}")
    if plan.num_workers == 0:
        return Verdict("without workers CUDA may be used for samples")
    findings = [held(path, method) for path in objects.on_gpu]
    if isinstance(use, Unavailable):
        return Verdict("what samples use is not known", findings, Verdict.lacking("worker_cuda", use).reason)
    told_there = method == "fork" and loader.cuda_used and not objects.on_gpu
    if use.used_at and not told_there:
        findings.append(used(use.used_at, method))
    if use.ended.how != "answered" and isinstance(samples, DatasetSamples) and samples.obstacle and not findings:
        return Verdict.skip(f"{samples.obstacle}: see dataset-sample")
    if use.ended.how != "answered":
        return Verdict("", findings, Verdict.unknown(f"making a sample {use.ended.in_words}").reason)
    seen = "a sample was made without CUDA" if not use.used_at else f"a sample uses CUDA at {use.used_at}"
    seen += ", as start-method tells" if use.used_at and told_there else ""
    if use.error and not use.used_at:
        seen = f"until it raised ({use.error}), making a sample used no CUDA"
    return Verdict(
        f"{seen}; {'no tensor is' if not objects.on_gpu else f'{len(objects.on_gpu)} tensors are'} held on a GPU", findings
    )


def held(path: str, method: str) -> Finding:
    fixes = (Fix("Load it to the CPU, and move batches instead", ('torch.load(path, map_location="cpu")', f'{path}.to("cpu")')),)
    return of_cuda(path, f"{path} lies on a GPU, and workers by {method} get it", method, fixes)


def used(line: str, method: str) -> Finding:
    fixes = (
        Fix(
            "Make samples on the CPU, and move whole batches in the main process",
            ('batch = batch.to("cuda", non_blocking=True)',),
        ),
    )
    return of_cuda(line, f"Making a sample uses CUDA, at {line}, in workers by {method}", method, fixes)


def of_cuda(subject: str, summary: str, method: str, fixes: tuple[Fix, ...]) -> Finding:
    forked: Level = "fail" if method == "fork" else "warn"
    why = (
        "A forked worker cannot use CUDA once the main process has: it ends in `Cannot re-initialize CUDA in forked subprocess`."
        if method == "fork"
        else "Each worker begins CUDA anew, and takes some hundreds of MiB of GPU memory for nothing but that."
    )
    return Finding(level=forked, subject=subject, summary=summary, why=why, fixes=fixes)


CHECK = Check(dataset_cuda)
