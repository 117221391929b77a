"""The commands about configuration of revisions, their options and exit codes. What they do is in `commands/`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.commands import config as command
from rollouts.cli.terminal.options import CommandRun, Output, on_cluster
from rollouts.cli.view.session import Options

app = typer.Typer(
    help="See which ConfigMaps and Secrets each revision has, and what changed in them.", no_args_is_help=True
)
_Output = Annotated[Output | None, typer.Option("-o", "--output", help="`json`: all of it as data.")]
_REVISION = "A revision, its number (`4`), or its role: stable, canary, active, preview, current."


@app.command("list")
@on_cluster
def list_(
    options: Options,
    name: Annotated[str, typer.Argument(help="Name of the Rollout.", show_default=False)],
    output: _Output = None,
) -> CommandRun:
    """List the ConfigMaps and Secrets of each kept revision, and the immutable copies that its pods read."""
    return command.list_config(options, name, as_json=_is_json(output), console=Console())


@app.command("diff")
@on_cluster
def diff(
    options: Options,
    before: Annotated[str, typer.Argument(metavar="REV", help=_REVISION, show_default=False)],
    after: Annotated[str, typer.Argument(metavar="REV", help=_REVISION, show_default=False)],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of the Rollout; default: the only one with both revisions.", show_default=False
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    output: _Output = None,
) -> CommandRun:
    """Show how the configuration of two revisions differs: keys and values, of Secrets only which keys.

    Exit code 0: they have the same configuration. 1: they differ. 2: usage, or a revision that is not kept.
    4: the API server cannot be reached or refuses.
    """
    return command.diff_config(
        options, (before, after), name=name, full=full, as_json=_is_json(output), console=Console()
    )


def _is_json(output: Output | None) -> bool:
    if output not in (None, Output.JSON):
        raise typer.BadParameter("-o takes json here")
    return output is Output.JSON
