"""Reports from strangers, made to hurt: a clear error and exit 2, or a harmless display, in bounded memory and time."""

import copy
import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dl_doctor import catalogue, cli
from dl_doctor.engine import examine
from dl_doctor.model import Report
from dl_doctor.redact import redact
from dl_doctor.reports import FORMATS, renderer
from dl_doctor.reports.look import Look
from dl_doctor.saved import BadReport, parse_report
from dl_doctor.settings import Settings
from dl_doctor.system import System
from tests.recorded import examine_recorded, read

CATALOGUE = catalogue.load(plugins=False)

MOST_MIB = 1024
"""Of address space, which is more than what is used."""

MOST_CPU_S = 40

COMMANDS = (("render",), ("check", "--no-plugins", "--redact", "--facts"), ("ticket",))


@pytest.fixture(scope="session")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A plain report with findings, as JSON has it."""
    machine, _ = read("docker-v1")
    report = examine_recorded(machine, tmp_path_factory.mktemp("machine"), Settings(num_workers=8, batch_bytes=24 << 20))
    plain: dict[str, Any] = json.loads(renderer("json")(report, Look()))
    return plain


def changed(document: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> bytes:
    document = copy.deepcopy(document)
    change(document)
    return json.dumps(document).encode()


def raw(**facts: str) -> Callable[[dict[str, Any]], bytes]:
    """With a fact that Python's json would not write."""
    ((name, text),) = facts.items()
    return lambda document: json.dumps({**document, "facts": {name: "HERE"}}).encode().replace(b'"HERE"', text.encode())


REFUSED = {
    "empty": (lambda _: b"", "is not a JSON report"),
    "cut off": (lambda document: json.dumps(document).encode()[:-100], "is not a JSON report"),
    "two of them": (lambda document: json.dumps(document).encode() * 2, "is not a JSON report"),
    "a list": (lambda document: json.dumps([document]).encode(), "is not a JSON report"),
    "with a byte order mark": (lambda document: b"\xef\xbb\xbf" + json.dumps(document).encode(), "is not a JSON report"),
    "UTF-16": (lambda document: json.dumps(document).encode("utf-16"), "is not a JSON report"),
    "NaN": (raw(x="NaN"), "is not a JSON report"),
    "Infinity": (raw(x="[-Infinity]"), "is not a JSON report"),
    "1e400": (raw(x="1e400"), "is not a JSON report"),
    "10 ** 400": (raw(x="1" + "0" * 400), "a number of more than 38 digits"),
    "half a character": (raw(x='"\\ud800"'), "is not a JSON report"),
    "a byte that is no UTF-8": (lambda document: json.dumps(document).encode().replace(b"docker", b"\xff", 1), "is not a JSON"),
    "deep": (raw(x="[" * 70 + "]" * 70), "nested deeper than 64 levels"),
    "too large": (lambda _: b" " * (100 << 20), "larger than 64 MiB"),
    "a later format": (lambda document: changed(document, lambda d: d.update(format_version="2.0")), "has format 2.0"),
    "a million values": (raw(x="[" + "1," * 1_000_000 + "1]"), "more than a million values"),
    "a million findings": (
        lambda document: json.dumps({**document, "results": []}).encode().replace(
            b'"results": []', b'"results": [' + b"{}," * 1_000_000 + b"{}]"
        ),
        "more than a million values",
    ),
    "results without end": (
        lambda document: changed(document, lambda d: d.update(results=d["results"] * 400)),
        "MiB of results; a report tells about 100 KiB",
    ),
    "a long story": (
        lambda document: changed(document, lambda d: d["machine"].update(os="long " * 1_000_000)),
        "MiB of results; a report tells about 100 KiB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_refused(
    document: dict[str, Any], name: str, command: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make, says = REFUSED[name]
    (tmp_path / "report.json").write_bytes(make(document))
    code = cli.run([*command, str(tmp_path / "report.json")])
    out, err = capfd.readouterr()

    assert (code, out) == (2, "")
    assert says in err
    assert len(err) < 1000


TAKEN: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "a newer minor version": lambda document: changed(
        document, lambda d: (d.update(format_version="1.9", moon={"full": True}), d["results"][0].update(moon=[1]))
    ),
    "an entry twice": lambda document: json.dumps(document).encode().replace(b'"results":', b'"results": [], "results":', 1),
    "a large number": raw(x="1" + "0" * 37),
    "many lists": raw(x="[" + "[]," * 200_000 + "[]]"),
    "many objects": raw(x="[" + '{"a":1},' * 200_000 + "{}]"),
    "many texts": raw(x="[" + ",".join(f'"10.1.2.3 bob{i}"' for i in range(100_000)) + "]"),
    "a long text": raw(x='"' + "a" * (8 << 20) + '"'),
    "many mounts": lambda document: changed(
        document, lambda d: d["facts"]["mounts"].update(entries=d["facts"]["mounts"]["entries"][:1] * 20_000)
    ),
    "many findings": lambda document: changed(
        document, lambda d: d["results"][0].update(findings=[{"level": "fail", "subject": "", "summary": "x"}] * 2500)
    ),
    "many commands": lambda document: changed(document, lambda d: fix_of(d).update(commands=["c"] * 40_000)),
    "a long word": lambda document: changed(document, lambda d: fix_of(d).update(note="w" * 600_000)),
    "many words": lambda document: changed(document, lambda d: fix_of(d).update(note="w " * 300_000)),
    "backticks": lambda document: changed(document, lambda d: fix_of(d).update(note="`" * 1_900_000)),
}  # fmt: skip


def fix_of(document: dict[str, Any]) -> dict[str, Any]:
    fixes = [fix for result in document["results"] for finding in result["findings"] for fix in finding["fixes"]]
    first: dict[str, Any] = fixes[0]
    return first


TO_RENDER = ("many findings", "many commands", "a long word", "many words", "backticks")
TO_REDACT = ("many lists", "many objects", "many texts", "a long text", "many mounts")
"""Who has the most to do with it; all else is shown, judged and shared."""

TO_ALL = [name for name in TAKEN if name not in (*TO_RENDER, *TO_REDACT)]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, ("render",)) for name in (*TO_RENDER, *TO_ALL)),
        *((name, ("ticket",)) for name in (*TO_REDACT, *TO_ALL)),
        *((name, ("check", "--no-plugins", "-s", "runtime", "--redact", "--facts")) for name in TO_ALL),
    ],
)
def test_what_is_taken_costs_little(document: dict[str, Any], name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(TAKEN[name](document))
    outputs = [f"-o{tmp_path / 'out'}{ending}" for ending in FORMATS.values() if ending and name.startswith(("a ", "an "))]

    done = subprocess.run(
        [sys.executable, "-m", "dl_doctor", *command, str(tmp_path / "report.json"), *outputs],
        preexec_fn=bounded,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode in (0, 1, 3), done.stderr[-2000:]
    assert done.stdout
    assert re.fullmatch(r"(dl-doctor: names and secrets replaced: [0-9]+\..*\n)?", done.stderr)


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MIB << 20, MOST_MIB << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))


def test_what_cannot_be_redacted_is_not_shared(
    document: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_bytes(raw(x='"' + "a" * (17 << 20) + '"')(document))
    codes = [cli.run(["render", str(tmp_path / "report.json"), *more]) for more in ((), ("--redact",))]

    assert codes == [0, 2]
    assert "cannot be redacted: it holds more than 16 million characters" in capfd.readouterr().err


EVIL = (
    "<script>alert(1)</script>\x1b[2J\x1b]0;owned\x07\x1b]8;;http://x\x1b\\\u202e\u2066\r\n\x9b31m\u2028::error::x\u0000"
    "&<!--]]>`````\n# x"
)
HARMFUL = set("\x1b\x07\r\x9b\u202e\u2066\u2028\0")


@pytest.fixture(scope="session")
def evil(document: dict[str, Any]) -> Report:
    """With names that hurt in every text that is shown or that facts hold; of a list in its first item."""
    document = {**document, "results": sorted(document["results"], key=lambda result: result["status"] != "fail")}
    report = parse_report(json.dumps(document).encode(), "x")
    for path in places(document):
        if isinstance(value_at(document, path), str) and path[0] not in ("identity", "format_version"):
            content = changed(document, lambda d, path=path: put(d, path, EVIL))
            with suppress(BadReport):  # one of a few words, or a date
                report = parse_report(content, "x")
                document = json.loads(content)
    return report


@pytest.mark.parametrize("format_", sorted(set(FORMATS) - {"json"}))
@pytest.mark.parametrize("redacted", [False, True])
def test_names_do_no_harm(evil: Report, format_: str, redacted: bool) -> None:
    """Of files, datasets, GPUs, variables and plugins."""
    text = renderer(format_)(redact(evil) if redacted else evil, Look(detail="full", width=10_000))

    assert set(text) & HARMFUL == set()
    assert "alert(1)" in text
    if format_ in ("html", "junit"):  # Markdown has it between fences
        assert "<script" not in text
    if format_ == "github":
        assert [line for line in text.splitlines() if line.startswith("::error::x")] == []


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of all values in a document; of a list the first only."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in entries:
        yield from places(item, (*path, key))


def value_at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    value_at(document, path[:-1])[path[-1]] = value


WRONG = (None, 7, {"x": []})


@pytest.mark.parametrize("first", range(2))
def test_wrong_types(document: dict[str, Any], first: int) -> None:
    """In half of all places one each: it is refused in words, or the report can be shown in every format and judged again."""
    tried = list(places(document))[first::2]
    for number, path in enumerate(tried):
        try:
            report = parse_report(changed(document, lambda d, path=path, number=number: put(d, path, WRONG[number % 3])), "x")
        except BadReport as error:
            assert len(str(error)) < 500
            continue
        shown_and_judged(report, of_facts=path[0] == "facts")

    assert len(tried) > 100


def shown_and_judged(report: Report, *, of_facts: bool) -> None:
    if of_facts:
        examine(CATALOGUE, Settings(), System(), report)
    for format_ in ("html", "markdown") if of_facts else ("html", "markdown", "text"):  # these two show facts
        renderer(format_)(report, Look())
