"""`rollouts delete`: deletes Rollouts, after it has said what goes with each of them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import on_cluster, rollout_name
from rollouts.cli.terminal.prompt import YesOption, confirmation
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.in_place import in_place
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.cli.view.reading import look
from rollouts.cli.view.session import Options, open_session
from rollouts.core.lifecycle.in_place import left_in_update
from rollouts.core.model.rollout import named_services
from rollouts.core.model.status import Phase
from rollouts.errors import SpecInvalid
from rollouts.objects import ROLLOUT


@on_cluster
async def delete(
    options: Options,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME…", help="Names of Rollouts.", show_default=False, parser=rollout_name),
    ],
    yes: YesOption = False,
) -> Exit:
    """Delete Rollouts with their pods. Says what is lost and asks, on a terminal.

    A workload that is updated in place keeps its pods.
    """
    confirm, console = confirmation("the deletion", yes=yes), Console()
    async with open_session(options) as session:
        seen = [await look(session, name) for name in dict.fromkeys(names)]
        if confirm is not None and not confirm("\n".join(plain(_losses(objects)) for objects in seen)):
            console.print("nothing was deleted", highlight=False)
            return Exit.BAD
        for objects in seen:
            metadata = objects.rollout["metadata"]
            await session.client.delete(ROLLOUT, session.namespace, metadata["name"], uid=metadata["uid"])
            stays = _stays(objects)
            print_line(console, f"{session.namespace}/{metadata['name']}: deleted{f'; {stays}' if stays else ''}")
    return Exit.OK


def _losses(seen: RolloutObjects) -> str:
    """What goes with a Rollout: `deletes shop/cart with 4 pods, of which 3 are ready, 3 revisions, …`."""
    from rollouts.api.spec.parse import parse_spec  # noqa: PLC0415 - main.py says why

    metadata, now = seen.rollout["metadata"], status_of(seen.rollout)
    unfinished = now.current_revision not in ("", now.stable_revision)
    if stays := _stays(seen):
        ends = ", and the update that is under way" if unfinished else ""
        return f"deletes {metadata['namespace']}/{metadata['name']} with its history and AnalysisRuns{ends}; {stays}"
    statuses = [replica_set.get("status") or {} for replica_set in seen.replica_sets]
    pods, ready = (sum(status.get(count, 0) for status in statuses) for count in ("replicas", "readyReplicas"))
    of_which = f", of which {ready} {'is' if ready == 1 else 'are'} ready" if pods else ""
    parts = [f"{count_of(pods, 'pod')}{of_which}", count_of(len(seen.replica_sets), "revision")]
    parts += ["their history and AnalysisRuns", *(["the update that is under way"] if unfinished else [])]
    text = f"deletes {metadata['namespace']}/{metadata['name']} with {', '.join(parts)}"
    try:
        services = sorted(map(str, named_services(parse_spec(seen.rollout["spec"]).strategy)))
    except SpecInvalid:
        services = []
    return f"{text}; Services stay without pods: {', '.join(services)}" if services else text


def _stays(seen: RolloutObjects) -> str:
    """What becomes of the workload that a Rollout updates in place; "" for pods of the Rollout's own."""
    if (workload := in_place(seen.rollout)) is None:
        return ""
    status, namespace = status_of(seen.rollout), seen.rollout["metadata"]["namespace"]
    at_rest = status.current_revision in ("", status.stable_revision) and status.phase is not Phase.ROLLED_BACK
    if at_rest:
        return f"{workload} keeps its pods, and rolls out new templates by itself from now on"
    return left_in_update(workload.kind, workload.name, namespace=namespace)
