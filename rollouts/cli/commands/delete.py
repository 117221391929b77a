"""`rollouts delete`: deletes Rollouts, after it has said what goes with each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.verbs import look
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.cli.view.session import Options, open_session
from rollouts.core.model.rollout import named_services
from rollouts.errors import SpecInvalid
from rollouts.objects import ROLLOUT


async def delete(
    options: Options, names: Sequence[str], *, confirm: Callable[[str], bool] | None, console: Console
) -> Exit:
    """Deletes the Rollouts.

    Args:
        confirm: called once, with what is lost; on False nothing is deleted. None does not ask.

    Raises: ApiNotFound, before anything is deleted; ApiConflict, when another Rollout of that name has taken its place; what
        `Client` raises.
    """
    async with open_session(options) as session:
        seen = [await look(session, name) for name in dict.fromkeys(names)]
        if confirm is not None and not confirm("\n".join(plain(losses(each)) for each in seen)):
            console.print("nothing was deleted", highlight=False)
            return Exit.BAD
        for each in seen:
            metadata = each.rollout["metadata"]
            await session.client.delete(ROLLOUT, session.namespace, metadata["name"], uid=metadata["uid"])
            print_line(console, f"{session.namespace}/{metadata['name']}: deleted")
    return Exit.OK


def losses(seen: RolloutObjects) -> str:
    """What goes with a Rollout: `deletes shop/cart with 4 pods, which serve no requests any more, 3 revisions, …`."""
    metadata, status = seen.rollout["metadata"], status_of(seen.rollout)
    pods = sum((replica_set.get("status") or {}).get("replicas", 0) for replica_set in seen.replica_sets)
    unfinished = status.current_revision not in ("", status.stable_revision)
    parts = [f"{count_of(pods, 'pod')}, which serve no requests any more", count_of(len(seen.replica_sets), "revision")]
    parts += ["their history and AnalysisRuns", *(["the update that is under way"] if unfinished else [])]
    text = f"deletes {metadata['namespace']}/{metadata['name']} with {', '.join(parts)}"
    try:
        services = sorted(map(str, named_services(parse_spec(seen.rollout["spec"]).strategy)))
    except SpecInvalid:
        services = []
    return f"{text}; Services stay without pods: {', '.join(services)}" if services else text
