"""What a spec leads to: the dataset or the loader in it, or what is wrong with it and what to write instead."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dl_doctor.probing import HERE

HEAD = """
import functools, itertools, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

class Data(Dataset):
    def __init__(self, size=8): self.size = size
    def __len__(self): return self.size
    def __getitem__(self, index): return torch.zeros(2), index

class Needs(Data):
    def __init__(self, root, *, split): super().__init__()

class Stream(IterableDataset):
    def __iter__(self): yield torch.zeros(2)
"""

STAND_INS = '''
class DataModule:
    """As lightning.LightningDataModule: hooks, and `trainer`, which is None until a Trainer sets it."""
    trainer = None
    ready = None
    def prepare_data(self): raise RuntimeError("it would download")
    def setup(self, stage): self.ready = stage
    def train_dataloader(self): return DataLoader(Data(), batch_size=4 if self.ready == "fit" else 1)

class CombinedLoader:
    """As lightning.pytorch.utilities.CombinedLoader: `iterables`, any collection of loaders, and an iterator over them."""
    def __init__(self, iterables): self.iterables = iterables
    def __iter__(self): return self
    def __next__(self): raise StopIteration

class Obliging(Data):
    """Answers to any name, as those do that hand on to a configuration."""
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)

class Pair(DataModule):
    def train_dataloader(self): return CombinedLoader({"a": DataLoader(Data(1)), "b": DataLoader(Data(2))})

class Trained(DataModule):
    def train_dataloader(self): return DataLoader(Data(), num_workers=self.trainer.world_size)

class OfOld(DataModule):
    def setup(self): self.ready = "fit"

class Pipeline(DataPipeline := type("DataPipeline", (IterableDataset,), {})):
    """As webdataset.DataPipeline: an IterableDataset of torch's, of stages."""
    def __init__(self, *stages): self.pipeline = list(stages)
    def __iter__(self): return iter(self.pipeline[0])

class WebLoader(Pipeline):
    """As webdataset.WebLoader: a pipeline that begins with a DataLoader."""
    def __init__(self, *given, **named): super().__init__(DataLoader(*given, **named))

class DALIGenericIterator:
    """As nvidia.dali.plugin.pytorch.DALIGenericIterator: its own iterator, without samples by number."""
    def __iter__(self): return self
    def __next__(self): raise StopIteration
    def __len__(self): return 5

class Arrow:
    """As datasets.Dataset: no class of torch's, samples by number as dicts, with `features` and `column_names`."""
    __module__ = "datasets.arrow_dataset"
    features, column_names = {}, ["x"]
    def __len__(self): return 3
    def __getitem__(self, index): return {"x": index}

class DatasetDict(dict):
    """As datasets.DatasetDict."""
'''

PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/data.py": HEAD + "from .sizes import SIZE\ndef make(): return Data(SIZE)",
    "pkg/sizes.py": "SIZE = 5",
}

NEIGHBOURS = {"sub/a.py": "import b\nit = b.it", "sub/b.py": "it = [1, 2]"}


@dataclass
class Case:
    code: str
    """What data.py ends with."""

    expected: Any
    spec: str = "data.py:it"
    files: dict[str, str] = field(default_factory=dict)
    """Other files of the working directory, or data.py."""


FOUND = {
    # and of what the probe answers, some
    "a class without arguments": Case("", {"type": "data.Data", "kind": "map", "length": 8, "called": True}, "data.py:Data"),
    "an object": Case("it = Data(3)", {"length": 3, "called": False, "arguments": None}),
    "a function": Case("def it(): return Data(4)", {"length": 4, "called": True}),
    "a partial": Case("it = functools.partial(Needs, '/', split='train')", {"type": "data.Needs"}),
    "an object that is called": Case("class Maker:\n    def __call__(self): return Data(6)\nit = Maker()", {"length": 6}),
    "an attribute of an attribute": Case("class Config:\n    data = Data(7)\nit = Config", {"length": 7}, "data.py:it.data"),
    "an iterable dataset": Case("it = Stream()", {"kind": "iterable", "length": None}),
    "a DataLoader": Case("it = DataLoader(Data(), 2)", {"type": "data.Data", "kind": "map"}),
    "a subclass of DataLoader": Case("class Own(DataLoader): pass\nit = Own(Data(9))", {"length": 9}),
    "a tuple of loaders": Case("def it(): return DataLoader(Data(1)), DataLoader(Data(2))", {"choices": ["[0] of 2"]}),
    "a tuple with a loader": Case("def it(): return 10, DataLoader(Data(2))", {"length": 2, "choices": ["[1] of 2"]}),
    "a tuple of datasets": Case("def it(): return Data(1), Data(2)", {"length": 1, "choices": ["[0] of 2"]}),
    "a list of loaders": Case("it = [DataLoader(Data(1)), DataLoader(Data(2))]", {"choices": ["[0] of 2"]}),
    "a dict of loaders": Case("it = dict(val=DataLoader(Data(1)), train=DataLoader(Data(2)))", {"length": 2}),
    "a dict of loaders without train": Case("it = dict(a=DataLoader(Data(1)), b=DataLoader(Data(2)))", {"length": 1}),
    "a dict by numbers": Case("it = {index: torch.zeros(1) for index in range(3)}", {"kind": "map", "length": 3}),
    "a list of samples": Case("it = [torch.zeros(2)] * 5", {"kind": "map", "type": "builtins.list", "length": 5, "choices": []}),
    "a list of pairs": Case("it = [(torch.zeros(2), 0)] * 5", {"type": "builtins.list", "length": 5}),
    "a list of texts": Case("it = ['a', 'b']", {"type": "builtins.list"}),
    "a list of arrays": Case("import numpy\nit = [numpy.zeros(2)] * 4", {"type": "builtins.list", "length": 4}),
    "a tensor": Case("it = torch.zeros(6, 2)", {"type": "torch.Tensor", "length": 6}),
    "an array": Case("import numpy\nit = numpy.zeros((6, 2))", {"type": "numpy.ndarray", "length": 6}),
    "a range": Case("it = range(4)", {"length": 4}),
    "one that has every attribute": Case("it = Obliging()", {"kind": "map", "length": 8}),
    "a DataModule": Case("it = DataModule()", {"choices": ["train_dataloader()"], "length": 8}),
    "a DataModule's class": Case("it = DataModule", {"choices": ["train_dataloader()"], "called": True}),
    "a DataModule whose setup takes nothing": Case("it = OfOld()", {"choices": ["train_dataloader()"]}),
    "a CombinedLoader": Case("it = Pair()", {"choices": ["train_dataloader()", "iterables", "['a'] of 'a', 'b'"], "length": 1}),
    "a loader of WebDataset": Case("it = WebLoader(Stream(), batch_size=None)", {"choices": ["pipeline[0]"], "kind": "iterable"}),
    "a pipeline of WebDataset": Case("it = Pipeline([1])", {"choices": [], "kind": "iterable"}),
    "a loader of DALI": Case("it = DALIGenericIterator()", {"kind": "other", "length": 5}),
    "a dataset of Hugging Face": Case("it = Arrow()", {"kind": "map", "length": 3, "type": "datasets.arrow_dataset.Arrow"}),
    "splits of Hugging Face": Case("it = DatasetDict(a=[], train=Arrow())", {"choices": ["['train'] of 'a', 'train'"]}),
    "a list of datasets of Hugging Face": Case("it = [Arrow(), Arrow()]", {"choices": ["[0] of 2"]}),
    "samples of a package of that name": Case(
        "class Sample:\n    __module__ = 'datasets.own'\nit = [Sample()] * 3", {"type": "builtins.list", "choices": []}),
    "a module": Case("", {"type": "data.Data"}, "data:Data"),
    "a module of a package": Case("", {"length": 5}, "pkg.data:make", PACKAGE),
    "a file of a package": Case("", {"type": "plain.Data"}, "pkg/plain.py:Data", {**PACKAGE, "pkg/plain.py": HEAD}),
    "a file that imports its neighbour": Case("", {"length": 2}, "sub/a.py:it", NEIGHBOURS),
    "a file in the home": Case("", {"length": 1}, "~/mine.py:it", {"home/mine.py": "it = [1]"}),
}  # fmt: skip

WRONG = {
    # and parts of the message
    "no file": Case("", ["there is no file", "/dat.py", "did you mean data.py?"], "dat.py:it"),
    "no module": Case("", ["there is no module dat in", "did you mean data?"], "dat:it"),
    "no submodule": Case("", ["there is no module pkg.model"], "pkg.model:it", PACKAGE),
    "a path without its ending": Case("", ["neither a module nor a .py file", "write ./data.py:it"], "./data:it"),
    "a notebook": Case("", ["is a notebook", "dl_doctor.check"], "it.ipynb:it", {"it.ipynb": ""}),
    "a name with a hyphen": Case("", ["without '-'"], "my-data.py:it", {"my-data.py": ""}),
    "a name of Python's own": Case("", ["of Python's own (queue)", "rename"], "queue.py:Data", {"queue.py": HEAD}),
    "the name of a package": Case("", ["is there already", "/torch/__init__.py", "rename"], "torch.py:Data", {"torch.py": HEAD}),
    "a file with relative imports": Case("", ["name it as a module, pkg.data:make"], "pkg/data.py:make", PACKAGE),
    "no such attribute": Case("", ["data.py has no `Dat`; did you mean Data?"], "data.py:Dat"),
    "nothing like it": Case("", ["; it has ", "Data", "Needs", "Stream"], "data.py:xyz"),
    "a class below the main guard": Case(
        "if __name__ == '__main__':\n    class Dats(Data): pass", ["defines `Dats` below `if __name"], "data.py:Dats"),
    "a variable below the main guard": Case("if '__main__' == __name__:\n    dat = Data()", ["`dat` below"], "data.py:dat"),
    "no such inner attribute": Case("", ["data.py:Data has no `train`"], "data.py:Data.train"),
    "a class that needs arguments": Case("", ["root and split", "`def make_data(): return Needs(root=..., s"], "data.py:Needs"),
    "a partial that lacks one": Case("it = functools.partial(Needs, '/')", ["needs split"]),
    "an async function": Case("async def it(): return Data()", ["async function", "asyncio.run(it())"]),
    "an async generator": Case("async def it(): yield 1", ["async function"]),
    "nothing returned": Case("def it(): Data()", ["nothing (None): does it `return` what it makes?"]),
    "a class returned": Case("def it(): return Data", ["the class Data itself"]),
    "a function returned": Case("def it(): return print", ["a function (print)"]),
    "a number": Case("it = 5", ["is an int: name a Dataset"]),
    "a text": Case("it = '/data'", ["but a str"]),
    "a module's module": Case("", ["is a module"], "data.py:torch"),
    "a set": Case("it = {1, 2}", ["but a set"]),
    "a generator": Case("def it(): yield torch.zeros(2)", ["is a generator", "after one epoch", "__iter__ begins anew"]),
    "an iterator of a loader": Case("def it(): return iter(DataLoader(Data()))", ["empty after one epoch"]),
    "a zip": Case("it = zip([1], [2])", ["is a zip"]),
    "an open file": Case("def it(): return open(__file__)", ["is a TextIOWrapper"]),
    "columns": Case("it = {'x': torch.zeros(3), 'y': torch.zeros(3)}", ["with the keys 'x', 'y'", "numbers from 0"]),
    "a DataModule that needs its trainer": Case("it = Trained()", ["self.trainer, which only a Trainer sets"]),
}  # fmt: skip

RUN = """
import json, os, sys, torch
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import forkserver
sys.path.pop(0)
probe = forkserver.probe_in(sys.argv[1])
for folder, spec in json.loads(sys.argv[2]):
    told = os.path.join(folder, "told.json")
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        os.environ["HOME"] = os.path.join(folder, "home")
        sys.path.insert(0, "")
        try:
            answer = probe({"spec": spec, "allowed_bytes": None}, lambda name: None)[0]
        except BaseException as error:
            answer = {"raised": repr(error)}
        with open(told, "w") as file:
            json.dump(answer, file)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.fixture(scope="module")
def told(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the probe answers to each case, in a fork of an interpreter that has imported torch."""
    folders = {name: tmp_path_factory.mktemp("case") for name in (*FOUND, *WRONG)}
    for name, case in {**FOUND, **WRONG}.items():
        for file, text in {"data.py": HEAD + STAND_INS + case.code, **case.files}.items():
            path = folders[name] / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    asked = [(str(folders[name]), case.spec) for name, case in {**FOUND, **WRONG}.items()]
    subprocess.run([torch_python, "-c", RUN, HERE / "probes" / "loader.py", json.dumps(asked)], check=True, timeout=120)
    return {name: json.loads((Path(folder) / "told.json").read_text()) for name, folder in folders.items()}


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(told: dict[str, dict[str, Any]], name: str) -> None:
    expected = FOUND[name].expected
    assert {key: told[name].get(key, told[name]) for key in expected} == expected
    assert told[name]["wrong"] is None


@pytest.mark.parametrize("name", WRONG)
def test_it_is_told_what_to_write(told: dict[str, dict[str, Any]], name: str) -> None:
    message = told[name].get("wrong") or str(told[name])
    assert [part for part in WRONG[name].expected if part not in message] == [], message
