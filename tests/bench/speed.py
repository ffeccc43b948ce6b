"""How long the doctor takes beside what it must not be slower than: `make bench`.

The doctor is the one that users have, installed from a wheel. Each round runs every command once, in an order that turns, so that
a busy minute hits all of them. What counts is the ratio within a round to `python -c "import torch"`; its median over the rounds
is printed. The last two columns are without .pyc files.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.installed import install_into

TORCH = Path(__file__).parent.parent.parent / ".venv-torch" / "bin" / "python"

BASE = "import torch"


def commands(python: str) -> dict[str, list[str]]:
    doctor = [python, "-m", "dl_doctor", "check", "--python", str(TORCH)]
    return {
        BASE: [str(TORCH), "-c", "import torch"],
        "check --profile quick": [*doctor, "--profile", "quick"],
        "check": doctor,
        "torch.utils.collect_env": [str(TORCH), "-m", "torch.utils.collect_env"],
    }


GOALS = {"check --profile quick": 0.25, "check": 1.05}

MOST_MEMORY_MB = 60


@dataclass(frozen=True)
class Timing:
    wall_s: float
    peak_mb: float
    """Of the process itself, without its children."""


def timed(command: list[str], environment: dict[str, str]) -> Timing:
    begin = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peak_kb = 0
        while process.poll() is None:
            peak_kb = max(peak_kb, high_water_kb(process.pid))
            time.sleep(0.002)
    return Timing(time.perf_counter() - begin, peak_kb / 1024)


def high_water_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def rounds(number: int, commands: dict[str, list[str]], environment: dict[str, str]) -> list[dict[str, Timing]]:
    names = list(commands)
    for name in names:
        timed(commands[name], environment)  # warm
    results = []
    for turn in range(number):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        results.append({name: timed(commands[name], environment) for name in order})
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the doctor's speed with importing torch.")
    parser.add_argument("--rounds", type=int, default=10)
    number = parser.parse_args().rounds
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        compared = commands(install_into(Path(folder)).python)
        cached = rounds(number, compared, plain)
        uncached = rounds(number, compared, {**plain, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": empty})
    print(f"{'command':<26} {'median s':>9} {'ratio':>7} {'goal':>6} {'peak MB':>8} {'without .pyc s':>15} {'ratio':>7}")
    met = True
    for name in compared:
        row, bare = column(cached, name), column(uncached, name)
        goal = GOALS.get(name)
        ok = goal is None or (row[1] <= goal and row[2] <= MOST_MEMORY_MB)
        met = met and ok
        print(
            f"{name:<26} {row[0]:>9.2f} {row[1]:>7.2f} {goal or '':>6} {row[2]:>8.0f} {bare[0]:>15.2f} {bare[1]:>7.2f}"
            + ("" if ok else "  above its goal")
        )
    return 0 if met else 1


def column(results: list[dict[str, Timing]], name: str) -> tuple[float, float, float]:
    """Median of the seconds, median of the ratios within a round, and the largest peak."""
    return (
        statistics.median(timings[name].wall_s for timings in results),
        statistics.median(timings[name].wall_s / timings[BASE].wall_s for timings in results),
        max(timings[name].peak_mb for timings in results),
    )


if __name__ == "__main__":
    sys.exit(main())
