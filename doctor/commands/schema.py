"""`dl-doctor schema`: what a JSON report looks like."""

import click
import msgspec

from dl_doctor import output
from dl_doctor.catalogue import load
from dl_doctor.schema import schema_of


@click.command()
def schema() -> None:
    """Print the JSON Schema of a report."""
    text = msgspec.json.format(msgspec.json.encode(schema_of(load(plugins=False))), indent=2).decode()
    output.print_json(text + "\n")
