"""`dl-doctor completion`: what a shell needs to complete our commands, options and ids of checks."""

import click
from click.shell_completion import get_completion_class

from dl_doctor import output

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell; for bash: eval "$(dl-doctor completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}.")
    output.print_text(kind(context.find_root().command, {}, "dl-doctor", "_DL_DOCTOR_COMPLETE").source() + "\n")
