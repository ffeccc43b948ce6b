"""Take samples as one of several workers would, and tell them apart by their digests."""

import hashlib
import itertools
import pickle
import sys

from .indices import some_indices
from .shards import shards_of

INDICES = 3
ITEMS = 2_000
LEAST_ITEMS = 16
"""Of an iterable dataset, however long they take."""

PARTS_DEPTH, MOST_PARTS, MOST_COLUMNS = 2, 16, 32
"""An item is taken apart so many levels deep, and what has more parts than that is not: text is a list of many numbers."""

DEPTH, MOST_OBJECTS, MOST_ITEMS = 6, 20_000, 200
"""How far generators are looked for: levels, objects in all, and items of one list or dict."""


def probe(arguments, step, loaded):
    """`allowed_bytes`; `worker`, the one it is `seeded_as`, and how many `workers` there are; `budget_s`, after which no further
    one is drawn.

    Gives what facts/worker_draws.py says of its fields.
    """
    loaded.limit_memory(arguments["allowed_bytes"])
    loaded.torch.manual_seed(0)  # for a sampler: both workers are asked for the same samples
    indices = [] if loaded.iterable else some_indices(loaded, INDICES, step)
    step("look for random number generators")
    generators = generators_of(loaded)
    before = [state_of(generator) for _, _, generator in generators]
    step("become worker %d" % arguments["worker"])
    loaded.be_worker(arguments["worker"], max(arguments["workers"], 2), arguments["seeded_as"])
    end_s = loaded.clock_s() + arguments["budget_s"]
    drawn = items(loaded, step, end_s) if loaded.iterable else samples(loaded, indices, step, end_s)
    used = [(path, kind) for (path, kind, generator), was in zip(generators, before) if state_of(generator) != was]
    generators_used = [{"path": path, "type": kind} for path, kind in used]
    return dict(drawn, generators=generators_used, shards=shards_of(loaded.dataset))


def samples(loaded, indices, step, end_s):
    first, second = [], []  # type: tuple[list[str], list[str]]
    for index in indices:
        step("draw sample %s twice" % (index,))
        for digests in (first, second):
            digests.append(digest(loaded.read([index])[0]))
        if loaded.clock_s() > end_s:
            break
    return {"first": first, "second": second}


def items(loaded, step, end_s):
    step("iterate the dataset")
    digests = []
    parts = []  # type: list[dict[str, str]]
    iterator = iter(loaded.dataset)
    for number, item in enumerate(itertools.islice(iterator, ITEMS)):
        apart = dict(parts_of(item))
        digests.append(apart[""] if "" in apart else digest(sorted(apart.items())))
        parts.append({path: part[:12] for path, part in apart.items()})  # there are many
        if number + 1 >= LEAST_ITEMS and loaded.clock_s() > end_s:
            break
    exhausted = len(digests) < LEAST_ITEMS or next(iterator, digests) is digests
    return {"first": digests, "parts": columns_of(parts), "exhausted": exhausted}


def parts_of(value, path="", depth=0):
    """Digests of what an item is made of, such as `[1]['key']`; of one that is not taken apart, its own."""
    named = []
    if isinstance(value, dict):
        named = list(value.items())
    elif isinstance(value, (list, tuple)):
        named = list(enumerate(value))
    if not named or len(named) > MOST_PARTS or depth == PARTS_DEPTH:
        yield path, digest(value)
        return
    for name, one in named:
        for part in parts_of(one, "%s[%r]" % (path, name), depth + 1):
            yield part


def columns_of(items):
    """Of each part that all items have, what it is in each of them; of an item that was not taken apart there is none."""
    common = set(items[0]).intersection(*items) - {""} if items else set()
    telling = sorted((-len({item[path] for item in items}), path) for path in common)[:MOST_COLUMNS]
    return {path: [item[path] for item in items] for _, path in telling}


def digest(sample):
    """Of the contents: of tensors and arrays of their bytes."""
    taken = hashlib.sha1()
    take(sample, taken)
    return taken.hexdigest()


def take(value, taken):
    if hasattr(value, "detach"):
        value = array_of(value.detach().cpu())
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        taken.update(str((value.dtype, value.shape)).encode())
        taken.update(value.tobytes())
    elif isinstance(value, dict):
        for key in value:
            taken.update(repr(key).encode())
            take(value[key], taken)
    elif isinstance(value, (list, tuple)):
        taken.update(b"(%d" % len(value))
        for one in value:
            take(one, taken)
    else:
        try:
            taken.update(pickle.dumps(value))
        except Exception:  # noqa: BLE001 (what is no data does not tell samples apart)
            taken.update(type(value).__name__.encode())


def array_of(tensor):
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):  # bfloat16, sparse, or no NumPy
        return tensor.to_dense().tolist()


def generators_of(loaded):
    """Random number generators that the dataset holds or its module has made: path, type, and the generator itself."""
    module = type(loaded.dataset).__module__
    own = vars(sys.modules[module]) if module in sys.modules else {}
    made = [("%s.%s" % (module, name), kind_of(value), value) for name, value in own.items() if kind_of(value)]
    return walk("dataset", loaded.dataset) + made


def walk(path, value):
    found = []
    seen = set()  # type: set[int]
    pending = [(path, value, 0)]
    while pending and len(seen) < MOST_OBJECTS:
        path, value, depth = pending.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = kind_of(value)
        if kind:
            found.append((path, kind, value))
        elif depth < DEPTH:
            pending.extend((inner_path, inner, depth + 1) for inner_path, inner in inside(path, value))
    return found


def state_of(generator):
    """A digest of where it stands: it changes when something is drawn."""
    for name in ("getstate", "get_state"):
        if hasattr(generator, name):
            return digest(getattr(generator, name)())
    return digest(repr(generator.bit_generator.state))


def kind_of(value):
    kind = "%s.%s" % (type(value).__module__, type(value).__name__)
    known = {"random.Random": "random.Random", "torch._C.Generator": "torch.Generator"}
    if type(value).__module__.startswith("numpy.random") and type(value).__name__ in ("Generator", "RandomState"):
        return "numpy.random." + type(value).__name__
    return known.get(kind)


def inside(path, value):
    if isinstance(value, dict):
        return [("%s[%r]" % (path, key), one) for key, one in itertools.islice(value.items(), MOST_ITEMS)]
    if isinstance(value, (list, tuple)):
        return [("%s[%d]" % (path, number), one) for number, one in enumerate(value[:MOST_ITEMS])]
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, type) or hasattr(value, "untyped_storage"):
        return []
    return [("%s.%s" % (path, name), one) for name, one in held.items()]
