"""Gives back Services whose Rollout is gone: left alone they would select one revision's pods for ever.

Event-driven: a deleted Rollout and a Service that names an unknown one both bring their key to the queue, and a pass over a
key without a Rollout ends here. An API error is never read as "the Rollout is gone".
"""

from __future__ import annotations

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.store import Store
from rollouts.cluster.structs import metadata_of
from rollouts.controller.barrier import Barrier
from rollouts.controller.steered import SteeredServices, managed_by
from rollouts.core.intents import ReleaseService
from rollouts.errors import ApiNotFound
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.manifests.service import release_service
from rollouts.objects import ROLLOUT, SERVICE, Key
from rollouts.ports import MERGE_PATCH

log = structlog.get_logger()


class Orphans:
    """Releases what a Rollout that no longer exists has steered."""

    def __init__(self, *, client: Client, store: Store, barrier: Barrier, steered: SteeredServices) -> None:
        self._client = client
        self._store = store
        self._barrier = barrier
        self._steered = steered

    async def release(self, key: Key) -> int:
        """Releases every Service that Rollout `key`, which our store does not have, steers; answers how many.

        Guarantees: nothing is written unless the store is complete and the API server itself says 404 for the Rollout.
        Raises: what `Client` raises; some may have been released by then, the rest will be when it is tried again.
        """
        names = self._steered.of(key)
        if not names or not (self._store.table(ROLLOUT).synced.is_set() and self._store.table(SERVICE).synced.is_set()):
            return 0
        try:
            await self._client.get(ROLLOUT, key.namespace, key.name)
        except ApiNotFound:
            pass
        else:
            return 0  # it has come back: its own pass will look after its Services
        released = 0
        for name in names:
            released += await self._release(key, name)
        return released

    async def _release(self, key: Key, name: str) -> int:
        service = self._store.table(SERVICE).get(key.namespace, name)
        if service is None or managed_by(service) != key.name:
            return 0
        intent = ReleaseService(name=name, uid=service.metadata.uid, resource_version=service.metadata.resource_version)
        try:
            answer = await self._client.patch(
                SERVICE, key.namespace, name, release_service(intent), MERGE_PATCH, field_manager=FIELD_MANAGER
            )
        except ApiNotFound:
            return 0
        version = metadata_of(answer).resource_version
        self._barrier.wrote(key, SERVICE, name, resource_version=version, uid=service.metadata.uid)
        log.info("service_released", rollout=str(key), service=name)
        return 1
