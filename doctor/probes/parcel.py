"""What something weighs that is handed to another process, for other probes."""

import multiprocessing.context
import sys
from multiprocessing.reduction import ForkingPickler
from time import monotonic  # by a name of ours: the job's code may patch the module

PAGE_BYTES = 4096

COUNTED_BYTES = 1 << 16
"""Arrays of NumPy from this size on are counted and not pickled, which would copy them."""


class Parcel:
    """What of an object goes through shared memory and what through a pipe, as torch's reductions have it.

    Nothing is moved, and nothing of the pickle is kept. `starting`: it is for a process that is being started.
    """

    def __init__(self, thing, most_bytes, starting=False, most_seconds=float("inf"), pickler=None):
        """`pickler` makes one of a Parcel; None for multiprocessing's own."""
        self.storages = {}  # type: dict[int, int]
        """Bytes of each storage of CPU memory, whole however small the tensors are that show a part of it; by its address."""

        self.used = {}  # type: dict[int, int]
        """Bytes of the tensors that each is shown by."""

        self.stream_bytes = 0
        self.on_device = False
        """Whether it holds tensors on a GPU, which are not looked at."""

        self.error = None  # type: BaseException | None
        self.stopped = None  # type: str | None
        """Why weighing it has stopped, if so: `size`, `time`, `memory`."""

        self._most_bytes = most_bytes
        self._end_s = monotonic() + most_seconds
        if starting:
            multiprocessing.context.set_spawning_popen(NoChild())  # type: ignore[arg-type]
        try:
            (pickler or Weighing)(self).dump(thing)
        except MemoryError as error:
            self.stopped = self.stopped or "memory"
            self.error = error
        except BaseException as error:  # noqa: BLE001 (the caller's to judge)
            self.error = error
        finally:
            multiprocessing.context.set_spawning_popen(None)

    def write(self, piece):
        """Of a file, for the pickler."""
        self.add(memoryview(piece).nbytes)

    def add(self, size):
        self.stream_bytes += size
        if self.stream_bytes > self._most_bytes:
            self.stopped = "size"
        elif monotonic() > self._end_s:
            self.stopped = "time"
        if self.stopped:
            raise MemoryError("its pickle is larger than what is looked at")

    @property
    def whole_bytes(self):
        return self.stream_bytes + sum(self.storages.values())

    @property
    def shared_bytes(self):
        """Of /dev/shm: each storage is a file of whole pages."""
        return self.bytes_of(self.storages)

    def bytes_of(self, places):
        """The same for the storages at some of the addresses."""
        return sum(-(-self.storages[place] // PAGE_BYTES) * PAGE_BYTES for place in places)

    def reductions(self):
        """Multiprocessing's and torch's, but for what they would move to shared memory or ask a GPU for."""
        ours = {}
        known = ForkingPickler(self).dispatch_table
        for kind, reduce in list(known.items()):
            if getattr(reduce, "__name__", "") == "reduce_storage":
                ours[kind] = self._storage
            elif getattr(reduce, "__name__", "") == "reduce_tensor":
                ours[kind] = self._tensor(reduce)
        return {**known, **ours}

    def reduce(self, value):
        """A large array is counted: of a memmap too, whose pickle holds the whole content."""
        numpy = sys.modules.get("numpy")
        if numpy and type(value) in (numpy.ndarray, numpy.memmap) and not value.dtype.hasobject and value.nbytes >= COUNTED_BYTES:
            self.add(value.nbytes)
            return type(None), ()
        return NotImplemented

    def _storage(self, storage):
        if storage.device.type == "cpu" and storage.nbytes():
            self.storages[storage.data_ptr()] = storage.nbytes()
        return type(None), ()

    def _tensor(self, reduce):
        def reduced(tensor):
            if tensor.device.type not in ("cpu", "meta"):
                self.on_device = True
                return type(None), ()
            if str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu":
                place = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
                self.used[place] = self.used.get(place, 0) + tensor.numel() * tensor.element_size()
            return reduce(tensor)

        return reduced


class Weighing(ForkingPickler):
    def __init__(self, parcel):
        super().__init__(parcel)
        self.dispatch_table = parcel.reductions()
        self._parcel = parcel

    def reducer_override(self, value):
        return self._parcel.reduce(value)


class NoChild:
    """Stands for the process that is being started while something is pickled for it."""

    def duplicate_for_child(self, descriptor):
        return descriptor

    def DupFd(self, descriptor):  # noqa: N802 (multiprocessing's name)
        return descriptor
