"""Send the dataset to workers as torch's DataLoader does: weigh its pickle, then have a real child of each method receive it.

Sampler and generator stay in the main process and never travel.
"""

import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import multiprocessing.synchronize
import os
import re
import signal
import tempfile
import threading
import time

from .attributes import attributes, full_name
from .culprit import culprit, missing_in
from .shortening import beginning, ending
from .socket_folder import socket_folder

MOST_SECONDS = 8
"""Of pickling, without keeping anything of it."""

CHILD = "writer.send(True)"


def probe(arguments, step, loaded):
    """`methods` to try, the first as the job does; `allowed_bytes` of memory, `child_bytes` that one
    that starts anew takes of it for torch, `patience_s` for each child.

    Gives the weight of the pickle, what in it cannot travel and why, and how each trip ended.
    """
    loader = loaded.loader
    parts = {
        "dataset": loaded.dataset,
        "collate_fn": loaded.collate_fn,
        "worker_init_fn": loader.worker_init_fn if loader is not None else None,
    }
    share = arguments["allowed_bytes"] // 2  # one half for this process, one for the child
    loaded.limit_memory(share)
    if arguments["methods"][0] == "fork":
        # Locks of multiprocessing are made for fork then, and would be made for another method if that were the default.
        multiprocessing.synchronize.SemLock.__reduce__ = lambda _: (threading.Lock, ())  # type: ignore[method-assign,assignment]
    step("pickle the dataset")
    parcel = loaded.weigh(tuple(parts.values()), share, starting=True, most_seconds=MOST_SECONDS)
    told = {
        "error": in_words(parcel.error) if parcel.error and not parcel.stopped else None,
        "culprit": None,
        "pickle_bytes": parcel.stream_bytes,
        "storage_bytes": sum(parcel.storages.values()),
        "stopped": parcel.stopped,
        "heaviest": heaviest(loaded, parcel, share),
        "trips": [],
    }
    if told["error"]:
        step("look for what cannot be pickled")
        told["culprit"] = culprit(parts)
    told["not_tried"] = reason = too_large(parcel, share, arguments["child_bytes"])
    signal.signal(signal.SIGALRM, out_of_patience)
    for method in arguments["methods"]:
        if reason and method != "fork":
            continue
        step("send the dataset to a child by %s" % method)
        trip = sent(method, parts, arguments["patience_s"])
        if trip["where"] == "child" and trip["error"] and not told["culprit"]:
            told["culprit"] = culprit(parts, missing_in(trip["error"]))
        told["trips"].append(trip)
    return told


def too_large(parcel, share, child_bytes):
    """Why a real child is better not tried: the pickle is kept in memory and the tensors move to /dev/shm."""
    if parcel.stopped:
        return parcel.stopped
    if parcel.on_device:
        return "device"
    if child_bytes > 2 * share:
        return "child"
    room = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    free = min(share, room.f_bavail * room.f_frsize // 2) if room else share
    return "storages" if sum(parcel.storages.values()) > free else None


def in_words(error):
    return "%s: %s" % (type(error).__name__, error)


def heaviest(loaded, parcel, most_bytes):
    """The attribute with most of the weight, where there is much."""
    if parcel.whole_bytes < 16 << 20:
        return None
    best = None
    for name, value in attributes(loaded.dataset):
        weight = loaded.weigh(value, most_bytes, starting=True, most_seconds=2).whole_bytes
        if best is None or weight > best["bytes"]:
            best = {"path": "dataset." + name, "type": full_name(type(value)), "bytes": weight}
    return best


class OutOfPatience(Exception):
    pass


def out_of_patience(*_):
    raise OutOfPatience


def sent(method, parts, patience_s):
    """How a trip ended: `where` it failed, in the parent (pickling, starting) or in the child."""
    told = {"method": method, "how": "answered", "where": None, "error": None, "exit_code": None, "printed": ""}
    begin = time.monotonic()
    with Overheard() as overheard:
        child = None
        signal.alarm(patience_s)
        try:
            context = multiprocessing.get_context(method)
            reader, writer = context.Pipe(duplex=False)
            child = context.Process(target=exec, args=(CHILD, dict(parts, writer=writer)), daemon=True)
            start(child, method)
            writer.close()
            multiprocessing.connection.wait([reader, child.sentinel])
            answered = received(reader)
            child.join()
            if not answered:
                told.update(how="exited", where="child", exit_code=child.exitcode)
        except OutOfPatience:
            told.update(how="hung", where="child")
        except (BrokenPipeError, ConnectionError, EOFError):  # it died before it had read all
            told.update(how="exited", where="child", exit_code=1)
            overheard.wait()
        except Exception as error:  # noqa: BLE001 (it is the answer)
            told.update(how="raised", where="parent", error=in_words(error))
        finally:
            signal.alarm(0)
            if child is not None and getattr(child, "_popen", None) is not None:
                child.kill()
        text = overheard.text()
    if told["where"] == "child":
        told.update(printed=ending(text, 4000), error=last_error(text))
    return dict(told, duration_s=round(time.monotonic() - begin, 6))


def received(reader):
    try:
        return reader.poll() and reader.recv() is True
    except EOFError:
        return False


def start(child, method):
    if method != "forkserver":
        return child.start()
    with socket_folder():  # which nobody needs when it has started
        return child.start()


class Overheard:
    """Standard error of this process and of the children that it starts, kept in a file without a name."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile() if not hasattr(os, "memfd_create") else os.fdopen(os.memfd_create("said"), "w+b")
        self.kept = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def wait(self):
        """Until a traceback is whole, for a moment."""
        end = time.monotonic() + 2
        while time.monotonic() < end and not last_error(self.text()):
            time.sleep(0.02)

    def text(self):
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), 65536, max(size - 65536, 0)).decode("utf-8", "replace")

    def __exit__(self, *_):
        os.dup2(self.kept, 2)
        os.close(self.kept)
        self.file.close()


def last_error(text):
    """The last line of a traceback, such as `AttributeError: Can't get attribute 'Data'`."""
    lines = [line for line in text.splitlines() if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return beginning(lines[-1], 500) if lines else None
