"""How tensors are shared here, and in a worker that has got the user's dataset."""

import multiprocessing


def probe(arguments, step, loaded):
    """`method`, `workers` (whether there are any) and `allowed_bytes`; `worker` is asked only where it could differ."""
    sharing = loaded.torch.multiprocessing
    here = sharing.get_sharing_strategy()
    told = {"available": sorted(sharing.get_all_sharing_strategies()), "here": here, "worker": None}
    if arguments["method"] == "fork":
        return dict(told, worker=here)
    if len(told["available"]) < 2 or not arguments["workers"] or here == "file_descriptor":
        return told
    loaded.limit_memory(arguments["allowed_bytes"])
    step("start a worker by %s" % arguments["method"])
    with multiprocessing.get_context(arguments["method"]).Pool(1, initializer=type, initargs=(loaded.dataset,)) as pool:
        told["worker"] = pool.apply_async(sharing.get_sharing_strategy).get(20)
    return told
