"""Recorded machines: a folder below tests/machines/ with machine.json, what the doctor read there, and expected.json.

To record the machine at hand, from the project's folder: `python -m tests.recorded > machine.json`. It holds what the checks
of today read, and nothing else.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from dl_doctor.catalogue import load
from dl_doctor.engine import examine
from dl_doctor.facts.environment import ALLOWED
from dl_doctor.model import Report, Unavailable
from dl_doctor.probing import Probed, Probes
from dl_doctor.settings import Settings
from dl_doctor.system import FileEntry, Missing, System, Usage
from dl_doctor.text import parse_cpu_list

MACHINES = Path(__file__).parent / "machines"

GPU_NODE = re.compile("nvidia|nvmap|nvhost|kfd|dxg")
"""Names in /dev that matter here."""

NAMES = tuple(sorted(folder.name for folder in MACHINES.iterdir() if folder.is_dir()))


class RecordedSystem(System):
    """The machine of a machine.json: its files are laid below a real folder, the rest is told from the record.

    An entry of `files` is a text, `{"link": target}`, `{"folder": [names]}` or `{"errno": "EACCES"}`.
    """

    def __init__(self, machine: Mapping[str, Any], folder: Path) -> None:
        super().__init__(str(folder))
        self.mounted, self.process = False, "/proc/self"
        self._machine = machine
        self._errors = {}
        for path, content in machine["files"].items():
            self._lay(path, content)

    def _lay(self, path: str, content: Any) -> None:
        place = Path(self._real(path))
        if isinstance(content, dict) and "errno" in content:
            self._errors[path] = getattr(errno, content["errno"])
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.write_bytes(os.fsencode(content))
        elif "link" in content:
            place.symlink_to(content["link"])
        else:
            for name in content["folder"]:
                (place / name).mkdir(parents=True, exist_ok=True)
            place.mkdir(parents=True, exist_ok=True)

    def _refuse(self, path: str) -> None:
        if path in self._errors:
            raise OSError(self._errors[path], os.strerror(self._errors[path]), path)

    def read_text(self, path: str) -> str:
        self._refuse(path)
        return super().read_text(path)

    def listdir(self, path: str) -> list[str]:
        self._refuse(path)
        return super().listdir(path)

    def readlink(self, path: str) -> str:
        self._refuse(path)
        return super().readlink(path)

    def statvfs(self, path: str) -> Usage:
        if path not in self._machine["statvfs"]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return Usage(**self._machine["statvfs"][path])

    def files_below(self, path: str) -> list[FileEntry]:
        return [FileEntry(**file) for file in self._machine.get("files_below", {}).get(path, [])]

    def environment(self) -> Mapping[str, str]:
        return self._machine["environment"]

    def rlimit(self, name: str) -> tuple[int | None, int | None]:
        if name not in self._machine["rlimits"]:
            raise Missing(Unavailable.not_asked(f"RLIMIT_{name} was not recorded"))
        soft, hard = self._machine["rlimits"][name]
        return soft, hard

    def affinity(self) -> frozenset[int]:
        return parse_cpu_list(self._machine["affinity"])

    def inherited_descriptors(self) -> int:
        return self._machine.get("inherited_descriptors", 3)

    def uid(self) -> int:
        return self._machine["uid"]

    def hostname(self) -> str:
        return self._machine["hostname"]

    def physical_cores(self) -> int | None:
        return self._machine["physical_cores"]

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=timezone.utc)


class RecordedProbes(Probes):
    """Answers from a machine.json, where `probes` holds `{"answer": ..., "ended": {...}}` by name; others were not asked."""

    def __init__(self, machine: Mapping[str, Any]) -> None:
        self._recorded = machine.get("probes", {})
        self.in_flight = []
        self.own_python = "/usr/bin/python3"

    async def run(self, probe: str, arguments: dict[str, Any] | None = None, **_options: Any) -> Probed:
        if probe not in self._recorded:
            raise Missing(Unavailable.not_asked(f"{probe} was not recorded"))
        return msgspec.convert(self._recorded[probe], Probed)

    async def run_watched(
        self, probe: str, arguments: dict[str, Any], *, watcher: str, **_options: Any
    ) -> tuple[Probed, Probed | None]:
        """Both as they were recorded; a probe that nobody watched stands alone."""
        return await self.run(probe, arguments), await self.run(watcher) if watcher in self._recorded else None

    def prepare(self, python: str) -> None:
        """There is nothing to start."""

    def close(self) -> None:
        """There is nothing to end."""

    def see_off(self) -> None:
        """There is nobody."""


class RecordingProbes(Probes):
    """Probes of the machine at hand; keeps what they answer."""

    def __init__(self, system: System, end_s: float) -> None:
        super().__init__(system, end_s)
        self.recorded: dict[str, Any] = {}

    async def run(self, probe: str, arguments: dict[str, Any] | None = None, **options: Any) -> Probed:
        probed = await super().run(probe, arguments, **options)
        self.recorded[probe] = msgspec.to_builtins(probed)
        return probed


class RecordingSystem(System):
    """The machine at hand; keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.machine: dict[str, Any] = {"files": {}, "statvfs": {}, "files_below": {}, "rlimits": {}}

    def _keep(self, path: str, ask: Any) -> Any:
        try:
            return ask()
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            self.machine["files"][path] = {"errno": errno.errorcode[error.errno or errno.EIO]}
            raise

    def read_text(self, path: str) -> str:
        text = self._keep(path, lambda: super(RecordingSystem, self).read_text(path))
        self.machine["files"][path] = text
        return text

    def listdir(self, path: str) -> list[str]:
        names = self._keep(path, lambda: super(RecordingSystem, self).listdir(path))
        if path.startswith("/sys/fs/cgroup"):
            self.machine["files"].setdefault(path, {"folder": []})  # only that it is there matters
        elif path == "/dev":
            self.machine["files"][path] = {"folder": [name for name in names if GPU_NODE.match(name)]}
        else:
            self.machine["files"][path] = {"folder": names}
        return names

    def readlink(self, path: str) -> str:
        target = self._keep(path, lambda: super(RecordingSystem, self).readlink(path))
        self.machine["files"][path] = {"link": target}
        return target

    def exists(self, path: str) -> bool:
        found = self._keep(path, lambda: super(RecordingSystem, self).exists(path))
        if found:
            self.machine["files"][path] = ""
        return found

    def statvfs(self, path: str) -> Usage:
        usage = super().statvfs(path)
        self.machine["statvfs"][path] = msgspec.structs.asdict(usage)
        return usage

    def files_below(self, path: str) -> list[FileEntry]:
        files = super().files_below(path)
        self.machine["files_below"][path] = [
            {"path": file.path, "used_bytes": file.used_bytes, "uid": file.uid, "inode": file.inode} for file in files
        ]
        return files

    def environment(self) -> Mapping[str, str]:
        found = {name: value for name, value in super().environment().items() if name in ALLOWED}
        self.machine["environment"] = found
        return found

    def rlimit(self, name: str) -> tuple[int | None, int | None]:
        self.machine["rlimits"][name] = super().rlimit(name)
        return self.machine["rlimits"][name]

    def affinity(self) -> frozenset[int]:
        mask = super().affinity()
        self.machine["affinity"] = ",".join(map(str, sorted(mask)))
        return mask

    def uid(self) -> int:
        self.machine["uid"] = super().uid()
        return self.machine["uid"]

    def inherited_descriptors(self) -> int:
        self.machine["inherited_descriptors"] = super().inherited_descriptors()
        return self.machine["inherited_descriptors"]

    def physical_cores(self) -> int | None:
        self.machine["physical_cores"] = super().physical_cores()
        return self.machine["physical_cores"]


def record() -> dict[str, Any]:
    system = RecordingSystem()
    probes = RecordingProbes(system, system.clock_s() + 60)
    examine(load(plugins=False), Settings(), system, probes=probes)
    system.uid()
    return {"about": "", "source": "", "hostname": "recorded", **system.machine, "probes": probes.recorded}


def examine_recorded(machine: Mapping[str, Any], folder: Path, settings: Settings | None = None, catalogue: Any = None) -> Report:
    """The report on a recorded machine, laid out in `folder`."""
    system = RecordedSystem(machine, folder)
    return examine(catalogue or load(plugins=False), settings or Settings(), system, probes=RecordedProbes(machine))


def read(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recorded machine and what is expected of it."""
    folder = MACHINES / name
    return json.loads((folder / "machine.json").read_text()), json.loads((folder / "expected.json").read_text())


if __name__ == "__main__":
    json.dump(record(), sys.stdout, indent=1)
    print()
