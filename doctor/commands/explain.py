"""`dl-doctor explain`: the page of a check, a status, an exit code or a word that reports use, offline."""

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
    "note": "Worth knowing; changes nothing. Told in one line, and with -v with the reason and what to do.",
    "accepted": "The site knows of it and says why in its settings. It stays in the report, and does not count.",
}

WORDS = {
    "passed": ("pass",),
    "warning": ("warn",),
    "failed": ("fail",),
    "skipped": ("skip",),
    "not run": ("not_run",),
    "could not tell": ("error", "3"),  # of a check, and of a run
    "go": ("0",),
    "do not start here": ("1",),
    "no go": ("1",),
}
"""What reports say, and the statuses and exit codes that it stands for."""


@click.command()
@click.argument("words", metavar="ID", nargs=-1, required=True, shell_complete=completed_ids)
@click.option("--no-plugins", is_flag=True, help="Only the checks that come with dl-doctor.")
def explain(words: tuple[str, ...], *, no_plugins: bool) -> None:
    """Print the page of a check (shm-size), a status (skip), an exit code (3) or a word of reports (could not tell)."""
    with output.reserved_for_the_report():
        catalogue = load(plugins=not no_plugins)
    name = " ".join(words)
    pages = {**{status: page(status, text) for status, text in STATUSES.items()}, **pages_of_exit_codes()}
    pages |= {word: "\n".join(pages[meant] for meant in meanings) for word, meanings in WORDS.items()}
    known_names("explain", (name,), {*catalogue.checks, *pages}, areas=catalogue.areas)
    if name in catalogue.checks:
        check = catalogue.checks[name]
        essential = ", essential" if check.essential else ""
        facts = f"area {check.area}, scope {check.scope}, profile {catalogue.profile_of(check)}{essential}"
        output.print_text(f"# {name}: {check.page or check.title}\n\n({facts})\n")
    else:
        output.print_text(pages[name])


def pages_of_exit_codes() -> dict[str, str]:
    return {str(code): page(f"exit {code}", f"{text[0].upper()}{text[1:]}") for code, text in EXIT_CODES.items()}


def page(title: str, text: str) -> str:
    return f"# {title}\n\n{text}\n"
