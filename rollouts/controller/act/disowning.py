"""Leaves the user's fields to the user: our field manager owns no field that a write of ours has given back."""

from __future__ import annotations

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import manifest_from
from rollouts.controller.act.calls import Patch
from rollouts.errors import ApiConflict, ApiInvalid, ApiNotFound
from rollouts.manifests.in_place import disowned
from rollouts.ports import JSON_PATCH

TRIES = 3
"""Another field manager may write in between, so that our entry of `managedFields` has another place."""

log = structlog.get_logger()


async def disown(client: Client, call: Patch, answer: bytes, *, namespace: str) -> bytes:
    """Takes our field manager off the spec of the object that `call` has patched, if it `disowns`; returns the last answer.

    Nothing depends on it: what is left after a crash in between goes with the next update.

    Args:
        answer: to the call.

    Raises: what `Client` raises, but for an object that goes on changing, or that is gone.
    """
    if not call.disowns:
        return answer
    for _ in range(TRIES):
        if (body := disowned(manifest_from(answer))) is None:
            return answer
        try:
            return await client.patch(call.kind, namespace, call.name, body, JSON_PATCH)
        except (ApiConflict, ApiInvalid):
            answer = await client.get(call.kind, namespace, call.name)
        except ApiNotFound:
            return answer
    log.info("fields_stay_owned", kind=call.kind.kind, namespace=namespace, name=call.name)
    return answer
