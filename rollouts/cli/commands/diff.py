"""`rollouts diff`: how the pod templates of two revisions differ, and what applying a file would change. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.config import DIFF_STYLES
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, fail, on_cluster, read_manifests, rollout_name
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.difference import difference, revision_named, template_of, title_of
from rollouts.cli.view.reading import look
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import ApiNotFound
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import APPLY_PATCH

_REVISION = "A revision, its number (`4`), its role (stable, canary, active, preview), `current` or `previous`."
_KEPT_BY_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


@on_cluster
def diff(
    options: Options,
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the Rollout.", parser=rollout_name, metavar="[NAME]", show_default=False),
    ] = None,
    before: Annotated[str, typer.Argument(metavar="[REV]", help=_REVISION)] = "previous",
    after: Annotated[str, typer.Argument(metavar="[REV]", help=_REVISION)] = "current",
    file: Annotated[
        str | None, typer.Option("-f", "--filename", metavar="FILE", help="What applying this file would change.")
    ] = None,
) -> CommandRun:
    """Show how the pod templates of two revisions differ, or with -f what applying a file would change. Reads only.

    Exit code 0: no difference. 1: they differ. 2: usage, or a revision that is not kept.
    """
    if name is not None and file is None:
        return _diff_revisions(options, name, (before, after))
    if name is not None or file is None:
        raise typer.BadParameter("name a Rollout, or give -f FILE")
    from rollouts.cli.kubernetes.parts import is_a  # noqa: PLC0415 - most commands read no files

    source = "stdin" if file == "-" else file
    rollouts = [manifest for manifest in read_manifests([file]) if is_a(manifest, ROLLOUT)]
    if not rollouts:
        fail(f"{source}: the file contains no {ROLLOUT.api_version} Rollout")
        raise typer.Exit(Exit.USAGE)
    return _diff_file(options, rollouts, source)


async def _diff_revisions(options: Options, name: str, words: tuple[str, str]) -> Exit:
    async with open_session(options) as session:
        seen = await look(session, name)
    before, after = (revision_named(seen, word) for word in words)
    if before is None or after is None:
        kept = ", ".join(map(title_of, seen.replica_sets))
        missing = words[0] if before is None else words[1]
        fail(f"{name}: revision {missing} is not kept; the kept revisions: {kept or 'none'}")
        return Exit.USAGE
    titles = title_of(before), title_of(after)
    return _print(difference(template_of(before), template_of(after), titles), f"{titles[0]} and {titles[1]}")


async def _diff_file(options: Options, rollouts: Sequence[Manifest], source: str) -> Exit:
    """Asks the API server what a server-side apply would make of each Rollout; nothing is written."""
    code = Exit.OK
    async with open_session(options) as session:
        for rollout in rollouts:
            live, applied = await _applied(session, rollout)
            title = f"Rollout {applied['metadata']['namespace']}/{applied['metadata']['name']}"
            lines = difference(_plain(live), _plain(applied), (f"{title} (cluster)", f"{title} ({source})"))
            code = max(code, _print(lines, f"{title} in the cluster and in {source}"))
    return code


async def _applied(session: Session, manifest: Manifest) -> tuple[Manifest, Manifest]:
    """The object as it is ({} when there is none) and as it would be."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace") or session.namespace
    try:
        live = manifest_from(await session.client.get(ROLLOUT, namespace, name))
    except ApiNotFound:
        live = {}
    # Only the apply of the manager who has applied the object removes the fields that its file has no more.
    entries = live.get("metadata", {}).get("managedFields") or ()
    applied = (entry for entry in entries if entry.get("operation") == "Apply" and not entry.get("subresource"))
    by = next((entry["manager"] for entry in applied), "kubectl")
    answer = await session.client.patch(
        ROLLOUT, namespace, name, manifest, APPLY_PATCH, field_manager=by, force=True, dry_run=True, strict=True
    )
    return live, manifest_from(answer)


def _plain(thing: Manifest) -> Manifest:
    """The object without its status and what only the server writes."""
    kept = {name: value for name, value in thing.items() if name != "status"}
    if metadata := kept.get("metadata"):
        kept["metadata"] = {name: value for name, value in metadata.items() if name not in _KEPT_BY_SERVER}
    return kept


def _print(lines: list[str], what: str) -> Exit:
    console = Console()
    if not lines:
        print_line(console, f"{what} are the same")
        return Exit.OK
    for line in lines:
        console.print(Text(plain(line), DIFF_STYLES.get(line[0], "")), soft_wrap=True)
    return Exit.BAD
