"""`dl-doctor list`: what is checked."""

from typing import Literal

import click
import msgspec

from dl_doctor import output
from dl_doctor.catalogue import Catalogue, load


@click.command("list")
@click.option("-f", "--format", "format_", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.option("--no-plugins", is_flag=True, help="Only the checks that come with dl-doctor.")
def list_(format_: Literal["text", "json", "markdown"], *, no_plugins: bool) -> None:
    """List the checks: id, area, scope, profile, origin and title; as JSON also the facts of each, as Markdown their pages."""
    with output.reserved_for_the_report():
        catalogue = load(plugins=not no_plugins)
    if format_ == "json":
        rows = msgspec.json.format(msgspec.json.encode(described(catalogue)), indent=2).decode()
        output.print_json(rows + "\n")
    elif format_ == "markdown":
        output.print_text(as_pages(catalogue))
    else:
        output.print_text(as_table(catalogue))
    for broken in catalogue.broken:
        output.warn(f"plugin {broken.distribution} cannot be used: {broken.reason}")


def described(catalogue: Catalogue) -> list[dict[str, object]]:
    """A row for each check; `needs` are the facts that it takes, by their names in a report."""
    return [
        {
            "id": check.id,
            "title": check.title,
            "area": check.area,
            "scope": check.scope,
            "profile": catalogue.profile_of(check),
            "essential": check.essential,
            "needs": [catalogue.names[need.fact] for need in check.needs.values()],
            "origin": check.origin,
        }
        for check in catalogue.checks.values()
    ]


def as_table(catalogue: Catalogue) -> str:
    """Aligned columns; `!` stands behind the id of an essential check."""
    rows = [
        (
            f"{row['id']}{' !' if row['essential'] else ''}",
            row["area"],
            row["scope"],
            row["profile"],
            row["origin"],
            row["title"],
        )
        for row in described(catalogue)
    ]
    table = [("id", "area", "scope", "profile", "origin", "title"), *rows]
    widths = [max(len(str(row[column])) for row in table) for column in range(5)]
    lines = ["  ".join([*(f"{row[i]:<{widths[i]}}" for i in range(5)), str(row[5])]) for row in table]
    return "\n".join([*lines, "", "! essential: if it could not tell, the run could not tell.", ""])


def as_pages(catalogue: Catalogue) -> str:
    """A table of all checks, and below it the page of each."""
    rows = described(catalogue)
    table = ["| id | title | area | scope | profile |", "|---|---|---|---|---|"]
    for row in rows:
        essential = " !" if row["essential"] else ""
        table.append(
            f"| [`{row['id']}`](#{row['id']}){essential} | {row['title']} | {row['area']} | {row['scope']} | {row['profile']} |"
        )
    pages = []
    for check in catalogue.checks.values():
        page = check.page.replace("\n## ", "\n### ")
        pages += [f"## {check.id}", "", page, ""]
    note = "`!`: essential. If it could not tell, the run could not tell. `profile` is the lowest one that runs it."
    return "\n".join(["# Checks", "", *table, "", note, "", *pages])
