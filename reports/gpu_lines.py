"""What the probe of the GPUs measured, for a terminal: a line for each GPU, below a heading for each model."""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dl_doctor.model import Report
from dl_doctor.reports.gpus import LINK, MEMORY, Column, Gpus, Reach, Row, bases, counted, gpus_of
from dl_doctor.reports.look import Look
from dl_doctor.reports.sweep import beside

COMPUTE = ("bf16", "fp16", "tf32", "fp32", "fp8")
"""The first of these that was measured stands for a GPU's products; -v tells the others."""

HEADINGS = {MEMORY: "memory"}
GAP = "  "

AGAINST = {"datasheet": "what the datasheet says", "formula": "what the formula for its kind says: it is in no table"}


def parts(report: Report, look: Look) -> Iterator[Text | Table]:
    """Nothing where no GPU was to be measured."""
    gpus = gpus_of(report.facts)
    if gpus is None:
        return
    for name, rows in gpus.by_name:
        yield from model(name, rows, gpus.columns, look)
    if look.detail == "full":
        yield from (beside(Text(f"{what}{GAP}"), Text(f"not measured: {why}", style="dim")) for what, why in gpus.raised)
    yield from caption(gpus)
    yield Text()


def model(name: str, rows: Sequence[Row], columns: Sequence[Column], look: Look) -> Iterator[Text | Table]:
    """The GPUs of one model: what they are measured against, and a line for each."""
    alone = told_alone(rows, columns)
    yield Text(f"{counted(name, rows)}{against(rows, alone)}", style="bold", no_wrap=True)
    shown = fitting([*cells_of(rows, columns, alone)], look.width)
    heading, *lines = [GAP.join(line).rstrip() for line in zip(*map(padded, shown), strict=True)]
    yield Text(heading, style="dim", no_wrap=True) if heading else Text()
    indent = len(padded(shown[0])[0]) + len(GAP)
    for row, line in zip(rows, lines, strict=True):
        if row.skipped:
            yield beside(Text(row.gpu.ljust(indent)), Text(f"not measured: {row.skipped}"))
        else:
            yield Text(line, no_wrap=True)
        if row.held:
            yield beside(Text(" " * indent), Text(f"! held back: {', '.join(row.held)}", style="yellow"))
        if look.detail == "full" and (more := rest(row, columns, alone)):
            yield beside(Text(" " * indent), Text(more, style="dim"))


def told_alone(rows: Sequence[Row], columns: Sequence[Column]) -> list[int]:
    """Places of the columns that a line has, too: products of one type, and the memory."""
    places = {column.what: place for place, column in enumerate(columns) if any(row.reaches[place] for row in rows)}
    compute = next((what for what in COMPUTE if what in places), None)
    return [places[what] for what in (compute, MEMORY) if what in places]


def against(rows: Iterable[Row], places: Iterable[int]) -> str:
    """Where the possible rates come from."""
    places = tuple(places)
    found = bases(reach for row in rows for place in places if (reach := row.reaches[place]))
    return f", achieved of {' or '.join(AGAINST.get(basis, basis) for basis in found)}" if found else ""


def cells_of(rows: Sequence[Row], columns: Sequence[Column], alone: Sequence[int]) -> Iterator[list[str]]:
    """The columns of a line, each with its heading, but for those in which nothing stands."""
    yield ["", *(row.gpu for row in rows)]
    told: list[list[str]] = []
    for number, place in enumerate(alone):
        column, reaches = columns[place], [row.reaches[place] for row in rows]
        told.append([f"{HEADINGS.get(column.what, column.what)} {column.unit}", *map(in_words, reaches)])
        if number == 0:
            told.append(["", *(reach.percent if reach else "" for reach in reaches)])
    if link := [place for place, column in enumerate(columns) if column.what in LINK]:
        slower = [slowest(row.reaches[place] for place in link) for row in rows]
        told.append([f"host {columns[link[0]].unit}", *map(in_words, slower)])
    told += [["MHz", *(row.clock for row in rows)], ["°C", *(row.heat for row in rows)], ["W", *(row.power for row in rows)]]
    yield from (cells for cells in told if any(cells[1:]))


def in_words(reach: Reach | None) -> str:
    return reach.in_words if reach else ""


def slowest(reaches: Iterable[Reach | None]) -> Reach | None:
    return min((reach for reach in reaches if reach), key=lambda reach: reach.share, default=None)


def fitting(columns: list[list[str]], width: int) -> list[list[str]]:
    """As many of them, from the left, as there is room for; the second one always."""
    taken = 0
    for number, cells in enumerate(columns):
        taken += max(map(len, cells)) + len(GAP)
        if taken - len(GAP) > width and number > 1:
            return columns[:number]
    return columns


def padded(cells: Sequence[str]) -> list[str]:
    """All as wide as the widest: numbers stand to the right, names of GPUs to the left."""
    width = max(map(len, cells))
    return [cell.ljust(width) if cell.startswith("gpu:") else cell.rjust(width) for cell in cells]


def rest(row: Row, columns: Sequence[Column], alone: Sequence[int]) -> str:
    """What has no column of its own."""
    others = [place for place in range(len(columns)) if place not in alone]
    rates = [f"{columns[place].what} {reach.in_words} {columns[place].unit}" for place in others if (reach := row.reaches[place])]
    return ", ".join([*rates, *row.more])


def caption(gpus: Gpus) -> Iterator[Text]:
    """What the columns do not say."""
    linked = any(column.what in LINK for column in gpus.columns)
    told = ["host is the slower direction of the link"] if linked else []
    told += ["heat may not show in so short a time"] if gpus.brief and gpus.columns else []
    if told:
        text = "; ".join(told)
        yield Text(f"{text[:1].upper()}{text[1:]}.", style="dim")
