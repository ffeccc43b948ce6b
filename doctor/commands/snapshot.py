"""`dl-doctor snapshot`: what this node is like today, as a settings file that expects it to stay so."""

import json
from collections.abc import Iterator

import click

from dl_doctor import __version__, output
from dl_doctor.catalogue import load
from dl_doctor.engine import examine
from dl_doctor.model import Report
from dl_doctor.saved import BadReport, load_report
from dl_doctor.settings import Settings
from dl_doctor.system import System
from dl_doctor.units import GIB

SHARE = 0.5
"""Of what is free today, that is to be free later: disks fill and empty. Proposal."""


@click.command()
@click.argument("report", metavar="[REPORT]", required=False, type=click.Path())
@click.option("--data", multiple=True, metavar="PATH", help="Also expect room there: half of what is free today.")
def snapshot(report: str | None, data: tuple[str, ...]) -> None:
    """Write what this node, or that of a saved report, has today as [expect] for a settings file."""
    if report is not None:
        try:
            found = load_report(report)
        except BadReport as error:
            raise click.UsageError(str(error)) from None
    else:
        settings = Settings(profile="quick", select=("gpu-visible", "disk-space"), data=data or None)
        with output.reserved_for_the_report():
            found = examine(load(plugins=False), settings, System())
    output.print_text("\n".join([*head(found), *gpus(found), *room(found)]) + "\n")


def head(report: Report) -> Iterator[str]:
    place = report.machine.hostname or "an unknown node"
    yield f"# {toml(place)[1:-1]} on {report.run.started_at[:10]}, by dl-doctor {__version__}"
    yield "# For /etc/dl-doctor.toml, or a job's dl-doctor.toml."
    yield "[expect]"


def gpus(report: Report) -> Iterator[str]:
    nvml = report.facts.get("nvml")
    if not isinstance(nvml, dict) or not report.machine.gpus:
        yield "gpus = 0"
        return
    yield f"gpus = {len(report.machine.gpus)}"
    models = set(report.machine.gpus)
    if len(models) == 1:
        yield f"gpu-model = {toml(models.pop())}"
    if isinstance(version := nvml.get("driver_version"), str):
        yield f"driver = {toml(version)}  # this or a newer one"


def room(report: Report) -> Iterator[str]:
    """Of the paths that were named as data."""
    told = report.facts.get("data_paths")
    entries = told.get("entries", []) if isinstance(told, dict) else []
    free = {entry["path"]: entry["free_bytes"] for entry in entries if entry.get("role") == "data" and entry.get("free_bytes")}
    if free:
        yield "\n[expect.free-space]"
    for path, size in free.items():
        yield f'{toml(path)} = "{int(size * SHARE) // GIB}GiB"  # {size // GIB} GiB are free today'


def toml(text: str) -> str:
    """A basic string: what JSON escapes in one, TOML reads."""
    return json.dumps(text)
