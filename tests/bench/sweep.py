"""What `dl-doctor sweep` recommends, against a grid and against rules of thumb: `make bench-sweep`.

Of each case in sweep_cases.toml: a grid over GRID is measured twice, in opposite order; the sweep runs, with two fifths of that
time for its budget; then what it recommends and what the grid found best are measured five times in turn, unless they are the
same. A case counts where both passes agree within 5 % at the best; where they do not, the sweep has to say that it is too noisy,
or be right all the same. Of some cases the sweep runs again beside a busy neighbour, and what it recommends there is compared
with the grid's best, in turn and beside the neighbour, too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
TORCH = HERE.parents[1] / ".venv-torch" / "bin" / "python"
DOCTOR = f"{sysconfig.get_path('scripts')}/dl-doctor"

GRID = (0, 1, 2, 3, 4, 6, 8, 12, 16)
ROUNDS = 5
AGREE, AS_GOOD = 0.05, 0.95
WITH_NEIGHBOUR = ("wait-10ms", "compute-4ms", "lock-8ms", "collate-6ms", "objects-4000", "step-80ms")

WANTED = {"cases that count": 14, "as good": 19 / 20, "names right": 18 / 20, "time": 0.5, "above the cores": 5, "slower": 3}
SLOWER = 0.97
"""Of the best rate: so much is less with the most workers of the grid where more of them are slower."""


@dataclass(frozen=True)
class Row:
    """What became of one case."""

    case: str
    neighbour: bool
    best: int
    agree: float
    """How far the two passes lie apart at the best, as a part."""

    recommended: int | None
    conclusion: str
    share: float | None
    """Of the best setting's rate, by the median of the rounds in turn; None where nothing was recommended."""

    name: str
    expected: str
    sweep_s: float
    grid_s: float
    rules: dict[str, float]
    """Of the best setting's rate, what rules of thumb would have come to, by the grid."""

    most: float
    """The same of the most workers."""

    @property
    def counts(self) -> bool:
        return self.agree <= AGREE


def rates(case: dict[str, Any], seconds: float, workers: list[int]) -> list[float]:
    command = [str(TORCH), str(HERE / "sweep_grid.py"), str(seconds), str(case.get("step_ms", 0)), *map(str, workers)]
    environment = {**os.environ, "SWEEP_CASE": json.dumps(case)}
    found: list[float] = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    return found


def sweep(case: dict[str, Any], budget_s: float) -> dict[str, Any]:
    step = ["--step-time", f"{case['step_ms']}ms"] if "step_ms" in case else []
    command = [DOCTOR, "sweep", f"{HERE}/sweep_case.py:make_loader", "--python", str(TORCH), "-f", "json", *step]
    command += ["--budget", str(budget_s)]
    environment = {**os.environ, "SWEEP_CASE": json.dumps(case)}
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)["facts"]["loader_sweep"]
    return found


def rules() -> dict[str, int]:
    """Workers by rules of thumb, on this machine and for one rank."""
    cpus, cores = len(os.sched_getaffinity(0)), psutil.cpu_count(logical=False) or 1
    return {"PyTorch's hint": cpus, "Lightning's rule": max(1, cpus - 1), "1.5 x cores": round(1.5 * cores)}


@dataclass(frozen=True)
class Grid:
    """Rates of a case by number of workers: the means of both passes."""

    rates: dict[int, float]
    agree: float
    seconds: float

    @property
    def best(self) -> int:
        return max(self.rates, key=lambda workers: self.rates[workers])

    def share(self, workers: int) -> float:
        return self.rates[workers] / self.rates[self.best]


def grid_of(case: dict[str, Any], seconds: float) -> Grid:
    numbers = sorted({*GRID, *rules().values()})
    begin_s = time.monotonic()
    there = dict(zip(numbers, rates(case, seconds, numbers), strict=True))
    back = dict(zip(numbers[::-1], rates(case, seconds, numbers[::-1]), strict=True))
    took_s = time.monotonic() - begin_s
    means = {workers: statistics.fmean((there[workers], back[workers])) for workers in numbers}
    best = max(means, key=lambda workers: means[workers])
    agree = max(there[best], back[best]) / min(there[best], back[best]) - 1
    return Grid(means, agree, took_s)


def row_of(name: str, case: dict[str, Any], grid: Grid, *, seconds: float, share: float, neighbour: bool = False) -> Row:
    begin_s = time.monotonic()
    found = sweep(case, round(share * grid.seconds, 1))
    sweep_s = time.monotonic() - begin_s
    recommended = found["recommendation"]["num_workers"]["value"] if found["recommendation"] else None
    return Row(
        case=name,
        neighbour=neighbour,
        best=grid.best,
        agree=grid.agree,
        recommended=recommended,
        conclusion=found["conclusion"],
        share=None if recommended is None else share_of(case, recommended, grid.best, seconds),
        name=found["bottleneck"],
        expected=case["name"],
        sweep_s=sweep_s,
        grid_s=grid.seconds,
        rules={rule: grid.share(workers) for rule, workers in rules().items()},
        most=grid.share(max(GRID)),
    )


def share_of(case: dict[str, Any], recommended: int, best: int, seconds: float) -> float:
    """The recommended setting's rate by the best one's: the median of rounds in turn, ABBAABBAAB."""
    if recommended == best:
        return 1.0
    turns = [(recommended, best) if turn % 2 else (best, recommended) for turn in range(ROUNDS)]
    measured = iter(rates(case, seconds, [workers for pair in turns for workers in pair]))
    rounds = [dict(zip(pair, (next(measured), next(measured)), strict=True)) for pair in turns]
    return statistics.median(one[recommended] / one[best] for one in rounds)


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Computes for a second on one CPU, and rests for one."""
    code = "import time\nwhile True:\n    end = time.time() + 1\n    while time.time() < end: pass\n    time.sleep(1)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield
        finally:
            process.kill()


def pictures(folder: Path) -> None:
    """400 JPEG files of smooth noise, as large as photographs."""
    code = (
        "import sys, random\nfrom PIL import Image\n"
        "for n in range(400):\n"
        "    draw = random.Random(n)\n"
        "    small = Image.frombytes('RGB', (50, 40), draw.randbytes(6000))\n"
        "    small.resize((500, 400), Image.BICUBIC).save('%s/%03d.jpg' % (sys.argv[1], n), quality=90)\n"
    )
    subprocess.run([str(TORCH), "-c", code, str(folder)], check=True)


def table(rows: list[Row]) -> str:
    thumbs = list(rules())
    lines = [
        f"| case | best | recommended | of the best | in the way | {' | '.join(thumbs)} | sweep | grid |",
        "|---|" + "---:|" * 3 + "---|" + "---:|" * (len(thumbs) + 2),
    ]
    for row in rows:
        share = "" if row.share is None else f"{100 * row.share:.0f} %"
        recommended = row.conclusion.replace("_", " ") if row.recommended is None else str(row.recommended)
        name = row.name if row.name == row.expected else f"{row.name} (is {row.expected})"
        by_rule = " | ".join(f"{100 * row.rules[rule]:.0f} %" for rule in thumbs)
        best = str(row.best) if row.counts else f"{row.best} (± {100 * row.agree:.0f} %)"
        case = f"{row.case}, neighbour" if row.neighbour else row.case
        took = f"{row.sweep_s:.0f} s | {row.grid_s:.0f} s"
        lines.append(f"| {case} | {best} | {recommended} | {share} | {name} | {by_rule} | {took} |")
    return "\n".join(lines)


def verdict(rows: list[Row]) -> dict[str, tuple[float, bool]]:
    """What was asked for, what was reached, and whether that is enough; cases with a neighbour are shown and do not count."""
    alone = [row for row in rows if not row.neighbour]
    counting = [row for row in alone if row.counts]
    told = [row for row in counting if row.share is not None]
    good = sum(row.share is not None and row.share >= AS_GOOD for row in counting) / max(len(counting), 1)
    right = sum(row.name == row.expected for row in alone) / max(len(alone), 1)
    slowest = max((row.sweep_s / row.grid_s for row in alone), default=0.0)
    cores = psutil.cpu_count() or 1
    above, slower = sum(row.best > cores for row in counting), sum(row.most < SLOWER for row in counting)
    noisy = [row for row in alone if not row.counts]
    silent = [row for row in noisy if row.share is not None and row.share < AS_GOOD]
    return {
        f"cases that count: {len(counting)} of {len(alone)}": (len(counting), len(counting) >= WANTED["cases that count"]),
        "with the optimum above the cores": (above, above >= WANTED["above the cores"]),
        "that get slower with more workers": (slower, slower >= WANTED["slower"]),
        f"at least 95 % of the best: {len(told)} told": (good, good >= WANTED["as good"]),
        "names right": (right, right >= WANTED["names right"]),
        "the sweep's time by the grid's, at most": (slowest, slowest <= WANTED["time"]),
        f"of {len(noisy)} whose grid is noisy, wrong and not said so": (len(silent), not silent),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a window of the grid")
    parser.add_argument("--share", type=float, default=0.4, help="of the time that a case's grid took, for its sweep's budget")
    parser.add_argument("--json", type=Path, help="write all rows there")
    asked = parser.parse_args()
    cases = tomllib.loads((HERE / "sweep_cases.toml").read_text())
    wanted = [name for name in cases if not asked.cases or name in asked.cases]
    rows = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.environ["SWEEP_JPEGS"] = folder
        if "jpeg" in wanted:
            pictures(Path(folder))
        options = {"seconds": asked.seconds, "share": asked.share}
        grids = {}
        for name in wanted:
            grids[name] = grid_of(cases[name], asked.seconds)
            rows.append(row_of(name, cases[name], grids[name], **options))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        for name in WITH_NEIGHBOUR if not asked.cases else ():
            with busy_neighbour():
                rows.append(row_of(name, cases[name], grids[name], **options, neighbour=True))
    print(table(rows))
    reached = verdict(rows)
    for what, (value, enough) in reached.items():
        print(f"{'+' if enough else '-'} {what}: {value:.2f}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(enough for _, enough in reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
