"""The command line of `rollouts migrate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import fail, read_file
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of


def migrate(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
    ],
) -> None:
    """Turn Deployments, Argo Rollouts' objects and Flagger's Canaries in files into Rollouts. Needs no cluster.

    The result goes to stdout, with everything else that is in the files: autoscalers scale the Rollouts, the rest is unchanged.
    To stderr goes a line for each thing to know, with its place in the files:
    `changed`, `then` (in which order to go on), `to do` (edit the result) and `left out` (has no equal here).
    What `lint` finds in the result is `to do`, with the line in the result. The exit code is 1 if there is something to do, or
    if something was left out.
    """
    from rollouts.cli.kubernetes.yaml_text import node_at, read_text  # noqa: PLC0415 - main.py says why
    from rollouts.cli.migrate.migrated import migrated, text_of  # noqa: PLC0415
    from rollouts.cli.migrate.outcome import Told  # noqa: PLC0415

    found = []
    strange = 0
    for name, text in map(read_file, files):
        file = read_text(text)
        if file.broken is not None:
            fail(f"{name}:{file.broken.line}: YAML: {file.broken.why}")
            raise typer.Exit(Exit.BAD)
        for node, manifest in file.objects:
            if isinstance(manifest, dict):
                found.append((name, node, manifest))
            else:
                strange += 1
                line = node.start_mark.line + 1
                sys.stderr.write(f"{name}:{line}: left out: a document that is no object with apiVersion and kind\n")
    outcome = migrated(manifest for _, _, manifest in found)
    for note in outcome.notes:
        place = f"stdout:{note.line}"
        if note.source is not None:
            name, node, _ = found[note.source]
            place = f"{name}:{node_at(node, note.path)[1]}"
        sys.stderr.write(f"{place}: {plain(str(note))}\n")
    if not outcome.changed:
        sys.stderr.write(
            "nothing to migrate: no Deployment, no object of Argo Rollouts, no Canary with its Deployment\n"
        )
        raise typer.Exit(Exit.BAD)
    sys.stdout.write(text_of(outcome.objects))
    left = strange + sum(note.told in (Told.TO_DO, Told.LEFT_OUT) for note in outcome.notes)
    if left:
        sys.stderr.write(f"{count_of(left, 'thing')} to do or left out\n")
        raise typer.Exit(Exit.BAD)
