"""The status of what has a queue of its own, AnalysisRuns and Experiments: one patch, of the version that was seen."""

from __future__ import annotations

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import metadata_of
from rollouts.cluster.structs import Metadata
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.errors import ApiConflict, ApiNotFound
from rollouts.objects import Key, Kind, Manifest
from rollouts.ports import MERGE_PATCH


async def write_status(
    client: Client, barrier: Barrier, kind: Kind, key: Key, *, seen: Metadata, patch: Manifest
) -> str:
    """Merges `patch` into the status of the object as it was seen; returns its new resourceVersion.

    Raises: what `Client` raises; ApiConflict also when the object is gone.
    """
    # With a resourceVersion in it, a merge patch on an old version is a conflict, not an overwrite.
    body = {"metadata": {"uid": seen.uid, "resourceVersion": seen.resource_version}, "status": patch}
    try:
        answer = await client.patch(kind, key.namespace, key.name, body, MERGE_PATCH, subresource="status")
    except ApiNotFound as exc:
        barrier.wrote(key, kind, key.name, resource_version=None, uid=seen.uid)
        raise ApiConflict(f"{kind.kind} {key} is gone") from exc
    except ApiConflict:
        barrier.outdated(key, kind, key.name, resource_version=seen.resource_version, uid=seen.uid)
        raise
    written = metadata_of(answer).resource_version
    barrier.wrote(key, kind, key.name, resource_version=written, uid=seen.uid)
    return written
