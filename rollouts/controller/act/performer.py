"""Carries out calls: writes in order, one at a time, up to the first failure; questions run beside them.

Nothing here answers `decide`: the effect of a write comes back through the watch, and the answer to a question through the inbox.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never

import structlog
from msgspec import Struct

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import json_object, metadata_of
from rollouts.cluster.store import Store, Table
from rollouts.controller.act.answers import Answers
from rollouts.controller.act.calls import (
    Adopt,
    Apply,
    Create,
    CreateCopy,
    CreateRoute,
    Delete,
    ObjectWrite,
    Patch,
    RemoveRolloutAnnotation,
    RolloutCall,
    Write,
    WriteStatus,
)
from rollouts.controller.act.disowning import disown
from rollouts.controller.configs.sources import Sources
from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.inbox import Inbox, WorkloadAnswer
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.workload_watches import forbidden_workload
from rollouts.core.model.config import ConfigKind, CopyLook
from rollouts.core.model.in_place_intents import RevertTemplate
from rollouts.core.model.intents import AskConfig, EvictPod
from rollouts.core.model.snapshot import EvictionRefused
from rollouts.core.model.traffic import RouteName
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES, WorkloadKind
from rollouts.errors import (
    APPLY_CRDS,
    ApiConflict,
    ApiExists,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiThrottled,
    RolloutsError,
    TerminalError,
)
from rollouts.json_pointer import json_pointer
from rollouts.manifests.adoption import adoption_patch
from rollouts.manifests.nodes import revert_patch
from rollouts.manifests.ownership import revision_of
from rollouts.objects import (
    ANALYSIS_RUN,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DAEMON_SET,
    EXPERIMENT,
    POD,
    REPLICA_SET,
    ROLLOUT,
    SERVICE,
    Key,
    Kind,
)
from rollouts.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Clock

log = structlog.get_logger()

_VERDICTS = b'"analyses"'  # the field of status, as the API server answers with it
_POD_METADATA = (
    "the controller may not patch pods, and metadata that follows the role of pods needs that: set the chart's podMetadata, or "
    "remove canaryMetadata, stableMetadata, activeMetadata and previewMetadata from the strategy"
)
_UNKNOWN_FIELD = "strict decoding error: unknown field"
"""Source: apimachinery, pkg/runtime/error.go, `strictDecodingError`."""
_IS_OLDER = "is older than that field: upgrade it, or remove what needs the field from the strategy"


class RouteWriteRefused(TerminalError):
    """The API server refuses a write of a route: another version, other rights or another policy may let it through."""

    def __init__(self, route: RouteName, cause: ApiForbidden | ApiInvalid) -> None:
        super().__init__(str(cause))
        self.route = route
        self.cause = cause


class CreationWriteRefused(TerminalError):
    """The API server refuses a ReplicaSet, or a copy that its pods will read: other rights or another quota may allow it."""

    def __init__(self, cause: ApiForbidden | ApiInvalid) -> None:
        super().__init__(str(cause))
        self.cause = cause


class RolloutVersion(Struct, frozen=True):
    """The Rollout and its version that the decision was made on."""

    key: Key
    uid: str
    resource_version: str


def _refused(call: Write, cause: ApiForbidden | ApiInvalid) -> RouteWriteRefused | CreationWriteRefused | None:
    """The error for a write that the next pass can do without; None for another one."""
    match call:
        case CreateRoute() | Patch() | Apply() | Delete() if call.route is not None:
            return RouteWriteRefused(call.route, cause)
        case Create(kind=kind) if kind == REPLICA_SET:
            return CreationWriteRefused(cause)
        case CreateCopy(owner=None):
            return CreationWriteRefused(cause)
        case _:
            return None


@dataclass(slots=True, kw_only=True, eq=False)
class Performer:
    """Performs the calls of `render`.

    Args:
        answers: runs the questions; their tasks end with its group.
        sources: reads and copies sources of configuration, in the same way.
    """

    client: Client
    store: Store
    barrier: Barrier
    inbox: Inbox
    queue: WorkQueue
    clock: Clock
    answers: Answers
    sources: Sources

    async def perform(self, target: RolloutVersion, calls: Sequence[RolloutCall]) -> int:
        """Makes the calls in order and returns how many were writes. Questions only start here.

        Guarantees: a write is sent after all writes before it have succeeded, only while this process leads, and with a deadline.
        Cancellation: safe; whether a write happened shows in the next snapshot.

        Raises: what `Client` raises, for the first write that failed; RouteWriteRefused instead, for one of a route that is
        refused, and CreationWriteRefused, for a ReplicaSet or a copy of a ConfigMap that is; ApiConflict also when an object is
        gone; ApiExists when an object of another owner has a name that we need.
        """
        writes = 0
        version = target.resource_version
        for call in calls:
            match call:
                case AskConfig(ref):
                    self.sources.ask((ref.kind, target.key.namespace, ref.name))
                case RemoveRolloutAnnotation() | WriteStatus():
                    version = await self._write_rollout(target, version, call)
                    writes += 1
                case (
                    Create()
                    | CreateRoute()
                    | CreateCopy()
                    | Patch()
                    | Adopt()
                    | Apply()
                    | Delete()
                    | EvictPod()
                    | RevertTemplate()
                ):
                    try:
                        await self._write(target, call)
                    except (ApiForbidden, ApiInvalid) as exc:
                        if (refused := _refused(call, exc)) is None:
                            raise
                        raise refused from exc
                    writes += 1
                case _:
                    self.answers.ask(target.key, target.uid, call)
        return writes

    async def _write(self, target: RolloutVersion, call: ObjectWrite) -> None:
        key = target.key
        match call:
            case Create():
                await self._create(key, call)
            case CreateCopy():
                await self._copy(target, call)
            case CreateRoute() | Apply():
                await self._make_route(key, call)
            case Patch():
                try:
                    await self._patch(key, call)
                except ApiForbidden as exc:
                    if call.kind not in WORKLOAD_RESOURCES:
                        raise
                    self._workload_forbidden(key, call, exc)
            case Adopt(patch=patch):
                await self._confirm(target)
                await self._patch(key, patch)
            case Delete():
                where = call.namespace or key.namespace
                with suppress(ApiNotFound):  # it is gone already, as wanted
                    await self.client.delete(call.kind, where, call.name, call.uid, call.resource_version)
                self.barrier.wrote(key, call.kind, call.name, resource_version=None, uid=call.uid, namespace=where)
            case EvictPod():
                await self._evict(key, call)
            case RevertTemplate():
                await self._revert(key, call)
            case _:
                assert_never(call)

    async def _revert(self, key: Key, call: RevertTemplate) -> None:
        """Writes the template of a ControllerRevision.

        Raises: ApiConflict when that is gone; ApiInvalid when it holds no template; what `Client` raises.
        """
        name = call.controller_revision
        try:
            kept = json_object(await self.client.get(CONTROLLER_REVISION, key.namespace, name))
        except ApiNotFound as exc:
            raise ApiConflict(f"ControllerRevision {name} is gone") from exc
        try:
            body = revert_patch(call, kept)
        except ValueError as exc:
            raise ApiInvalid(str(exc)) from exc
        await self._patch(key, Patch(kind=DAEMON_SET, name=call.name, uid=call.uid, body=body, content_type=JSON_PATCH))

    async def _copy(self, target: RolloutVersion, call: CreateCopy) -> None:
        key, name = target.key, call.use.copy
        existing = await self.sources.copy(key, call.rollout, call.use, call.owner)
        if existing is not None:
            uid, version = existing.uid, existing.resource_version
            has_owners = bool(existing.owner_references)
            body = adoption_patch(call.rollout, uid=uid, resource_version=version, has_owners=has_owners)
            await self._confirm(target)
            await self._patch(key, Patch(kind=CONFIG_MAP, name=name, uid=uid, body=body, content_type=JSON_PATCH))
        if call.use.kind is ConfigKind.SECRET:
            self.inbox.put_copy(key, name, CopyLook(self.clock.now_s(), there=True))

    async def _confirm(self, target: RolloutVersion) -> None:
        """Reads the Rollout live: a ReplicaSet that is adopted for a Rollout in deletion would be deleted with it.

        Source: `RecheckDeletionTimestamp` of pkg/controller/controller_ref_manager.go. Raises: ApiConflict; what `Client` raises.
        """
        key = target.key
        try:
            live = metadata_of(await self.client.get(ROLLOUT, key.namespace, key.name))
        except ApiNotFound as exc:
            self.barrier.wrote(key, ROLLOUT, key.name, resource_version=None, uid=target.uid)
            raise ApiConflict(f"Rollout {key} is gone") from exc
        if live.uid != target.uid or live.deletion_timestamp is not None:
            self.barrier.wrote(key, ROLLOUT, key.name, resource_version=live.resource_version, uid=live.uid)
            raise ApiConflict(f"Rollout {key} is being deleted, or was deleted and created again")

    async def _write_rollout(
        self, target: RolloutVersion, version: str, call: RemoveRolloutAnnotation | WriteStatus
    ) -> str:
        """Writes to the Rollout as it was at `version`; returns the new version, for the next write."""
        key = target.key
        body: Mapping[str, Any] | Sequence[Any]
        subresource: str | None = None
        match call:
            case WriteStatus(patch=patch):
                # With a resourceVersion in it, a merge patch on an old version is a conflict, not an overwrite.
                body = {"metadata": {"resourceVersion": version}, "status": patch}
                content_type, subresource = MERGE_PATCH, "status"
            case RemoveRolloutAnnotation(annotation=annotation, value=value, note=note):
                path = json_pointer("metadata", "annotations", annotation)
                body = [
                    {"op": "test", "path": path, "value": value},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                    {"op": "remove", "path": path},
                    *([{"op": "remove", "path": json_pointer("metadata", "annotations", note)}] if note else []),
                ]
                content_type = JSON_PATCH
            case _:
                assert_never(call)
        try:
            answer = await self.client.patch(
                ROLLOUT, key.namespace, key.name, body, content_type, subresource=subresource
            )
        except ApiNotFound as exc:
            # No further object is created for it: the garbage collector would delete each one, and each would cause a pass.
            self.barrier.wrote(key, ROLLOUT, key.name, resource_version=None, uid=target.uid)
            raise ApiConflict(f"Rollout {key} is gone") from exc
        except ApiConflict:
            self.barrier.outdated(key, ROLLOUT, key.name, resource_version=version, uid=target.uid)
            raise
        written = metadata_of(answer)
        self.barrier.wrote(key, ROLLOUT, key.name, resource_version=written.resource_version, uid=target.uid)
        if isinstance(call, WriteStatus) and call.patch.get("analyses") and _VERDICTS not in answer:
            # The server drops what its CRD does not have, and without the record no verdict ever counts.
            raise ApiInvalid(f"the CRD of rollouts is older than this controller: {APPLY_CRDS}")
        return written.resource_version

    async def _create(self, key: Key, call: Create) -> None:
        try:
            # A field that an older CRD drops would be missing in what is measured, and in the hash by which the run is known.
            strict = call.kind in (ANALYSIS_RUN, EXPERIMENT)
            answer = await self.client.create(call.kind, key.namespace, call.manifest, strict=strict)
            made = metadata_of(answer)
        except ApiExists as exc:
            # Most likely it is ours: the answer to an earlier attempt was lost, or our store is behind.
            try:
                made = metadata_of(await self.client.get(call.kind, key.namespace, call.name))
            except ApiNotFound:
                raise ApiConflict(f"{call.kind.kind} {call.name} was deleted while the controller read it") from exc
            if not is_controlled_by(made, key, call.owner_uid) or revision_of(made.labels or {}) != call.revision:
                raise ApiExists(
                    f"{call.kind.kind} {call.name} exists and is not controlled by this Rollout: delete it, or rename the Rollout"
                ) from exc
            if made.deletion_timestamp is not None:
                raise ApiConflict(f"{call.kind.kind} {call.name} is being deleted") from exc
        except ApiNotFound as exc:
            raise ApiConflict(f"namespace {key.namespace} is gone, or the CRD of {call.kind.plural}") from exc
        self.barrier.wrote(key, call.kind, call.name, resource_version=made.resource_version, uid=made.uid)

    async def _patch(self, key: Key, call: Patch) -> None:
        where = call.namespace or key.namespace
        table = self._watched(call.kind, where)
        shown = table is not None and table.get(where, call.name) is not None
        try:
            answer = await self.client.patch(
                call.kind, where, call.name, call.body, call.content_type, strict=call.strict
            )
        except ApiNotFound as exc:
            raise ApiConflict(f"{call.kind.kind} {call.name} is gone") from exc
        except ApiForbidden as exc:
            raise ApiForbidden(f"{_POD_METADATA}: {exc}" if call.kind == POD else str(exc)) from exc
        except ApiInvalid as exc:
            if "metadata.uid" in str(exc):  # another object now has the name
                raise ApiConflict(str(exc)) from exc
            if call.strict and _UNKNOWN_FIELD in str(exc):
                raise ApiInvalid(f"{exc}; the CRD of {call.kind.plural} in this cluster {_IS_OLDER}") from exc
            raise
        finally:
            self._forget_answers(key, call)
        answer = await disown(self.client, call, answer, namespace=where)
        if table is not None and (shown or not call.leaves_watch):
            # An object that leaves our filtered watch without having been in it would never be shown.
            written = metadata_of(answer)
            self.barrier.wrote(
                key, call.kind, call.name, resource_version=written.resource_version, uid=call.uid, namespace=where
            )

    def _workload_forbidden(self, key: Key, call: Patch, error: ApiForbidden) -> None:
        """Has the next pass report it, where that reads no watch: the pods that run need nothing of their workload.

        Raises: ApiForbidden for a workload that is watched: the next pass would see it, and try the same write at once.
        """
        why = forbidden_workload(call.kind, "patch", str(error))
        log.warning("workload_forbidden", rollout=str(key), workload=f"{call.kind.kind} {call.name}", why=str(error))
        if call.leaves_watch:
            return
        table = self._watched(call.kind, key.namespace)
        if table is not None and table.get(key.namespace, call.name) is not None:
            raise ApiForbidden(why) from error
        answer = WorkloadAnswer(
            kind=WorkloadKind(call.kind.kind),
            name=call.name,
            asked_s=self.clock.monotonic_s(),
            forbidden=why,
        )
        self.inbox.put_workload(key, answer)
        self.queue.add(key)

    async def _make_route(self, key: Key, call: CreateRoute | Apply) -> None:
        kind = call.kind
        where = call.namespace if isinstance(call, Apply) else key.namespace
        try:
            match call:
                case CreateRoute():
                    answer = await self.client.create(kind, where, call.manifest, strict=True)
                case Apply():
                    answer = await self.client.patch(kind, where, call.name, call.manifest, APPLY_PATCH)
        except ApiExists as exc:
            raise ApiConflict(f"{kind.kind} {call.name} already exists") from exc
        except ApiNotFound as exc:
            raise ApiConflict(f"{kind.kind} {call.name} cannot be created: its namespace or its kind is gone") from exc
        finally:
            self.inbox.route_changed(key, call.route)
        if self._watched(kind, where) is not None:
            made = metadata_of(answer)
            version = made.resource_version
            self.barrier.wrote(key, kind, call.name, resource_version=version, uid=made.uid, namespace=where)

    def _watched(self, kind: Kind, namespace: str) -> Table[Any] | None:
        """The table whose watch will show a write; None when no watch does."""
        table = self.store.watched(kind)
        return table if table is not None and table.covers(namespace) else None

    def _forget_answers(self, key: Key, call: Patch) -> None:
        if call.route is not None:
            self.inbox.route_changed(key, call.route)
        elif call.kind == SERVICE:
            self.inbox.service_changed(key, call.name)
        elif call.kind in WORKLOAD_RESOURCES:
            self.inbox.workload_changed(key)
        elif call.kind == POD:
            self.inbox.pods.pop(key, None)

    async def _evict(self, key: Key, call: EvictPod) -> None:
        try:
            await self.client.evict(key.namespace, call.name, call.uid)
        except ApiThrottled as exc:
            self.inbox.put_refusal(key, EvictionRefused(at_s=self.clock.now_s(), pod=call.name, message=str(exc)))
            self.queue.add(key)
            return
        except (ApiNotFound, ApiConflict):
            pass  # the pod is gone, or another pod has its name
        except RolloutsError:  # it may have been evicted
            self.inbox.pods.pop(key, None)
            raise
        self.inbox.pods.pop(key, None)
