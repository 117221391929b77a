"""`rollouts config`: what revisions have of ConfigMaps and Secrets, and how two of them differ. Reads only.

What is equal by its hash is not read at all. A Secret is read only to tell which of its keys differ; its values are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.command_line import CliCommand
from rollouts.cli.terminal.config import RevisionConfig, changes_as_json, config_table, draw_changes, revision_as_json
from rollouts.cli.terminal.listing import print_drawn, print_line
from rollouts.cli.terminal.options import DataOption, NameArgument, fail, on_cluster, print_data, rollout_name
from rollouts.cli.terminal.text import marks_for
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.config_reading import source_changes
from rollouts.cli.view.difference import CURRENT
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.missing import no_rollout
from rollouts.cli.view.objects import controlled_by, names_revision, number_of, revision_of, roles_of, status_of
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.manifests.ownership import NAME
from rollouts.objects import REPLICA_SET, ROLLOUT

REVISIONS = 2
app = typer.Typer(help="See which ConfigMaps and Secrets each revision has, and what changed in them.")
_REVISION = "A revision, its number (`4`), or its role: stable, canary, active, preview, current."


@app.command("list", cls=CliCommand)
@on_cluster
async def list_config(
    options: Options,
    name: NameArgument,
    output: DataOption = None,
) -> Exit:
    """List the ConfigMaps and Secrets of each kept revision, and the immutable copies that its pods read."""
    console = Console()
    async with open_session(options) as session:
        (revisions,) = (await _revisions(session, name)).values()
    if output is not None:
        print_data([revision_as_json(revision) for revision in revisions], output)
    elif any(revision.uses for revision in revisions):
        print_drawn(console, config_table(revisions))
    else:
        print_line(console, f"no revision of {name} has versioned configuration")
    return Exit.OK


@app.command("diff", cls=CliCommand)
@on_cluster
async def diff_config(
    options: Options,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] REV REV",
            help=f"The Rollout; default: the only one with both revisions. {_REVISION}",
            show_default=False,
        ),
    ],
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    output: DataOption = None,
) -> Exit:
    """Show how the configuration of two revisions differs: keys and values, of Secrets only which keys.

    Exit code 0: they have the same configuration. 1: they differ. 2: usage, or a revision that is not kept.
    4: the API server cannot be reached or refuses.
    """
    if len(words) not in (REVISIONS, REVISIONS + 1):
        raise typer.BadParameter("name a Rollout and two of its revisions: config diff cart 2 3")
    *named, before, after = words
    console = Console()
    async with open_session(options) as session:
        pair = _chosen(await _revisions(session, rollout_name(named[0]) if named else None), (before, after))
        if isinstance(pair, str):
            fail(pair)
            return Exit.USAGE
        old, new = pair
        changes = [change async for change in source_changes(session, old.uses, new.uses)]
    if output is not None:
        print_data(changes_as_json(changes, old, new), output)
        return Exit.BAD if changes else Exit.OK
    marks = marks_for(ascii_only=console.options.ascii_only)
    if not changes:
        print_line(console, f"{old.title} and {new.title} have the same configuration")
        return Exit.OK
    console.print(draw_changes(changes, old, new, marks=marks, full=full), soft_wrap=True)
    return Exit.BAD


def _found(revisions: Iterable[RevisionConfig], word: str) -> RevisionConfig | None:
    """The kept revision that `word` means: `f7w2k9xq4c`, `4`, `#4`, `stable`, `canary`, `current`."""
    for revision in revisions:
        roles = (*revision.roles, *([CURRENT] if revision.current else []))
        if names_revision(word, revision.revision, number=revision.number, roles=roles):
            return revision
    return None


def _chosen(
    rollouts: Mapping[str, Sequence[RevisionConfig]], words: tuple[str, str]
) -> tuple[RevisionConfig, RevisionConfig] | str:
    """The two revisions; or why they cannot be told."""
    found = {}
    for name, revisions in rollouts.items():
        before, after = (_found(revisions, word) for word in words)
        if before is not None and after is not None:
            found[name] = before, after
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        return f"more than one Rollout has revisions {words[0]} and {words[1]}: name one of {', '.join(sorted(found))}"
    if len(rollouts) != 1:
        return f"no Rollout of the namespace keeps revisions {words[0]} and {words[1]}"
    (revisions,) = rollouts.values()
    missing = next(word for word in words if _found(revisions, word) is None)
    return f"revision {missing} is not kept; the kept revisions: {', '.join(revision.title for revision in revisions) or 'none'}"


async def _revisions(session: Session, name: str | None) -> dict[str, list[RevisionConfig]]:
    """The revisions that each Rollout keeps, the newest first; of one Rollout if it is named."""
    query = {"fieldSelector": f"metadata.name={name}"} if name is not None else {}
    rollouts, _ = await list_all(session, Collection(kind=ROLLOUT, namespace=session.namespace, query=query))
    if name is not None and not rollouts:
        raise await no_rollout(session, name)
    ours = Collection(kind=REPLICA_SET, namespace=session.namespace, query={"labelSelector": NAME})
    replica_sets, _ = await list_all(session, ours)
    by_rollout = {}
    for rollout in rollouts:
        status = status_of(rollout)
        revisions = [
            RevisionConfig(
                revision=(revision := revision_of(replica_set)),
                number=number_of(replica_set),
                roles=roles_of(revision, status),
                uses=uses_of(replica_set),
                current=revision == status.current_revision,
            )
            for replica_set in replica_sets
            if controlled_by(replica_set, rollout)
        ]
        by_rollout[rollout["metadata"]["name"]] = sorted(revisions, key=lambda kept: (-kept.number, kept.revision))
    return by_rollout
