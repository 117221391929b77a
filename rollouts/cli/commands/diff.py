"""`rollouts diff`: how the pod templates of two revisions differ, and what applying a file would change. Reads only."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.text import Text

from rollouts.cli.commands.config import CURRENT
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.config import DIFF_STYLES
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import CommandRun, fail, on_cluster, read_manifests, rollout_name
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.objects import (
    RolloutObjects,
    names_revision,
    number_of,
    revision_of,
    roles_of,
    status_of,
)
from rollouts.cli.view.reading import look
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.numbering import revision_title
from rollouts.errors import ApiNotFound
from rollouts.manifests.ownership import POD_TEMPLATE_HASH, PREFIX
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import APPLY_PATCH

_REVISION = "A revision, its number (`4`), its role (stable, canary, active, preview), `current` or `previous`."
PREVIOUS = "previous"  # the newest kept revision before the current one
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
    before, after = (_revision(seen, word) for word in words)
    if before is None or after is None:
        kept = ", ".join(map(_title, seen.replica_sets))
        missing = words[0] if before is None else words[1]
        fail(f"{name}: revision {missing} is not kept; the kept revisions: {kept or 'none'}")
        return Exit.USAGE
    titles = _title(before), _title(after)
    return _print(_difference(_template(before), _template(after), titles), f"{titles[0]} and {titles[1]}")


async def _diff_file(options: Options, rollouts: Sequence[Manifest], source: str) -> Exit:
    """Asks the API server what a server-side apply would make of each Rollout; nothing is written."""
    code = Exit.OK
    async with open_session(options) as session:
        for rollout in rollouts:
            live, applied = await _applied(session, rollout)
            title = f"Rollout {applied['metadata']['namespace']}/{applied['metadata']['name']}"
            lines = _difference(_plain(live), _plain(applied), (f"{title} (cluster)", f"{title} ({source})"))
            code = max(code, _print(lines, f"{title} in the cluster and in {source}"))
    return code


def _difference(before: Any, after: Any, titles: tuple[str, str]) -> list[str]:
    """The lines of a unified diff of two values as YAML; none when they are equal."""
    old, new = (
        yaml.safe_dump(value, sort_keys=True, allow_unicode=True).splitlines() if value else []
        for value in (before, after)
    )
    return list(difflib.unified_diff(old, new, *titles, lineterm=""))


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


def _revision(seen: RolloutObjects, word: str) -> Manifest | None:
    """The ReplicaSet of the revision that `word` means."""
    status = status_of(seen.rollout)
    ordered = sorted(seen.replica_sets, key=number_of, reverse=True)
    if word == PREVIOUS:
        now = next((number_of(kept) for kept in ordered if revision_of(kept) == status.current_revision), 0)
        return next((kept for kept in ordered if number_of(kept) < now), None)
    for replica_set in ordered:
        revision = revision_of(replica_set)
        current = (CURRENT,) if revision == status.current_revision else ()
        roles = (*roles_of(revision, status), *current)
        if names_revision(word, revision, number=number_of(replica_set), roles=roles):
            return replica_set
    return None


def _title(replica_set: Manifest) -> str:
    return revision_title(number_of(replica_set), revision_of(replica_set))


def _template(replica_set: Manifest) -> Mapping[str, Any]:
    """The pod template, without the labels that every revision has of its own."""
    template: dict[str, Any] = replica_set["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    named = (metadata.get("labels") or {}).items()
    labels = {name: value for name, value in named if not name.startswith(PREFIX) and name != POD_TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _print(lines: list[str], what: str) -> Exit:
    console = Console()
    if not lines:
        print_line(console, f"{what} are the same")
        return Exit.OK
    for line in lines:
        console.print(Text(plain(line), DIFF_STYLES.get(line[0], "")), soft_wrap=True)
    return Exit.BAD
