"""Carries calls out: writes one at a time and in order, stopping at the first failure; questions on the side.

Nothing here returns an answer to `decide`: what a write did comes back through the watch, what a question brought through the
inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.store import Store
from rollouts.cluster.structs import PodObject, decode, metadata_of
from rollouts.controller.barrier import Barrier
from rollouts.controller.calls import (
    Ask,
    Create,
    Delete,
    Evict,
    ListPods,
    Patch,
    ReadService,
    RemoveRolloutAnnotation,
    Write,
    WriteStatus,
)
from rollouts.controller.inbox import Inbox, ServiceAnswer
from rollouts.controller.pods import pod_page, pods_seen
from rollouts.controller.queue import WorkQueue
from rollouts.core.snapshot import EvictionRefused
from rollouts.errors import ApiConflict, ApiExists, ApiInvalid, ApiNotFound, ApiThrottled, RolloutsError, TransientError
from rollouts.manifests.ownership import FIELD_MANAGER, REVISION
from rollouts.objects import POD, REPLICA_SET, ROLLOUT, SERVICE, Key
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Clock

ASK_AGAIN_S = 1.0
ASK_AGAIN_REFUSED_S = 60.0  # somebody must change RBAC first
ASKS_AT_ONCE = 64  # as many as the connection's pool has room for
LISTS_AT_ONCE = 4  # the API server looks at every pod of a namespace to find those of one Rollout

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Target:
    """The Rollout that was decided on, in the version that was decided on."""

    key: Key
    uid: str
    resource_version: str


class Performer:
    """Performs what `render` wrote down.

    Args:
        questions: owns the tasks of questions; they end with it.
    """

    def __init__(
        self,
        *,
        client: Client,
        store: Store,
        barrier: Barrier,
        inbox: Inbox,
        queue: WorkQueue,
        clock: Clock,
        questions: asyncio.TaskGroup,
    ) -> None:
        self._client = client
        self._store = store
        self._barrier = barrier
        self._inbox = inbox
        self._queue = queue
        self._clock = clock
        self._questions = questions
        self._asking: dict[tuple[Key, Ask], asyncio.Task[None]] = {}
        self._room_for_asks = asyncio.Semaphore(ASKS_AT_ONCE)
        self._room_for_lists = asyncio.Semaphore(LISTS_AT_ONCE)

    async def perform(self, target: Target, calls: Sequence[Write | Ask]) -> int:
        """Makes the calls in order and answers how many were writes. Questions only start here.

        Guarantees: a write is sent after all before it have succeeded, after the fence has agreed, and with a deadline.
        Cancellation: safe; whether a write happened shows in the next snapshot.

        Raises: what `Client` raises, for the first write that failed; ApiConflict also when an object is gone; ApiExists
        when another owner has a name that we need.
        """
        writes = 0
        version = target.resource_version
        for call in calls:
            match call:
                case ReadService() | ListPods():
                    self._ask(target, call)
                case RemoveRolloutAnnotation() | WriteStatus():
                    version = await self._write_rollout(target, version, call)
                    writes += 1
                case Create() | Patch() | Delete() | Evict():
                    await self._write(target.key, call)
                    writes += 1
                case _:
                    assert_never(call)
        return writes

    def stop_asking(self) -> None:
        """Ends all questions: nobody will look at their answers."""
        for task in self._asking.values():
            task.cancel()

    async def _write_rollout(self, target: Target, version: str, call: RemoveRolloutAnnotation | WriteStatus) -> str:
        """Writes to the Rollout as it was at `version`; answers the version that this made, for the next write."""
        key = target.key
        try:
            match call:
                case WriteStatus(patch=patch):
                    # With a resourceVersion in it a merge patch of an older view is a conflict, not an overwrite.
                    body = {"metadata": {"resourceVersion": version}, "status": patch}
                    answer = await self._client.patch(
                        ROLLOUT,
                        key.namespace,
                        key.name,
                        body,
                        MERGE_PATCH,
                        subresource="status",
                        field_manager=FIELD_MANAGER,
                    )
                case RemoveRolloutAnnotation(annotation=annotation, value=value):
                    path = f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"
                    operations = [
                        {"op": "test", "path": path, "value": value},
                        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                        {"op": "remove", "path": path},
                    ]
                    answer = await self._client.patch(
                        ROLLOUT, key.namespace, key.name, operations, JSON_PATCH, field_manager=FIELD_MANAGER
                    )
                case _:
                    assert_never(call)
        except ApiNotFound as exc:
            # Nothing more is made for it meanwhile: the garbage collector would take it, and each would bring a pass.
            self._barrier.wrote(key, ROLLOUT, key.name, resource_version=None, uid=target.uid)
            raise ApiConflict(f"Rollout {key} is gone") from exc
        except ApiConflict:
            self._barrier.outdated(key, ROLLOUT, key.name, resource_version=version, uid=target.uid)
            raise
        written = metadata_of(answer)
        self._barrier.wrote(key, ROLLOUT, key.name, resource_version=written.resource_version, uid=target.uid)
        return written.resource_version

    async def _write(self, key: Key, call: Create | Patch | Delete | Evict) -> None:
        match call:
            case Create():
                await self._create(key, call)
            case Patch():
                await self._patch(key, call)
            case Delete():
                with suppress(ApiNotFound):  # that is what was wanted
                    await self._client.delete(call.kind, key.namespace, call.name, call.uid, call.resource_version)
                self._barrier.wrote(key, call.kind, call.name, resource_version=None, uid=call.uid)
            case Evict():
                await self._evict(key, call)
            case _:
                assert_never(call)

    async def _create(self, key: Key, call: Create) -> None:
        try:
            answer = await self._client.create(call.kind, key.namespace, call.manifest, FIELD_MANAGER)
            made = metadata_of(answer)
        except ApiExists as exc:
            # Most likely ours: the answer to an earlier attempt was lost, or our view is behind.
            try:
                made = metadata_of(await self._client.get(call.kind, key.namespace, call.name))
            except ApiNotFound:
                raise ApiConflict(f"{call.kind.kind} {call.name} went while it was looked at") from exc
            if made.controller_uid != call.owner_uid or (made.labels or {}).get(REVISION) != call.revision:
                raise ApiExists(f"{call.kind.kind} {call.name} exists and is not controlled by this Rollout") from exc
            if made.deletion_timestamp is not None:
                raise ApiConflict(f"{call.kind.kind} {call.name} is being deleted") from exc
        except ApiNotFound as exc:
            raise ApiConflict(f"namespace {key.namespace} is gone") from exc
        self._barrier.wrote(key, call.kind, call.name, resource_version=made.resource_version, uid=made.uid)

    async def _patch(self, key: Key, call: Patch) -> None:
        watched = call.kind in (REPLICA_SET, SERVICE)
        shown = watched and self._store.table(call.kind).get(key.namespace, call.name) is not None
        try:
            answer = await self._client.patch(
                call.kind, key.namespace, call.name, call.body, call.content_type, field_manager=FIELD_MANAGER
            )
        except ApiNotFound as exc:
            self._forget_answers(key, call)
            raise ApiConflict(f"{call.kind.kind} {call.name} is gone") from exc
        except ApiInvalid as exc:
            if "metadata.uid" in str(exc):  # another object has the name by now
                raise ApiConflict(str(exc)) from exc
            raise
        finally:
            self._forget_answers(key, call)
        if watched and (shown or not call.leaves_watch):
            # What leaves our filtered watch without having been in it would never be shown.
            written = metadata_of(answer)
            self._barrier.wrote(key, call.kind, call.name, resource_version=written.resource_version, uid=call.uid)

    def _forget_answers(self, key: Key, call: Patch) -> None:
        if call.kind == SERVICE:
            self._inbox.service_changed(key, call.name)
        elif call.kind == POD:
            self._inbox.pods_changed(key)

    async def _evict(self, key: Key, call: Evict) -> None:
        try:
            await self._client.evict(key.namespace, call.pod, call.uid)
        except ApiThrottled as exc:
            self._inbox.put_refusal(key, EvictionRefused(at_s=self._clock.now_s(), pod=call.pod, message=str(exc)))
            self._queue.add(key)
            return
        except (ApiNotFound, ApiConflict):
            pass  # gone already, or another pod has its name
        self._inbox.pods_changed(key)

    def _ask(self, target: Target, ask: Ask) -> None:
        if (target.key, ask) not in self._asking:
            self._asking[target.key, ask] = self._questions.create_task(self._question(target, ask))

    async def _question(self, target: Target, ask: Ask) -> None:
        """One question to its end, with whatever answer; never fails the group."""
        key = target.key
        try:
            async with self._room_for_lists if isinstance(ask, ListPods) else self._room_for_asks:
                match ask:
                    case ReadService(name=name):
                        self._inbox.put_service(key, name, await self._read_service(key, name))
                    case ListPods(label_selector=label_selector):
                        await self._list_pods(target, label_selector)
                    case _:
                        assert_never(ask)
            self._queue.add(key)
        except RolloutsError as exc:
            again_s = ASK_AGAIN_S if isinstance(exc, TransientError) else ASK_AGAIN_REFUSED_S
            log.warning(
                "question_failed", rollout=str(key), question=type(ask).__name__, error=str(exc), again_in_s=again_s
            )
            self._queue.add_at(key, self._clock.monotonic_s() + again_s)
        finally:
            self._asking.pop((key, ask), None)

    async def _read_service(self, key: Key, name: str) -> ServiceAnswer:
        asked_s = self._clock.monotonic_s()
        try:
            answer = await self._client.get(SERVICE, key.namespace, name)
        except ApiNotFound:
            return ServiceAnswer(None, asked_s)
        return ServiceAnswer(decode(SERVICE, answer), asked_s)

    async def _list_pods(self, target: Target, label_selector: str) -> None:
        at_s = self._clock.now_s()
        pods: list[PodObject] = []
        token = ""
        while True:
            page = pod_page(
                await self._client.list_page(
                    POD, target.key.namespace, label_selector=label_selector, continue_token=token
                )
            )
            pods.extend(page.items)
            token = page.continue_token
            if not token:
                break
        owners = self._store.table(REPLICA_SET).owned_by(target.uid)
        self._inbox.put_pods(target.key, pods_seen(pods, owners, at_s=at_s))
