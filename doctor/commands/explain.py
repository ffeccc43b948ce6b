"""`dl-doctor explain`: the page of a check, a status or an exit code, offline."""

import click

from dl_doctor import output
from dl_doctor.catalogue import load
from dl_doctor.commands.options import completed_ids, known_names
from dl_doctor.outcome import EXIT_CODES

STATUSES = {
    "pass": "It was looked at, and nothing is wrong. The report says what was looked at.",
    "warn": "The job would run, and slowly or on the edge. Exits 0, unless --fail-on warn.",
    "fail": "The job would break or crawl here. Exits 1.",
    "skip": "It does not apply here, or this user may not look. It is not a pass.",
    "error": "It applies and could not be told. Exits 3 for an essential or required check.",
    "not_run": "Nobody asked for it: an option or a higher profile would.",
    "note": "Worth knowing; changes nothing. Shown with -v.",
}


@click.command()
@click.argument("name", metavar="ID", shell_complete=completed_ids)
@click.option("--no-plugins", is_flag=True, help="Only the checks that come with dl-doctor.")
def explain(name: str, *, no_plugins: bool) -> None:
    """Print the page of a check (shm-size), a status (skip) or an exit code (3)."""
    with output.reserved_for_the_report():
        catalogue = load(plugins=not no_plugins)
    codes = {str(code): text for code, text in EXIT_CODES.items()}
    known_names("explain", (name,), {*catalogue.checks, *STATUSES, *codes}, areas=catalogue.areas)
    if name in catalogue.checks:
        check = catalogue.checks[name]
        essential = ", essential" if check.essential else ""
        facts = f"area {check.area}, scope {check.scope}, profile {catalogue.profile_of(check)}{essential}"
        output.print_text(f"# {name}: {check.page or check.title}\n\n({facts})\n")
    elif name in STATUSES:
        output.print_text(f"# {name}\n\n{STATUSES[name]}\n")
    else:
        output.print_text(f"# exit {name}\n\n{codes[name][0].upper()}{codes[name][1:]}\n")
