"""Looks for one Rollout, and says which ones there are when there is none of that name."""

from __future__ import annotations

import difflib

from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import ApiNotFound, RolloutsError
from rollouts.objects import ROLLOUT, Manifest

NAMES_SHOWN = 5


async def the_rollout(session: Session, name: str, *, namespace: str = "") -> Manifest:
    """The Rollout of that name in a namespace, by default the session's.

    Raises: ApiNotFound, with names that there are; what `Client` raises.
    """
    try:
        return manifest_from(await session.client.get(ROLLOUT, namespace or session.namespace, name))
    except ApiNotFound as absent:
        raise await no_rollout(session, name) from absent


async def no_rollout(session: Session, name: str) -> ApiNotFound:
    """The error about a Rollout that is not there. Raises: ApiNotFound, when the cluster does not serve Rollouts at all."""
    said = f"there is no Rollout {name} in namespace {session.namespace}"
    try:
        found, _ = await list_all(session, Collection(kind=ROLLOUT, namespace=session.namespace))
    except ApiNotFound:
        raise
    except RolloutsError:  # whoever may read one may not always list them
        return ApiNotFound(said)
    names = sorted(rollout["metadata"]["name"] for rollout in found)
    if close := difflib.get_close_matches(name, names, n=1):
        return ApiNotFound(f"{said}; did you mean {close[0]}?")
    if not names:
        return ApiNotFound(f"{said}, nor any other: see `kubectl rollouts list -A`")
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ApiNotFound(f"{said}; there are {', '.join(names[:NAMES_SHOWN])}{more}")
