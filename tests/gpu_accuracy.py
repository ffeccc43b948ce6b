"""How near the two seconds of `dl-doctor check` come to a long measurement, on a machine with PyTorch and a GPU.

    python tests/gpu_accuracy.py

Nothing has to be installed: it takes PyTorch from the Python that runs it, and the probe from the folder that this file is in.
The probe runs three times, as it would in `check`; the reference tries three shapes of matrices for ten seconds in all of each
type, and copies gigabytes. docs/gpu-probe.md says what is printed.
"""

import argparse
import importlib
import sys
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 3

MOST_BYTES = {"short": 1 << 30, "reference": 12 << 30}
"""Of each GPU, and a quarter of what is free at most."""

HOST_BYTES = {"short": 128 << 20, "reference": 1 << 30}

GOAL, SPREAD_GOAL = 0.05, 0.03
"""By how much the probe may differ from the reference, and its runs from each other."""

QUICK_SCALE, QUICK_BYTES = 0.01, 4 << 20

Rates = dict[tuple[int, str], tuple[float, str]]


def main(arguments: list[str]) -> None:
    options = parsed(arguments)
    probe = probe_of_the_doctor()
    torch = importlib.import_module("torch")
    told = [asked(probe, "short", options) for _ in range(RUNS)]
    reference = asked(probe, "reference", options)
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, HIP {torch.version.hip}")
    for gpu in reference["gpus"]:
        print(f"gpu:{gpu['index']} {gpu['backend']} {gpu['name'] or ''} {why_not(gpu)}".rstrip())
    for line in table([rates_of(one) for one in told], rates_of(reference)):
        print(line)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--device", choices=["cpu"], help="a rehearsal without a GPU: its figures mean nothing")
    parser.add_argument("--quick", action="store_true", help="a hundredth of all times, and small matrices: to see that it runs")
    return parser.parse_args(arguments)


def probe_of_the_doctor() -> Any:
    """The probe, as a module of a package that needs nothing of ours."""
    sys.path.append(str(Path(__file__).parents[1] / "doctor"))
    try:
        return importlib.import_module("probes.gpu_speed").probe
    finally:
        sys.path.pop()


def asked(probe: Any, length: str, options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "length": length,
        "device": options.device,
        "scale": QUICK_SCALE if options.quick else 1,
        "most_bytes": QUICK_BYTES if options.quick else MOST_BYTES[length],
        "host_bytes": QUICK_BYTES if options.quick else HOST_BYTES[length],
    }
    told: dict[str, Any] = probe(given, lambda name: print(f"{length}: {name}", file=sys.stderr))
    return told


def why_not(gpu: dict[str, Any]) -> str:
    """What could not be measured, and why."""
    return "; ".join(filter(None, [gpu["skipped"], *(f"{what}: {error}" for what, error in gpu["raised"].items())]))


def rates_of(told: dict[str, Any]) -> Rates:
    return {(rate["index"], rate["what"]): (rate["achieved"], rate["unit"]) for rate in told["rates"]}


def table(runs: list[Rates], reference: Rates) -> list[str]:
    """A line for each GPU and what was measured on it; the last one says how far off the worst is."""
    lines = [f"{'':8}{'':16}{'reference':>10}  {'probe':>10}  {'ratio':>6}  {'spread':>6}"]
    ratios, spreads = [], []
    for (gpu, what), (long, unit) in reference.items():
        short = [run[gpu, what][0] for run in runs if (gpu, what) in run]
        if not short:
            continue
        ratios.append(median(short) / long)
        spreads.append((max(short) - min(short)) / median(short))
        figures = f"{long:10.1f}  {median(short):10.1f}  {ratios[-1]:6.3f}  {spreads[-1]:6.1%}  {unit}"
        lines.append(f"gpu:{gpu:<4}{what:16}{figures}")
    if not ratios:
        return ["nothing was measured"]
    off, spread = max(abs(1 - ratio) for ratio in ratios), max(spreads)
    met = "met" if off <= GOAL and spread <= SPREAD_GOAL else "not met"
    goal = f"goal: {GOAL:.0%} and {SPREAD_GOAL:.0%}"
    return [*lines, f"the worst is {off:.1%} off, and three runs lie up to {spread:.1%} apart ({goal}: {met})"]


if __name__ == "__main__":
    main(sys.argv[1:])
