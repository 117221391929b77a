"""Sources of configuration: read beside the passes for their hashes, and copied for a revision.

Secrets are looked at one by one, without their data, for as long as a Rollout names them: each costs a `get` by its name, and no
other right. A watch for each would need the rights to list and to watch it too, and keep a connection open.

Their contents pass through and are not kept. A read that fails is repeated until it is answered, or until nobody needs it; passes
see meanwhile why it failed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import decode_secret_metadata, metadata_of
from rollouts.cluster.store import Store
from rollouts.cluster.structs import ConfigMapMetadata, Metadata
from rollouts.controller.configs.contents import ContentRead, Contents, ReadFailed, SecretSeen
from rollouts.controller.configs.reads import (
    SourceRead,
    not_readable,
    read_failed,
    read_source,
    refusal_remedy,
    without_values,
)
from rollouts.controller.workqueue.askers import SourceKey
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.managed import is_rollout
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.intents import CopyOwner
from rollouts.core.model.rollout import Rollout
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnavailable,
    Delays,
    RolloutsError,
    remedy,
)
from rollouts.manifests.config_copy import config_copy, kind_of
from rollouts.manifests.ownership import CONFIG_COPY, CONFIG_COPY_VALUE, NAME, name_label
from rollouts.objects import CONFIG_MAP, SECRET, Key
from rollouts.ports import Clock

READ_AGAIN = Delays(transient_s=1.0, refused_s=60.0)
GONE_AGAIN_S = 1.0
READS_AT_ONCE = 32  # half of the connection's pool

LOOK_AGAIN_S = 30.0
"""How often a Secret is looked at; a kubelet follows one after 60 to 90 seconds."""
LOOKS_PER_S = 10.0
"""The most looks of one controller; with more than 300 Secrets those of large namespaces are looked at less often."""
LOOK_AGAIN_FAILED_S = 5.0
FAILED_TELL_S = 60.0
"""How long looks fail until what was seen before does not count any more; a refusal is told at once."""

log = structlog.get_logger()


def look_again_s(followed: Mapping[str, int], namespace: str) -> float:
    """How often each Secret of a namespace is looked at, in seconds, `LOOK_AGAIN_S` at least.

    All looks together are `LOOKS_PER_S` at most. A namespace that needs less than an equal part of these has what it needs; the
    rest is for the others, in equal parts. So nobody's thousands of Secrets keep another tenant waiting.

    Args:
        followed: the number of Secrets by namespace, >= 1.
    """
    rest_per_s = LOOKS_PER_S
    for index, count in enumerate(sorted(followed.values())):
        part_per_s = rest_per_s / (len(followed) - index)
        if count / LOOK_AGAIN_S > part_per_s:
            return max(LOOK_AGAIN_S, followed[namespace] / part_per_s)
        rest_per_s -= count / LOOK_AGAIN_S
    return LOOK_AGAIN_S


@dataclass(slots=True, kw_only=True, eq=False)
class Sources:
    """Reads sources for all Rollouts that name them, looks at Secrets, and copies them.

    Args:
        reads: owns the tasks; they end with it.
    """

    client: Client
    store: Store
    contents: Contents
    barrier: Barrier
    queue: WorkQueue
    clock: Clock
    reads: asyncio.TaskGroup
    _reading: dict[SourceKey, asyncio.Task[None]] = field(default_factory=dict)
    _room: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, READS_AT_ONCE))
    _following: dict[SourceKey, asyncio.Task[None]] = field(default_factory=dict)  # Secrets
    _in_namespace: Counter[str] = field(default_factory=Counter)  # how many of them

    def ask(self, source: SourceKey) -> None:
        """Starts to read a source, unless that is under way. The answer wakes everybody who names it.

        A Secret is looked at first, and from then on: its content may be known from a note, or need no read.
        """
        if source[0] is ConfigKind.SECRET and source not in self._following:
            self._following[source] = self.reads.create_task(self._follow(source))
            self._in_namespace[source[1]] += 1
        elif source not in self._reading:
            self._reading[source] = self.reads.create_task(self._read(source))

    def stop(self) -> None:
        """Ends all reads and looks, because no pass will need them."""
        for task in (*self._following.values(), *self._reading.values()):
            task.cancel()

    async def copy(
        self, key: Key, rollout: Rollout, use: ConfigUse, owner: CopyOwner | None
    ) -> ConfigMapMetadata | None:
        """Makes the copy, unless it exists. Returns an existing one that the Rollout must adopt; None when nothing is left to do.

        Raises: ApiConflict, when the source has another content by now, or the copy is being deleted; ApiExists, when an object
        that is no such copy has its name; what `Client` raises.
        """
        source_key = (use.kind, key.namespace, use.source)
        try:
            source = await read_source(self.client, *source_key)
        except ApiNotFound as exc:
            self._show_secret(source_key, None)
            raise ApiConflict(f"{use.kind} {use.source} was deleted meanwhile") from exc
        except ApiForbidden as exc:
            raise not_readable(use.kind, use.source, exc) from exc
        self.contents.put(source_key, _content_of(source))
        self._show_secret(source_key, source)
        if source.content != use.content or source.is_token:
            raise ApiConflict(f"{use.kind} {use.source} has another content by now")
        manifest = config_copy(
            rollout, use, data=source.data, binary_data=source.binary_data, secret_type=source.type, owner=owner
        )
        try:
            made = metadata_of(await self.client.create(kind_of(use.kind), key.namespace, manifest))
        except ApiExists as exc:
            if use.kind is ConfigKind.SECRET:
                return None  # of this ReplicaSet, and the answer was lost: nothing else has such a name
            return await self._existing(key, rollout, use, exc)
        except ApiNotFound as exc:
            raise ApiConflict(f"namespace {key.namespace} is gone") from exc
        except (ApiForbidden, ApiInvalid) as exc:
            why = f"{without_values(str(exc), source)}{refusal_remedy(use.kind, str(exc))}"
            if isinstance(exc, ApiForbidden):
                raise ApiForbidden(f"the copy of {use.kind} {use.source} cannot be created: {why}") from None
            raise ApiInvalid(f"the copy of {use.kind} {use.source} is refused: {why}") from None
        if use.kind is ConfigKind.CONFIG_MAP:  # no watch shows a Secret
            version = made.resource_version
            known = ContentRead(uid=made.uid, resource_version=version, content=use.content, immutable=True)
            self.contents.put((use.kind, key.namespace, use.copy), known)
            self.barrier.wrote(key, CONFIG_MAP, use.copy, resource_version=version, uid=made.uid)
        return None

    def _show_secret(self, source: SourceKey, read: SourceRead | None) -> None:
        """A read of a Secret is a look at it, too; no watch brings one."""
        if source[0] is ConfigKind.SECRET:
            seen = SecretSeen(read.metadata if read is not None else None)
            self.contents.look(source, seen, now_s=self.clock.now_s())

    async def _existing(self, key: Key, rollout: Rollout, use: ConfigUse, error: ApiExists) -> ConfigMapMetadata | None:
        """The existing copy of a ConfigMap, if the Rollout must adopt it. Raises: as `copy`."""
        try:
            existing = await read_source(self.client, use.kind, key.namespace, use.copy)
        except ApiNotFound:
            raise ApiConflict(f"{use.kind} {use.copy} was deleted while the controller read it") from error
        metadata = existing.metadata
        if metadata.deletion_timestamp is not None:
            raise ApiConflict(f"{use.kind} {use.copy} is being deleted") from error
        if why := _why_no_copy(existing, rollout, use):
            message = f"{use.kind} {use.copy} is not the copy of {use.source} that this Rollout needs: {why}; delete it"
            raise ApiExists(message) from error
        self.contents.put((use.kind, key.namespace, use.copy), _content_of(existing))
        self.barrier.wrote(key, CONFIG_MAP, use.copy, resource_version=metadata.resource_version, uid=metadata.uid)
        if rollout.spec.config_versioning.retain or is_controlled_by(metadata, key, rollout.uid):
            return None
        owners = metadata.owner_references or ()
        if any(is_rollout(owner) and owner.name == key.name for owner in owners):
            raise ApiConflict(f"{use.kind} {use.copy} goes with an earlier Rollout {key}") from error
        if any(owner.controller for owner in owners):
            raise ApiExists(f"{use.kind} {use.copy} exists and another object controls it; delete it") from error
        return metadata

    async def _follow(self, source: SourceKey) -> None:
        """Looks until nobody names the Secret; never fails the task group."""
        seen_at_s = self.clock.monotonic_s()
        first = True
        try:
            while self.contents.askers.count(source):
                async with self._room:
                    seen = await self._look(source)
                now_s = self.clock.monotonic_s()
                if seen.failed is None:
                    seen_at_s = now_s
                known = self.contents.secrets.get(source)
                tells = seen.failed is None or seen.failed.needs_a_person or known is None
                if (tells or now_s - seen_at_s >= FAILED_TELL_S) and self.contents.look(
                    source, seen, now_s=self.clock.now_s()
                ):
                    for key in self.contents.askers.of(source):
                        self.queue.add(key)
                await asyncio.sleep(self._pause_s(source, seen, first=first))
                first = first and seen.failed is not None
        finally:
            self._following.pop(source, None)
            self._in_namespace -= Counter((source[1],))
            self.contents.secrets.pop(source, None)

    def _pause_s(self, source: SourceKey, seen: SecretSeen, *, first: bool) -> float:
        """Until the next look. After the first one a part of the time, so that not all Secrets are looked at in one moment."""
        if seen.failed is not None and not seen.failed.needs_a_person:
            return LOOK_AGAIN_FAILED_S
        again_s = look_again_s(self._in_namespace, source[1])
        return again_s * (0.5 + zlib.crc32("/".join(source).encode()) / 2**33) if first else again_s

    async def _look(self, source: SourceKey) -> SecretSeen:
        _, namespace, name = source
        try:
            answer = await self.client.get(SECRET, namespace, name, metadata_only=True)
            return SecretSeen(decode_secret_metadata(answer))
        except ApiNotFound:
            return SecretSeen()
        except Exception as exc:
            if not isinstance(exc, RolloutsError):  # a bug; it affects this Secret alone
                log.exception("secret_look_crashed", namespace=namespace, name=name)
            failed = read_failed(ConfigKind.SECRET, name, exc)
            log.warning("secret_not_seen", namespace=namespace, name=name, why=failed.message)
            return SecretSeen(failed=failed)

    async def _read(self, source: SourceKey) -> None:
        """Reads a source until there is an answer, or nobody needs one; never fails the task group."""
        try:
            while self._is_needed(source):
                async with self._room:
                    answer, again_s = await self._attempt(source)
                if answer is not None:
                    self.contents.put(source, answer)
                    for key in self.contents.askers.of(source):
                        self.queue.add(key)
                if again_s is None:
                    return
                await asyncio.sleep(again_s)
        finally:
            self._reading.pop(source, None)

    async def _attempt(self, source: SourceKey) -> tuple[ContentRead | ReadFailed | None, float | None]:
        """What one read says, None for nothing yet, and in how many seconds to read again, None for never."""
        kind, namespace, name = source
        try:
            read = await read_source(self.client, kind, namespace, name)
            shown = self._shown(source)
            if shown is not None and read.metadata.version < shown.version:
                raise ApiUnavailable(f"{kind} {name} was read in an older version than the watch has shown")
            self._show_secret(source, read)
            return _content_of(read), None
        except ApiNotFound:
            return None, GONE_AGAIN_S  # the watch, or the next look, will say that it is gone; only that counts
        except Exception as exc:
            answer, again_s = read_failed(kind, name, exc), remedy(exc, READ_AGAIN).in_s
            why = answer.message if isinstance(exc, ApiForbidden) else str(exc)
            if not isinstance(exc, RolloutsError):  # a bug; it affects this source alone, whatever the answer was
                log.exception("source_read_crashed", kind=kind, namespace=namespace, name=name)
                why = "see the traceback"
            log.warning("source_not_read", kind=kind, namespace=namespace, name=name, why=why, again_in_s=again_s)
            return answer, again_s

    def _is_needed(self, source: SourceKey) -> bool:
        """Whether somebody names the source, it exists, and its content is not known."""
        shown, read = self._shown(source), self.contents.get(source)
        if shown is None or not self.contents.askers.count(source):
            return False
        return not isinstance(read, ContentRead) or int(read.resource_version) < shown.version

    def _shown(self, source: SourceKey) -> Metadata | None:
        """The source as its watch, or the last look at it, shows it."""
        kind, namespace, name = source
        if kind is ConfigKind.SECRET:
            secret = self.contents.secrets.get(source)
            return secret.metadata if secret is not None else None
        config_map = self.store.table(CONFIG_MAP).get(namespace, name)
        return config_map.metadata if config_map is not None else None


def _content_of(read: SourceRead) -> ContentRead:
    metadata = read.metadata
    return ContentRead(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        content=read.content,
        immutable=read.immutable,
        left_alone=read.is_token,
    )


def _why_no_copy(existing: SourceRead, rollout: Rollout, use: ConfigUse) -> str:
    """Why an object is not the copy that is needed, whatever its annotations say; "" when it is."""
    labels = existing.metadata.labels or {}
    wanted = {NAME: name_label(rollout.name), CONFIG_COPY: CONFIG_COPY_VALUE}
    if lacks := [f"{label}: {value}" for label, value in wanted.items() if labels.get(label) != value]:
        return f"it lacks the label {' and '.join(lacks)}"
    if not existing.immutable:
        return "it is not immutable"
    return "" if existing.content == use.content else "it has another content"
