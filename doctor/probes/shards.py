"""Into how many parts an iterable dataset is split, each of which one worker reads as a whole; for other probes."""


def shards_of(dataset):
    """None where it does not say, or where workers share its samples rather than its shards.

    Hugging Face's datasets have `num_shards` (`n_shards` before 3.0); WebDataset has `urls` in the first stage of its pipeline.
    """
    if "streaming" in packages_of(dataset):  # MosaicML's has num_shards, and splits their samples among all workers
        return None
    for name in ("num_shards", "n_shards"):
        number = attribute(dataset, name)
        if isinstance(number, int) and not isinstance(number, bool):
            return number
    stages = attribute(dataset, "pipeline")
    first = stages[0] if isinstance(stages, list) and stages else dataset
    urls = None if "Resampled" in type(first).__name__ else attribute(first, "urls")  # each worker draws from all of them
    return len(urls) if isinstance(urls, (list, tuple)) else None


def packages_of(value):
    """Outermost packages that its type, and the types this is derived from, come from: `nvidia.dali` of NVIDIA's many."""
    modules = [kind.__module__ or "" for kind in type(value).__mro__]
    parts = [module.split(".")[: 2 if module.startswith(("nvidia.", "torchdata.")) else 1] for module in modules]
    return sorted({".".join(part) for part in parts} - {"", "builtins", "abc", "typing", "collections"})


def attribute(value, name):
    """None where there is none, or where it raises: it may be a property of the job's."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 (whatever it is, it tells no number)
        return None
