"""The command line of `rollouts migrate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
import yaml

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import read_manifests
from rollouts.cli.terminal.text import plain


def migrate(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
    ],
) -> None:
    """Turn Deployments, Argo Rollouts' objects and Flagger's Canaries in files into Rollouts. Needs no cluster.

    What comes out goes to stdout; what has changed, what is left to do, and what was left out and why, to stderr. The exit code
    is 1 when something was left out.
    """
    from rollouts.cli.migrate.migrated import migrated  # noqa: PLC0415 - main.py says why

    outcome = migrated(read_manifests(files, code=Exit.BAD))
    for note in outcome.notes:
        sys.stderr.write(f"{plain(str(note))}\n")
    if not outcome.objects:
        sys.stderr.write("nothing came out: no Deployment, no object of Argo Rollouts, no Canary with its Deployment\n")
        raise typer.Exit(Exit.BAD)
    sys.stdout.write(yaml.safe_dump_all(outcome.objects, sort_keys=False))
    if not outcome.complete:
        raise typer.Exit(Exit.BAD)
