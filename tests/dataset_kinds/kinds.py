"""One small dataset for each kind that the verdict table knows. A user's code, examined in the job's environment: not ours.

Every factory takes no arguments; files that a kind needs are made in the folder KINDS_FOLDER. A dataset has 64 samples unless
its kind says otherwise, and all are of this one class unless the class is the point.
"""

import functools
import multiprocessing
import os
import random
import sys
import threading

LENGTH = 64


class Data:
    """Samples are numbers; what the kind is about is held in attributes."""

    def __init__(self, **held):
        vars(self).update(held)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        if not 0 <= index < LENGTH:
            raise IndexError(index)
        return index


def a_file(name, content=b"0123456789" * 100):
    path = os.path.join(os.environ["KINDS_FOLDER"], name)
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(content)
    return path


def healthy():
    return Data(paths=["a", "b"])


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)


class Apply:
    def __init__(self, fn):
        self.fn = fn


def in_a_lambda():
    return Data(transform=Compose(Apply(abs), Apply(float), Apply(lambda x: x / 255)))


def in_a_partial():
    return Data(scale=functools.partial(pow, exp=lambda: 2))


def local_class():
    class Local(Data):
        def __getitem__(self, index):
            return super().__getitem__(index)

    return Local()


class UnderAGuard(Data):
    pass


def under_a_guard():
    """As in a script or a notebook: `__main__` of this process has the class, that of a worker does not."""
    UnderAGuard.__module__ = "__main__"
    sys.modules["__main__"].UnderAGuard = UnderAGuard
    return UnderAGuard()


class FromFile(Data):
    def __getitem__(self, index):
        self.file.seek(index)
        return self.file.read(1)[0]


def open_file():
    return FromFile(index=[0], file=open(a_file("plain.bin"), "rb"))


class SetBack(Data):
    def __getitem__(self, index):
        self.file.seek(index)
        value = self.file.read(1)[0]
        self.file.seek(0)
        return value


def always_set_back():
    """At the end of each sample its offset is what it was before."""
    return SetBack(file=open(a_file("plain.bin"), "rb", buffering=0))


class Shards(Data):
    def __getitem__(self, index):
        file = self.files[index // (LENGTH // 4)]
        file.seek(index)
        return file.read(1)[0]


def many_files():
    return Shards(files=[open(a_file("shard-%d.bin" % index), "rb") for index in range(4)])


class Mapped(Data):
    def __getitem__(self, index):
        return self.map[index]


def mapped_file():
    """The file object is kept and not read from; a map does not use its offset."""
    import mmap

    file = open(a_file("plain.bin"), "rb")
    return Mapped(file=file, map=mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class ByName(Data):
    def __getitem__(self, index):
        with open(self.owner.name, "rb") as file:
            file.seek(index)
            return file.read(1)[0]


def temporary_file():
    """It is there as long as the object that owns it, and each sample opens it anew."""
    import tempfile

    owner = tempfile.NamedTemporaryFile(dir=os.environ["KINDS_FOLDER"])
    owner.write(bytes(1000))
    owner.flush()
    return ByName(owner=owner)


class Logging(Data):
    def __getitem__(self, index):
        self.log.write("%d\n" % index)
        self.log.flush()
        return index


def written_log():
    """A file that is only written to has no place in it that readers share."""
    return Logging(log=open(a_file("log.txt"), "a"))


def log_opened_for_both():
    return Logging(log=open(a_file("log.txt"), "a+"))


class ByDescriptor(Data):
    def __getitem__(self, index):
        os.lseek(self.fd, index, os.SEEK_SET)
        return os.read(self.fd, 1)[0]


def descriptor():
    return ByDescriptor(classes=5, fd=os.open(a_file("plain.bin"), os.O_RDONLY))


class AtAPlace(Data):
    def __getitem__(self, index):
        return os.pread(self.fd, 1, index)[0]


def descriptor_read_at_a_place():
    return AtAPlace(fd=os.open(a_file("plain.bin"), os.O_RDONLY))


def opened_anew():
    """By worker_init_fn."""
    from torch.utils.data import DataLoader

    return DataLoader(open_file(), worker_init_fn=open_anew, num_workers=2)


def open_anew(_):
    from torch.utils.data import get_worker_info

    get_worker_info().dataset.file = open(a_file("plain.bin"), "rb")


class OfAModule(Data):
    def __getitem__(self, index):
        HELD[0].seek(index)
        return HELD[0].read(1)[0]


HELD = []


def held_by_a_module():
    HELD[:] = [open(a_file("plain.bin"), "rb")]
    return OfAModule()


def h5py():
    import h5py

    path = os.path.join(os.environ["KINDS_FOLDER"], "data.h5")
    if not os.path.exists(path):
        with h5py.File(path, "w") as file:
            file["x"] = list(range(LENGTH))
    return Data(h5=h5py.File(path, "r"))


def lmdb():
    import lmdb

    path = os.path.join(os.environ["KINDS_FOLDER"], "lmdb")
    lmdb.open(path).close()
    return Data(env=lmdb.open(path, readonly=True, lock=False))


def sqlite():
    import sqlite3

    return Data(db=sqlite3.connect(os.path.join(os.environ["KINDS_FOLDER"], "data.sqlite")))


def generator():
    return Data(stream=(x for x in range(LENGTH)))


def mp_lock():
    return Data(lock=multiprocessing.Lock(), count=multiprocessing.Value("i", 0))


def thread_lock():
    return Data(cache={"lock": threading.Lock()})


def own_rng():
    return Data(rng=random.Random(0))


def module():
    return Data(np=os.path)


class OnTheGpu:
    """Stands for a CUDA tensor on a machine without a GPU."""

    is_cuda = True
    nbytes = 4096

    class device:
        type = "cuda"


def cuda_tensor():
    return Data(tables={"mean": OnTheGpu()})


def million_strings():
    return Data(names=["sample-%07d" % index for index in range(1000000)])


def object_array():
    import numpy

    return Data(names=numpy.array(["sample-%07d" % index for index in range(300000)], dtype=object))


def string_array():
    import numpy

    return Data(names=numpy.array(["sample-%07d" % index for index in range(300000)]))


def same_string():
    """A million references to one object."""
    return Data(names=["sample"] * 1000000)


class Lazy:
    """3 GiB in its pickle, which nobody holds."""

    def __reduce__(self):
        return list, (), None, (bytes(1 << 20) for _ in range(3 << 10))


def lazy_pickle():
    return Data(blob=Lazy())


class OpensLater(Data):
    def __init__(self):
        super().__init__(path=a_file("plain.bin"), file=None)

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(index)
        return self.file.read(1)[0]


def opens_later():
    return OpensLater()


def memory_mapped():
    import numpy

    return Data(x=numpy.memmap(a_file("plain.bin"), mode="r"))


def tensors_held():
    import torch

    return Data(x=torch.zeros(1 << 20))


def gradients_held():
    import torch

    return Data(x=torch.zeros(4, requires_grad=True) * 2)


def cannot_be_read_back():
    """Its pickle is fine, and reading it raises in whoever gets it."""
    return Data(part=Breaks())


class Breaks:
    def __reduce__(self):
        return int, ("not a number",)


def own_sampler():
    """Samplers stay in the main process: one that cannot be pickled is healthy."""
    import torch
    from torch.utils.data import DataLoader

    class Sampler(torch.utils.data.Sampler):
        def __init__(self):
            self.order = lambda: iter(range(LENGTH))

        def __iter__(self):
            return self.order()

        def __len__(self):
            return LENGTH

    return DataLoader(Data(), sampler=Sampler(), num_workers=2)


def own_collate():
    from torch.utils.data import DataLoader

    return DataLoader(Data(), collate_fn=lambda samples: samples, num_workers=2)


def own_worker_init():
    from torch.utils.data import DataLoader

    def seed(worker):
        random.seed(worker)

    return DataLoader(Data(), worker_init_fn=seed, num_workers=2)


def fsspec_thread():
    """As fsspec has it alive once it was asked for something remote: a thread with a loop, and the loop in its module."""
    import types

    loop = types.ModuleType("fsspec.asyn")
    thread = threading.Thread(target=threading.Event().wait, daemon=True, name="fsspecIO")
    thread.start()
    loop.loop = [object()]
    sys.modules["fsspec.asyn"] = loop
    return Data()


def ordinary_thread():
    threading.Thread(target=threading.Event().wait, daemon=True, name="Thread-1 (monitor)").start()
    return Data()


def collated_by_list():
    """The kind that KIND names, in a loader whose workers need no torch: a child that unpickles default_collate imports it."""
    from torch.utils.data import DataLoader

    return DataLoader(globals()[os.environ["KIND"]](), collate_fn=list)
