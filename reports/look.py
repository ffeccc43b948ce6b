"""How a report is shown: what the terminal can carry, and how much the reader wants; and words that formats share."""

import shlex
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import msgspec

from dl_doctor.model import Machine, Quantity, Relation, Report, Risk, Status
from dl_doctor.units import binary_size, plain

Shown = TypeVar("Shown")

ASCII = str.maketrans(
    {
        "×": "x",
        "–": "-",
        "—": "-",
        "…": "...",
        "·": "|",
        "°": "",
        "µ": "u",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        "✓": "+",
        "✗": "X",
        "“": '"',
        "”": '"',
    }
)

RELATIONS: dict[Relation | None, str] = {"at_least": "≥ ", "at_most": "≤ ", "equal": "", None: ""}


SINGULAR = {"CPUs": "CPU", "batches": "batch", "files": "file", "processes": "process", "threads": "thread"}
SINGULAR |= {
    f"{name}s": name for name in ("descriptor", "GPU", "mapping", "rank", "sample", "segment", "shard", "tensor", "worker")
}
"""Of units."""

SYMBOLS: dict[Status, tuple[str, str]] = {
    "pass": ("✓", "passed"),
    "warn": ("!", "warning"),
    "fail": ("✗", "failed"),
    "error": ("?", "could not tell"),
    "skip": ("–", "skipped"),
    "not_run": (" ", "not run"),
}
"""Symbol and word of each status."""

RISKS: dict[Risk, str] = {"safe": "", "disruptive": "disturbs what runs", "needs-root": "needs root"}

VERDICTS = {"go": "go", "stop": "do not start here", "unknown": "could not tell"}


@dataclass(frozen=True)
class Look:
    color: bool = False
    ascii: bool = False
    width: int = 80
    """Columns."""

    detail: Literal["quiet", "normal", "full"] = "normal"


def amount(quantity: Quantity, relation: Relation | None = None) -> str:
    """`64 MiB`, `≥ 616 MiB`, `0.5 CPUs`."""
    value = quantity.value
    unit = SINGULAR.get(quantity.unit, quantity.unit) if value == 1 else quantity.unit
    words = binary_size(int(value)) if quantity.unit == "bytes" else f"{plain(value)} {unit}"
    return RELATIONS[relation] + words


def machine_words(machine: Machine) -> list[str]:
    """What people call the machine by, in a few words."""
    place = [word for word in (machine.runtime, machine.platform, machine.scheduler) if word]
    cgroup = [f"cgroup {machine.cgroup}"] if machine.cgroup else []
    words = [machine.hostname, machine.os, ", ".join([*place, *cgroup])]
    if machine.cpus is not None:
        words.append(f"{plain(machine.cpus)} CPU" + ("" if machine.cpus == 1 else "s"))
    if machine.memory_bytes is not None:
        words.append(binary_size(machine.memory_bytes))
    return [word for word in (*words, *gpu_words(machine)) if word]


def gpu_words(machine: Machine) -> list[str]:
    """`8 × NVIDIA H100 80GB HBM3`, of each kind."""
    return [f"{number} × {name}" for name, number in Counter(machine.gpus).items()]


def environment_words(report: Report) -> list[str]:
    """Which torch is examined, which interpreter's that is, and of a command, where its loader is iterated."""
    settings, python, torch = report.run.settings, report.run.python, report.machine.torch
    if python is None:
        return []
    found = [f"torch {torch} ({python.why})" if torch else f"no torch ({python.why})"]
    return [*found, f"the loader at {settings.get('loader')}"] if settings.get("command") else found


def machine_facts(report: Report) -> list[tuple[str, str]]:
    """The machine as a table: what, and how much of it; nothing that is not known."""
    machine, python = report.machine, report.run.python
    rows = [
        ("Host", machine.hostname),
        ("Operating system", machine.os),
        ("Kernel", machine.kernel),
        ("Runtime", machine.runtime),
        ("Platform", machine.platform),
        ("Scheduler", machine.scheduler),
        ("Control groups", machine.cgroup),
        ("CPUs for this job", None if machine.cpus is None else plain(machine.cpus)),
        ("Memory for this job", None if machine.memory_bytes is None else binary_size(machine.memory_bytes)),
        ("GPUs", ", ".join(gpu_words(machine))),
        ("PyTorch", machine.torch),
        ("Python", f"{python.path} ({python.why})" if python else None),
    ]
    return [(name, value) for name, value in rows if value]


def asked(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was said on the command line, as options and their values."""
    sweep = settings.get("sweep")
    together = {**settings, **sweep} if isinstance(sweep, Mapping) else dict(settings)
    together.pop("sweep", None)
    return [(option(name), said(name, value)) for name, value in together.items()]


def option(name: str) -> str:
    return "--" if name == "command" else f"--{name.removesuffix('_s').replace('_', '-')}"


def said(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return binary_size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "command" and isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def harmless(value: Shown) -> Shown:
    """A report, or a part of one, whose texts are all printable: any may be a stranger's. Facts stay as they are.

    Not so a traceback: it is several lines, each made printable where it is shown.
    """
    if isinstance(value, str):
        return cast("Shown", printable(value))
    if isinstance(value, tuple):
        return cast("Shown", tuple(map(harmless, value)))
    if isinstance(value, msgspec.Struct):
        fields = {name: harmless(getattr(value, name)) for name in value.__struct_fields__ if name != "trace"}
        return msgspec.structs.replace(value, **fields)
    return value


def printable(text: str) -> str:
    """One line that does no harm to a terminal: control, format and surrogate characters are shown by their numbers."""
    return "".join(shown(character) for character in text)


def shown(character: str) -> str:
    if character in "\t\n":
        return " "
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    return character.encode("ascii", "backslashreplace").decode() if ord(character) > 0x7F else f"\\x{ord(character):02x}"


def in_ascii(text: str) -> str:
    return text.translate(ASCII).encode("ascii", "backslashreplace").decode()
