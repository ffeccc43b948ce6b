"""What a file does at import: loops over loaders, processes that start, its own main(); guards and functions are left out."""

import sys
from pathlib import Path

import pytest

from dl_doctor.facts import EntryScript, Target, entry_script
from dl_doctor.settings import Settings
from tests.collected import collected

TARGET = Target(path=sys.executable, why="a test", has_torch=False)


def read(source: str, folder: Path) -> EntryScript:
    (folder / "train.py").write_text(source)
    script = collected(entry_script.collect, TARGET, Settings(dataset=f"{folder / 'train.py'}:make"))
    assert isinstance(script, EntryScript)
    return script


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("loader = DataLoader(data)\nfor batch in loader: pass", [2]),
        ("loader = torch.utils.data.DataLoader(data)\nfor i, batch in enumerate(tqdm(loader)): pass", [2]),
        ("loader = DataLoader(data)\nbatch = next(iter(loader))", [2]),
        ("loader = DataLoader(data)\nfor epoch in range(3):\n    for batch in loader: pass", [3]),
        ("def main(): pass\nmain()", [2]),
        ("def main(): pass\nsys.exit(main())", [2]),
        ("def main(): pass\nif __name__ == '__main__': main()", []),
        ("def main(): pass\nif '__main__' == __name__:\n    main()\nelse:\n    train = main", []),
        ("def main(): pass\nif debug:\n    main()", [3]),
        ("from app import main\nmain()", []),  # it may be anything
        ("p = mp.Process(target=f)\np.start()", [2]),
        ("mp.Process(target=f).start()", [1]),
        ("t = Thread(target=f)\nt.start()", []),
        ("loader = DataLoader(data)\ndef f():\n    for batch in loader: pass", []),
        ("loader = DataLoader(data)\nclass A:\n    def f(self): return iter(loader)", []),
        ("for path in paths: pass", []),
        ("for batch in DataLoader(data): pass", [1]),
        ("for batch in make(): pass", [1]),  # what the spec names
        ("loader = make()\nfor i, batch in enumerate(loader): pass", [2]),
        ("def other(): return DataLoader(data)\nfor batch in other(): pass", [2]),
        ("def names(): return []\nfor name in names(): pass", []),
        ("this is no Python", []),
        ("", []),
    ],
)
def test_lines_that_a_worker_would_run_again(source: str, lines: list[int], tmp_path: Path) -> None:
    assert [one.line for one in read(source, tmp_path).unguarded] == lines


def test_a_module_is_found_without_importing_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "package" / "data.py").write_text("def main(): pass\nmain()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    script = collected(entry_script.collect, TARGET, Settings(dataset="package.data:make"))

    assert (script.path, len(script.unguarded)) == (str(tmp_path / "package" / "data.py"), 1)


def test_a_module_that_is_nowhere() -> None:
    assert collected(entry_script.collect, TARGET, Settings(dataset="nowhere_at_all:make")).path is None
