"""Sources of configuration: read beside the passes for their hashes, and copied for a revision.

Their contents pass through and are not kept. A read that fails is repeated until it is answered, or until nobody needs it; passes
see meanwhile why it failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import decode_config, metadata_of
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigContent, Metadata
from rollouts.controller.act.calls import CreateCopy, Patch
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.contents import ContentRead, Contents, ReadFailed, SourceKey
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.config.content import content_hash
from rollouts.core.model.config import ConfigKind
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiForbidden,
    ApiNotFound,
    ApiUnavailable,
    RolloutsError,
    TransientError,
)
from rollouts.manifests.adoption import adoption_patch
from rollouts.manifests.config_copy import config_copy, kind_of
from rollouts.manifests.ownership import CONFIG_COPY, CONFIG_COPY_VALUE, FIELD_MANAGER, NAME, name_label
from rollouts.objects import Key
from rollouts.ports import JSON_PATCH

READ_AGAIN_S = 1.0
READ_AGAIN_REFUSED_S = 60.0  # somebody must change RBAC first
READ_AGAIN_CRASHED_S = 30.0
READS_AT_ONCE = 32  # half of the connection's pool

_OFF = "or set spec.configVersioning.mode: Off"
_ENTRIES = msgspec.json.Decoder(dict[str, str] | None)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """A ConfigMap or Secret as it was read; it is shown to nobody.

    Args:
        data: a ConfigMap's `data`.
        binary_data: a ConfigMap's `binaryData`, or a Secret's `data`; base64.
        content: the hash of both.
    """

    metadata: Metadata
    immutable: bool
    data: Mapping[str, str] = field(repr=False)
    binary_data: Mapping[str, str] = field(repr=False)
    content: str


async def read_source(client: Client, kind: ConfigKind, namespace: str, name: str) -> SourceRead:
    """One ConfigMap or Secret as it is now. Raises: what `Client.get` raises."""
    read = decode_config(await client.get(kind_of(kind), namespace, name))
    data, binary_data = _entries(read, kind)
    return SourceRead(
        metadata=read.metadata,
        immutable=read.immutable,
        data=data,
        binary_data=binary_data,
        content=content_hash(data, binary_data),
    )


class Sources:
    """Reads sources for all Rollouts that name them, and copies them.

    Args:
        reads: owns the tasks; they end with it.
    """

    def __init__(
        self,
        *,
        client: Client,
        store: Store,
        contents: Contents,
        barrier: Barrier,
        queue: WorkQueue,
        reads: asyncio.TaskGroup,
    ) -> None:
        self._client = client
        self._store = store
        self._contents = contents
        self._barrier = barrier
        self._queue = queue
        self._reads = reads
        self._reading: dict[SourceKey, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(READS_AT_ONCE)

    def ask(self, source: SourceKey) -> None:
        """Starts to read a source, unless that is under way. The answer wakes everybody who names it."""
        if source not in self._reading:
            self._reading[source] = self._reads.create_task(self._read(source))

    def stop(self) -> None:
        """Ends all reads, because no pass will need them."""
        for task in self._reading.values():
            task.cancel()

    async def copy(self, key: Key, call: CreateCopy) -> Patch | None:
        """Makes the copy, unless it exists. Returns the patch that adopts an existing one; None when nothing is left to do.

        Raises: ApiConflict, when the source has another content by now, or the copy is being deleted; ApiExists, when an object
        that is no such copy has its name; what `Client` raises.
        """
        use = call.use
        kind = kind_of(use.kind)
        try:
            source = await read_source(self._client, use.kind, key.namespace, use.source)
        except ApiNotFound as exc:
            raise ApiConflict(f"{use.kind} {use.source} was deleted meanwhile") from exc
        except ApiForbidden as exc:
            raise _not_readable(use.kind, use.source, exc) from exc
        self._contents.put((use.kind, key.namespace, use.source), _content_of(source))
        if source.content != use.content:
            raise ApiConflict(f"{use.kind} {use.source} has another content by now")
        manifest = config_copy(call.rollout, use, data=source.data, binary_data=source.binary_data)
        try:
            made = metadata_of(await self._client.create(kind, key.namespace, manifest, FIELD_MANAGER))
        except ApiExists as exc:
            return await self._existing(key, call, exc)
        except ApiNotFound as exc:
            raise ApiConflict(f"namespace {key.namespace} is gone") from exc
        except ApiForbidden as exc:
            remedy = "" if "quota" in str(exc) else f"; grant create of {kind.plural}, {_OFF}"
            raise ApiForbidden(f"the copy of {use.kind} {use.source} cannot be created: {exc}{remedy}") from exc
        self._barrier.wrote(key, kind, use.copy, resource_version=made.resource_version, uid=made.uid)
        return None

    async def _existing(self, key: Key, call: CreateCopy, error: ApiExists) -> Patch | None:
        """The patch that an existing copy needs; None for none. Raises: as `copy`."""
        rollout, use = call.rollout, call.use
        kind = kind_of(use.kind)
        try:
            found = await read_source(self._client, use.kind, key.namespace, use.copy)
        except ApiNotFound:
            raise ApiConflict(f"{use.kind} {use.copy} was deleted while the controller read it") from error
        metadata = found.metadata
        if metadata.deletion_timestamp is not None:
            raise ApiConflict(f"{use.kind} {use.copy} is being deleted") from error
        if why := _why_no_copy(found, call):
            message = f"{use.kind} {use.copy} is not the copy of {use.source} that this Rollout needs: {why}; delete it"
            raise ApiExists(message) from error
        self._barrier.wrote(key, kind, use.copy, resource_version=metadata.resource_version, uid=metadata.uid)
        if rollout.spec.config_versioning.retain or is_controlled_by(metadata, key, rollout.uid):
            return None
        owners = metadata.owner_references or ()
        if any(is_rollout(each) and each.name == key.name for each in owners):
            raise ApiConflict(f"{use.kind} {use.copy} goes with an earlier Rollout {key}") from error
        if any(each.controller for each in owners):
            raise ApiExists(f"{use.kind} {use.copy} exists and another object controls it; delete it") from error
        body = adoption_patch(
            rollout, uid=metadata.uid, resource_version=metadata.resource_version, has_owners=bool(owners)
        )
        return Patch(kind=kind, name=use.copy, uid=metadata.uid, body=body, content_type=JSON_PATCH)

    async def _read(self, source: SourceKey) -> None:
        """Reads a source until there is an answer, or nobody needs one; never fails the task group."""
        try:
            while self._is_needed(source):
                async with self._room:
                    answer, again_s = await self._attempt(source)
                if answer is not None:
                    self._contents.put(source, answer)
                    for key in self._contents.askers.of(source):
                        self._queue.add(key)
                if again_s is None:
                    return
                await asyncio.sleep(again_s)
        finally:
            self._reading.pop(source, None)

    async def _attempt(self, source: SourceKey) -> tuple[ContentRead | ReadFailed | None, float | None]:
        """What one read says, None for nothing yet, and in how many seconds to read again, None for never."""
        kind, namespace, name = source
        try:
            read = await read_source(self._client, kind, namespace, name)
            shown = self._shown(source)
            if shown is not None and read.metadata.version < shown.version:
                raise ApiUnavailable(f"{kind} {name} was read in an older version than the watch has shown")
            return _content_of(read), None
        except ApiNotFound:
            return None, READ_AGAIN_S  # the watch will say that it is gone; only that counts
        except ApiForbidden as exc:
            failed, again_s = str(_not_readable(kind, name, exc)), READ_AGAIN_REFUSED_S
            answer = ReadFailed(message=failed, needs_a_person=True)
        except RolloutsError as exc:
            failed, again_s = str(exc), READ_AGAIN_S if isinstance(exc, TransientError) else READ_AGAIN_REFUSED_S
            answer = ReadFailed(message=f"{kind} {name} cannot be read: {exc}", needs_a_person=False)
        except Exception:  # a bug; it affects this source alone, whatever the answer was
            log.exception("source_read_crashed", kind=kind, namespace=namespace, name=name)
            failed, again_s = "see the traceback", READ_AGAIN_CRASHED_S
            answer = ReadFailed(
                message=f"{kind} {name} cannot be read; the controller's log says why", needs_a_person=False
            )
        log.warning("source_not_read", kind=kind, namespace=namespace, name=name, why=failed, again_in_s=again_s)
        return answer, again_s

    def _is_needed(self, source: SourceKey) -> bool:
        """Whether somebody names the source, it exists, and its content is not known."""
        shown, read = self._shown(source), self._contents.get(source)
        if shown is None or not self._contents.askers.count(source):
            return False
        return not isinstance(read, ContentRead) or int(read.resource_version) < shown.version

    def _shown(self, source: SourceKey) -> Metadata | None:
        """The source as its watch shows it."""
        kind, namespace, name = source
        table = self._store.watched(kind_of(kind))
        shown = table.get(namespace, name) if table is not None else None
        return shown.metadata if shown is not None else None


def _entries(read: ConfigContent, kind: ConfigKind) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Text and base64 by key. Raises: ApiUnavailable, without any part of it."""
    try:
        data = (_ENTRIES.decode(read.data) if bytes(read.data) else None) or {}
        binary_data = (_ENTRIES.decode(read.binary_data) if bytes(read.binary_data) else None) or {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ApiUnavailable(f"the data of {kind} {read.metadata.name} cannot be read") from None
    return ({}, data) if kind is ConfigKind.SECRET else (data, binary_data)


def _content_of(read: SourceRead) -> ContentRead:
    metadata = read.metadata
    return ContentRead(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        content=read.content,
        immutable=read.immutable,
    )


def _not_readable(kind: ConfigKind, name: str, why: ApiForbidden) -> ApiForbidden:
    return ApiForbidden(
        f"the controller may not read {kind} {name}: grant get of {kind_of(kind).plural}, {_OFF}: {why}"
    )


def _why_no_copy(found: SourceRead, call: CreateCopy) -> str:
    """Why an object is not the copy that is needed, whatever its annotations say; "" when it is."""
    labels = found.metadata.labels or {}
    wanted = {NAME: name_label(call.rollout.name), CONFIG_COPY: CONFIG_COPY_VALUE}
    if lacks := [f"{label}: {value}" for label, value in wanted.items() if labels.get(label) != value]:
        return f"it lacks the label {' and '.join(lacks)}"
    if not found.immutable:
        return "it is not immutable"
    return "" if found.content == call.use.content else "it has another content"
