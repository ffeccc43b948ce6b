"""The house's rules: which way imports point, who prints, and what a fact, a check and a table of the README have to be.

Modules are named as from inside the package: `.engine` is dl_doctor.engine, and `.` the package itself.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import click
import msgspec
import pytest

from dl_doctor.catalogue import Catalogue, fact_of
from dl_doctor.checks import CHECKS
from dl_doctor.cli import cli
from dl_doctor.contract import HEADINGS, Check, needs_of
from dl_doctor.facts import COLLECTORS, Collector
from dl_doctor.outcome import EXIT_CODES
from tests.installed import ROOT, SHIPPED


def name_of(file: Path) -> str:
    """`.facts.host` of doctor/facts/host.py, `.checks` of checks/__init__.py."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return "." + ".".join(part for part in parts if part not in ("doctor", "__init__"))


def inside(module: str, places: Iterable[str]) -> bool:
    """Whether it is one of these modules, or in one of these folders."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


SOURCES = {name_of(file): file for folder in SHIPPED for file in sorted((ROOT / folder).rglob("*.py"))}

ANYTHING = "anything"

MAY_IMPORT = {
    # a module, or with a dot behind it the modules of a folder (the innermost counts): what it may import of others than Python
    ".": ".calling .model",
    ".__main__": ".cli",
    ".calling": "msgspec click .catalogue .commands .engine .forking .model .reports .settings .system .watching",
    ".catalogue": "msgspec .checks .contract .facts .model .probing .settings .system",
    ".checks": ".checks",
    ".checks.": ".contract .facts .fixes .model .text .units",
    ".cli": ANYTHING,
    ".commands.": ANYTHING,
    ".collecting": "msgspec .catalogue .contract .guards .model .probing .settings .system .text .watching",
    ".comparison": "msgspec .model",
    ".contract": ".model",
    ".engine": "msgspec . .catalogue .collecting .contract .facts .guards .identity .model .outcome .probing .saved .settings "
    ".system .text .watching",
    ".example.": "torch",
    ".facts": ".facts .model",
    ".facts.": "msgspec .facts .model .probes.shortening .probing .settings .system .text .units",
    ".fixes": ".facts .model .units",
    ".fork_server": "msgspec .guard .guards .probes.shortening",
    ".forking": ".guard .guards .probes",
    ".guard": "",
    ".guards": "",
    ".identity": ".facts .model .system",
    ".model": "msgspec",
    ".observed": "",
    ".observed.": "",
    ".observing": "msgspec .fork_server .guard .guards .observed .probing",
    ".outcome": "msgspec .model .settings",
    ".output": ".model .reports .text",
    ".probes": "",
    ".probes.": "torch pynvml "
    ".accounts .at_fork .attributes .cuda_driver .culprit .forkserver .gpu_busy .gpu_copies .gpu_devices .gpu_products "
    ".gpu_race .indices .limits .loaded .mapped .nvml_calls .offsets .parcel .patience .shards .socket_folder .specs "
    ".step_function .stream .sweep_costs .torch_gpus .shortening",
    ".probing": "msgspec .fork_server .guards .model .probes.shortening .system",
    ".redact": "msgspec .identity .model .shapes",
    ".reports": "msgspec .model .reports.look .text",
    ".reports.": "jinja2 markupsafe msgspec rich .model .units "
    ".reports.gpu_lines .reports.gpus .reports.lines .reports.look .reports.order .reports.page .reports.picture "
    ".reports.sweep .reports.sweep_words",
    ".reports.diff": ".comparison .reports.look",
    ".reports.diff.": "msgspec .comparison .model .reports.diff .reports.look .reports.page .units",
    ".saved": "msgspec .model .settings",
    ".schema": "msgspec .catalogue .model",
    ".shapes": "",
    ".settings": "msgspec .model",
    ".settings_files": "msgspec .settings .units tomli",
    ".system": "msgspec psutil .model .text",
    ".terminal": "",
    ".text": ".probes.shortening",
    ".units": "",
    ".watching": "",
}

PURE = (".checks", ".contract", ".facts", ".fixes", ".model", ".reports", ".settings", ".text", ".units")
"""Modules and folders that look at nothing themselves: facts ask System, checks get facts, reports get a Report."""

DOORS = {"asyncio", "datetime", "multiprocessing", "os", "pathlib", "random", "resource", "shutil", "signal", "socket"}
DOORS |= {"subprocess", "sys", "tempfile", "threading", "time"}
"""The standard library's ways to the machine and its clocks."""

CATALOGUE = Catalogue(CHECKS, COLLECTORS)

FRONT = (".__main__", ".cli", ".commands", ".forking", ".output", ".probes", ".terminal")
"""Modules and folders that print, exit, ask what standard output is, or give it up in a fork."""


@pytest.mark.parametrize("module", SOURCES)
def test_imports_point_one_way(module: str) -> None:
    assert trespasses(module, SOURCES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source", "imported"),
    [
        (".checks.cpu.cpu_budget", "import os", "os"),
        (".checks.cpu.cpu_budget", "from subprocess import run", "subprocess"),
        (".checks.cpu.cpu_budget", "from dl_doctor import system", ".system"),
        (".checks.cpu.cpu_budget", "from dl_doctor.checks.shm.shm_size import enlarge", ".checks.shm.shm_size"),
        (".checks.cpu.cpu_budget", "from ..shm import shm_size", "..shm.shm_size"),  # we write modules out
        (".checks.new_area.new_check", "import torch", "torch"),
        (".facts.host", "def collect():\n    import rich.text", "rich"),
        (".facts.host", "import dl_doctor.reports.look as look", ".reports.look"),
        (".facts.host", "from time import monotonic", "time"),
        (".reports.text", "from dl_doctor.facts import Host", ".facts"),
        (".reports.json", "from dl_doctor.reports import text", ".reports.text"),
        (".engine", "from dl_doctor.checks import CHECKS", ".checks"),
        (".engine", "import click", "click"),
        (".model", "from dl_doctor import __version__", "."),
        (".not_in_the_table", "from dl_doctor.model import Report", ".model"),
    ],
)
def test_an_import_the_other_way_is_noticed(module: str, source: str, imported: str) -> None:
    assert trespasses(module, source) == [f"{module} imports {imported}"]


@pytest.mark.parametrize(("module", "loaded"), [(".", set()), (".__main__", {"os", "sys"})])
def test_nothing_is_loaded_before_the_import_path_is_clean(module: str, loaded: set[str]) -> None:
    """Python itself has loaded these two when it starts; all else could be the job's."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    at_the_top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])

    assert set(imports_of(at_the_top)) == loaded


@pytest.mark.parametrize("module", [module for module in SOURCES if not inside(module, FRONT)])
def test_only_the_front_prints_or_exits(module: str) -> None:
    assert says(SOURCES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ["print('x')", "log = print", "sys.exit(1)", "def f():\n    sys.stdout.write('x')", "exit()", "from sys import stderr"],
)
def test_printing_and_exiting_is_noticed(source: str) -> None:
    assert len(says(source)) == 1


@pytest.mark.parametrize("module", [module for module in SOURCES if inside(module, (".checks",))])
def test_checks_take_structs_and_constants_of_facts(module: str) -> None:
    """What a collector works out stands in its fact, where a report keeps it."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken = [alias.name for node in imports if str(node.module).startswith("dl_doctor.facts") for alias in node.names]

    assert [name for name in taken if not name[0].isupper()] == []


@pytest.mark.parametrize("collector", COLLECTORS, ids=lambda collector: collector.collect.__module__)
def test_a_collectors_annotations_resolve(collector: Collector) -> None:
    assert issubclass(fact_of(collector), msgspec.Struct)
    assert set(CATALOGUE.inputs(fact_of(collector))) <= set(CATALOGUE.collectors)


def test_no_fact_needs_itself() -> None:
    """TopologicalSorter raises where it would."""
    order = list(TopologicalSorter({fact: CATALOGUE.inputs(fact) for fact in CATALOGUE.collectors}).static_order())

    assert set(order) == set(CATALOGUE.collectors)


def test_every_collector_is_listed() -> None:
    collecting = {module for module, file in SOURCES.items() if inside(module, (".facts",)) and "collect" in functions_of(file)}

    assert collecting == {collector.collect.__module__.removeprefix("dl_doctor") for collector in COLLECTORS}


def test_every_check_is_listed() -> None:
    files = {module for module, file in SOURCES.items() if inside(module, (".checks",)) and file.name != "__init__.py"}

    assert files == {check.judge.__module__.removeprefix("dl_doctor") for check in CHECKS}


def test_ids_are_unique() -> None:
    assert len(CATALOGUE.checks) == len(CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
class TestCheck:
    def test_it_is_named_like_its_file_and_folder(self, check: Check) -> None:
        file = Path(inspect.getfile(check.judge))

        assert re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", check.id)
        assert (check.area, check.id) == (file.parent.name, file.stem.replace("_", "-"))

    def test_its_facts_are_collected(self, check: Check) -> None:
        assert {need.fact for need in needs_of(check.judge).values()} <= set(CATALOGUE.collectors)

    def test_its_page_has_a_title_and_all_headings(self, check: Check) -> None:
        title, *sections = re.split("^## ", check.page, flags=re.MULTILINE)
        headings, texts = zip(*(section.partition("\n")[::2] for section in sections), strict=True)

        assert re.fullmatch(r"\S.*[^.\s]\n\n", title)
        assert headings == HEADINGS
        assert all(text.strip() for text in texts)


def test_the_readme_lists_the_checks() -> None:
    assert {row[0]: row[1] for row in table("Checks")} == {check.id: check.title for check in CHECKS}


def test_the_readme_lists_the_options_of_check() -> None:
    listed = [name for row in table("Options") for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", row[0])]
    command = cli.commands["check"]
    options = command.get_params(click.Context(command, parent=click.Context(cli, **cli.context_settings)))

    assert sorted(listed) == sorted(name for option in options for name in (*option.opts, *option.secondary_opts))


def test_the_readme_lists_the_exit_codes() -> None:
    codes = [int(code) for row in table("Exit codes") for code in re.findall("[0-9]+", row[0])]

    assert codes == list(EXIT_CODES)


def trespasses(module: str, source: str) -> list[str]:
    """What a module imports and may not, in words."""
    folders = [module[: place + 1] for place in range(len(module), 0, -1) if module[place : place + 1] == "."]
    allowed = next((MAY_IMPORT[place] for place in (module, *folders) if place in MAY_IMPORT), "")
    forbidden = DOORS if inside(module, PURE) else set()
    return [
        f"{module} imports {name}"
        for name in imports_of(ast.parse(source))
        if name in forbidden or not (name in sys.stdlib_module_names or allowed == ANYTHING or inside(name, allowed.split()))
    ]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Modules of ours that are imported, at the top or later, and the outermost packages of other modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (module_of(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from dict.fromkeys(module_of(f"{origin}.{alias.name}") for alias in node.names)


def module_of(name: str) -> str:
    """The module that is loaded for what has this dotted name: a module itself, or something in one."""
    outermost, _, rest = name.partition(".")
    if outermost != "dl_doctor":
        return outermost or name
    return f".{rest}" if f".{rest}" in SOURCES else f".{rest.rpartition('.')[0]}"


def says(source: str) -> list[str]:
    """What would print or exit, in words."""
    spoken = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in ("print", "exit", "quit"):
            spoken.append(f"{node.id} in line {node.lineno}")
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.exit", "sys.stdout", "sys.stderr"):
            spoken.append(f"{ast.unparse(node)} in line {node.lineno}")
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            spoken.append(f"{ast.unparse(node)} in line {node.lineno}")
    return spoken


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def table(heading: str) -> list[list[str]]:
    """The rows below this heading of the README; of a cell its words, without backticks and links."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.split("^## ", readme.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line.strip().strip("|").split("|") for line in section.splitlines() if line.strip().startswith("|")]
    return [[re.sub(r"\[(.*)\]\(.*\)", r"\1", cell.strip()).replace("`", "") for cell in row] for row in rows[2:]]
